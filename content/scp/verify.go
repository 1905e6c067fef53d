package scp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"

	"github.com/uzpif-oi/uzpif-oi/internal/inorder"
)

// A sink takes the lines that were accepted, each valid until page returns. prepare
// comes before it, by several goroutines at once: it may note in a line what page needs,
// and is given the walker that has just read it.
type sink interface {
	prepare(c *checked, w *walker)
	page(c *checked) error
	flush() error
}

// A verifier is one reading of a collection. While one goroutine decompresses, splits
// and hashes, others check lines, and the one that called takes what they found in the
// order of the file: what is told, and what a file is rejected for, does not depend on
// who was faster. All have ended when verify returns.
type verifier struct {
	file  File
	lines *lines // of the goroutine that reads
	walk  *walker
	sink  sink
	warn  func(string)
	free  chan *chunk // chunksHeld of them; nil is one that is yet to be made
	stop  chan struct{}

	accept   func(*Collection) error
	line     int64 // that warn and rejections are about
	warnings int
	skipped  bool // marks the next warning
	blank    bool // a blank line was met
}

// A chunk is lines that stand one behind the other, and what was found in them. Its
// walker and builder are used again, as all of its memory.
type chunk struct {
	text  []byte
	ends  []int // of each line in text
	lines []checked
	first int64 // number of the first line

	walk  *walker
	build builder
}

const (
	chunkOctets = 128 << 10
	chunkLines  = 256
	// checkers is the most chunks that wait to be taken; with the one that is read, the
	// one that was taken and one in between there are chunksHeld.
	checkers   = 4
	chunksHeld = checkers + 3
)

func verify(r io.Reader, o Options, s sink) (*File, error) {
	u, err := unpack(r, o.Limits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRejected, err)
	}
	defer u.close()
	v := &verifier{
		lines: newLines(u), walk: newWalker(), sink: s, accept: o.Accept,
		free: make(chan *chunk, chunksHeld), stop: make(chan struct{}),
	}
	for range chunksHeld {
		v.free <- nil
	}
	v.warn = func(text string) {
		if v.warnings++; o.Warn == nil || v.warnings > MaxWarnings {
			return
		}
		if v.warnings == MaxWarnings {
			text = "more warnings than are told"
		}
		o.Warn(Warning{Line: v.line, Text: text, Skipped: v.skipped})
	}
	if err := v.run(); err != nil {
		return nil, err
	}
	v.file.Compression, v.file.Size, v.file.Packed = u.Compression, u.size, u.packed.n
	return &v.file, nil
}

// run reads all lines. Errors of the sink are the machine's, all others the
// file's.
func (v *verifier) run() error {
	v.line = 1
	line, err := v.lines.next()
	if err == nil {
		err = v.first(line)
	}
	if err == io.EOF {
		return fmt.Errorf("%w: the file is empty", ErrRejected)
	}
	if err != nil {
		return v.rejected(err)
	}
	for c, err := range inorder.Map(v.chunks(), min(runtime.GOMAXPROCS(0), checkers), v.check) {
		if err == nil {
			err = v.take(c)
		}
		if err != nil {
			close(v.stop) // the loop ends once whoever reads has ended
			if failed, ok := err.(*sinkError); ok {
				return failed.err
			}
			return v.rejected(err)
		}
		v.free <- c
	}
	if claim := v.file.Collection.Checksum; claim != "" {
		if err := v.lines.check(claim); err != nil {
			return fmt.Errorf("%w: %w", ErrRejected, err)
		}
	}
	if v.sink != nil {
		return v.sink.flush()
	}
	return nil
}

func (v *verifier) rejected(err error) error {
	if _, numbered := err.(*LineError); !numbered {
		err = &LineError{v.line, err}
	}
	return fmt.Errorf("%w: %w", ErrRejected, err)
}

type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

// first reads the metadata.
func (v *verifier) first(raw []byte) error {
	line, offset := raw, 0
	if rest, ok := bytes.CutPrefix(line, []byte("\xEF\xBB\xBF")); ok {
		v.warn("a byte order mark begins the file")
		line, offset = rest, len(raw)-len(rest)
	}
	offset += len(line) - len(bytes.TrimLeft(line, " \t\r\n"))
	c, where, err := v.walk.readCollection(trim(line), v.warn)
	if err != nil {
		return err
	}
	v.file.Collection = c
	if where.to > 0 {
		where.from, where.to = where.from+offset, where.to+offset
	}
	v.lines.sum(raw, where)
	if v.accept != nil {
		return v.accept(&c)
	}
	return nil
}

// errStopped says that nobody wants the rest.
var errStopped = errors.New("stopped")

// another gives a chunk to be filled, and false if the reading is to end.
func (v *verifier) another() (*chunk, bool) {
	select {
	case c := <-v.free:
		if c == nil {
			c = &chunk{walk: newWalker()}
		}
		c.reset()
		return c, true
	case <-v.stop:
		return nil, false
	}
}

func (c *chunk) reset() {
	if cap(c.text) > maxKept {
		c.text = nil
	}
	clear(c.lines)
	c.text, c.ends, c.lines = c.text[:0], c.ends[:0], c.lines[:0]
}

func (c *chunk) full() bool { return len(c.text) >= chunkOctets || len(c.ends) == chunkLines }

// chunks reads the lines behind the first. A line that is longer than maxKept is alone
// in memory while it is read and while it is checked.
func (v *verifier) chunks() iter.Seq2[*chunk, error] {
	return func(yield func(*chunk, error) bool) {
		var others []*chunk // all but c, while a long line is read
		c, going := v.another()
		next := func() bool { // hands c over
			if going = yield(c, nil); going {
				c, going = v.another()
			}
			return going
		}
		v.lines.alone = func() error {
			if len(c.ends) > 0 && !next() {
				return errStopped
			}
			for len(others) < chunksHeld-1 {
				o, ok := v.another()
				if !ok {
					return errStopped
				}
				others = append(others, o)
			}
			return nil
		}
		for going {
			raw, err := v.lines.next()
			switch {
			case err == errStopped:
				return
			case err != nil:
				if len(c.ends) > 0 && !yield(c, nil) || err == io.EOF {
					return
				}
				yield(nil, &LineError{v.lines.n, err})
				return
			}
			v.lines.sum(raw, cut{})
			if len(c.ends) == 0 {
				c.first = v.lines.n
			}
			if others == nil {
				c.text = append(c.text, raw...)
			} else {
				c.text = v.lines.give()
			}
			c.ends = append(c.ends, len(c.text))
			if others == nil && !c.full() {
				continue
			}
			if !next() {
				return
			}
			for _, o := range others { // that one was taken: no other was free
				v.free <- o
			}
			others = nil
		}
	}
}

// check reads the lines of a chunk, up to one that is at fault.
func (v *verifier) check(c *chunk) (*chunk, error) {
	from, room := 0, MaxWarnings // no more are told, of the whole file
	for _, end := range c.ends {
		c.lines = append(c.lines, checked{line: trim(c.text[from:end])})
		l := &c.lines[len(c.lines)-1]
		from = end
		if len(l.line) == 0 {
			continue
		}
		if l.read(c.walk, &c.build, room); l.err != nil {
			break
		}
		room -= len(l.odd)
		if l.skip == "" && v.sink != nil {
			v.sink.prepare(l, c.walk)
		}
	}
	return c, nil
}

// take takes the lines of a chunk.
func (v *verifier) take(c *chunk) error {
	for i := range c.lines {
		v.line = c.first + int64(i)
		if err := v.other(&c.lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// other takes a page line.
func (v *verifier) other(c *checked) error {
	if len(c.line) == 0 {
		v.blank = true // at the end it is tolerated
		return nil
	}
	if v.blank {
		return fmt.Errorf("a blank line before it is no JSON")
	}
	for _, s := range c.odd {
		v.warn(s)
	}
	if c.err != nil {
		return c.err
	}
	if c.skip != "" {
		v.file.Skipped++
		v.skipped = true
		v.warn("page skipped: " + c.skip)
		v.skipped = false
		return nil
	}
	for _, s := range c.page.Warnings {
		v.warn(s)
	}
	v.file.Pages++
	if v.sink == nil {
		return nil
	}
	if err := v.sink.page(c); err != nil && !errors.Is(err, ErrLimit) {
		return &sinkError{err}
	} else if err != nil {
		return err
	}
	return nil
}
