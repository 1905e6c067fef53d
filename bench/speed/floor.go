package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/peer"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
)

// frameBytes is how large a frame is before compression, as in the programs.
const frameBytes = 4 << 20

// floor is what has to be done to the pages of a collection whoever does it: the
// file is read and decompressed, each page is hashed, frames go to Pebble, with a row
// for each page, and each frame is synced. packed has frames compressed as ours are.
func floor(dir string, in input, packed bool) (_ ratio.Round, err error) {
	began, used := time.Now(), cpuTime()
	p, err := peer.OpenPebble(filepath.Join(dir, "pebble"))
	if err != nil {
		return nil, err
	}
	w := &floorWriter{db: p}
	name := "floor"
	if packed {
		name = "floor-packed"
		w.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	}
	if err = errors.Join(err, w.all(in.collection), p.Close()); err != nil {
		return nil, err
	}
	if w.pages != in.pages {
		return nil, fmt.Errorf("%d pages of %d", w.pages, in.pages)
	}
	took := time.Since(began)
	return ratio.Round{name: load.Sample{Rate: float64(w.pages) / took.Seconds(), CPU: (cpuTime() - used) / time.Duration(w.pages)}}, nil
}

type floorWriter struct {
	db      *peer.Pebble
	encoder *zstd.Encoder // nil: frames stay plain
	frame   []byte
	rows    [][2][]byte // of the frame's pages
	frames  uint64
	pages   int
}

func (w *floorWriter) all(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d, err := zstd.NewReader(f)
	if err != nil {
		return err
	}
	defer d.Close()
	in := bufio.NewScanner(d)
	in.Buffer(nil, 1<<20)
	for first := true; in.Scan(); first = false {
		if first {
			continue // what is said of the collection
		}
		if err := w.page(in.Bytes()); err != nil {
			return err
		}
	}
	return errors.Join(in.Err(), w.flush())
}

// page takes one page; its URL is the first member of its line.
func (w *floorWriter) page(line []byte) error {
	url, _, ok := bytes.Cut(bytes.TrimPrefix(line, []byte(`{"url":"`)), []byte(`"`))
	if !ok {
		return errors.New("a line of another form")
	}
	key, digest := sha256.Sum256(url), sha256.Sum256(line)
	row := binary.BigEndian.AppendUint64(append(digest[:], url...), uint64(len(w.frame)))
	w.rows = append(w.rows, [2][]byte{append([]byte("C"), key[:]...), row})
	w.frame = append(w.frame, line...)
	w.pages++
	if len(w.frame) < frameBytes {
		return nil
	}
	return w.flush()
}

func (w *floorWriter) flush() error {
	frame := w.frame
	if w.encoder != nil {
		frame = w.encoder.EncodeAll(frame, nil)
	}
	w.frames++
	err := w.db.Write(func(yield func(key, value []byte) bool) {
		if !yield(binary.BigEndian.AppendUint64([]byte("S"), w.frames), frame) {
			return
		}
		for _, r := range w.rows {
			if !yield(r[0], r[1]) {
				return
			}
		}
	})
	w.frame, w.rows = w.frame[:0], w.rows[:0]
	return err
}

// cpuTime is what this process has used of the processors so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
