package publisher

import (
	"bytes"
	"crypto/sha256"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// Frames of up to smallFrame octets, and those under a dictionary of up to smallPatch
// with it, are made with small tables.
const (
	smallFrame = 256 << 10
	smallPatch = 32 << 10
)

// newEncoder makes the encoder of a frame of raw octets under a dictionary of so many,
// or 0, with options on top. A batch is shorter than the window: one of them is history
// enough, not two. The tables that pay for a batch take up to 20 MiB, and to make them
// takes several times as long as all else that a program does which sends one edited
// page. A few pages have small ones: they lose next to nothing, and a patch of one page
// at most a third (TestSmallFramesAreSmall).
func newEncoder(raw, dictionary int, options ...zstd.EOption) (*zstd.Encoder, error) {
	size := raw + dictionary
	window := min(maxWindow, max(smallFrame, 1<<bits.Len(uint(size))))
	all := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window)}
	if size <= smallPatch || dictionary == 0 && size <= smallFrame {
		all = append(all, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithAllLitEntropyCompression(true))
	} else {
		all = append(all, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	}
	return zstd.NewWriter(nil, append(all, options...)...)
}

// smallEncoder is that of all small frames without a dictionary: its tables are taken
// once. Two are at work at most; another waits.
var smallEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return newEncoder(smallFrame, 0, zstd.WithEncoderConcurrency(2))
})

// frameTurns is how many batch frames are compressed at once, over all sessions:
// each takes 12 MiB, most of it the window, and what it compresses.
const frameTurns = 2

// frameShares is how many of the last frames are kept for sessions that come to the same
// octets: who pushes one collection under one kind of grant makes the same batches, and
// compressing them is most of what a batch costs.
const frameShares = 4

// A framer compresses batch frames. What that takes is used again by whatever session
// comes next, as long as any is pushing: it is had once, and not whenever the collector
// has run. Its zero value is ready.
type framer struct {
	begin   sync.Once
	turns   chan *turn // frameTurns of them; nil is one that is yet to be made
	pushing atomic.Int32

	mu     sync.Mutex
	shared []*sharedFrame // the newest last
}

// A turn is what compressing a frame takes.
type turn struct {
	encoder    *zstd.Encoder
	raw, frame []byte
}

type sharedFrame struct {
	sum   [32]byte // of what was compressed
	made  chan struct{}
	frame []byte // nil if it came to nothing; set before
}

func (f *framer) open() {
	f.begin.Do(func() {
		f.turns = make(chan *turn, frameTurns)
		for range frameTurns {
			f.turns <- nil
		}
	})
}

// push says that a session pushes until the function that it gives is called.
func (f *framer) push() (done func()) {
	f.open()
	f.pushing.Add(1)
	return func() {
		left := f.pushing.Add(-1)
		if left < 2 {
			f.mu.Lock()
			f.shared = nil
			f.mu.Unlock()
		}
		if left > 0 {
			return
		}
		for range frameTurns {
			select {
			case <-f.turns:
				f.turns <- nil
			default: // at work, and not kept when it ends
			}
		}
	}
}

// encode compresses the size octets that build appends. The frame may be another
// session's as well, and is not to be changed.
func (f *framer) encode(size int, build func([]byte) ([]byte, error)) (frame []byte, err error) {
	if size <= smallFrame {
		raw, err := build(make([]byte, 0, size))
		if err != nil {
			return nil, err
		}
		return encodeFrame(raw, nil)
	}
	f.open()
	t := <-f.turns
	defer func() {
		if f.pushing.Load() == 0 {
			t = nil
		}
		f.turns <- t
	}()
	if t == nil {
		encoder, err := newEncoder(maxWindow, 0)
		if err != nil {
			return nil, err
		}
		t = &turn{encoder: encoder}
	}
	if t.raw, err = build(slices.Grow(t.raw[:0], size)); err != nil {
		return nil, err
	}
	if f.pushing.Load() < 2 {
		return t.encode(), nil
	}
	s, mine := f.share(sha256.Sum256(t.raw))
	if !mine {
		<-s.made // by who has the other turn, or has had one
		if s.frame != nil {
			return s.frame, nil
		}
		return t.encode(), nil
	}
	defer close(s.made) // even if the encoder does not return
	s.frame = t.encode()
	return s.frame, nil
}

// encode compresses t.raw. Frames are as long as they turn out: they are put together in
// memory that is used again.
func (t *turn) encode() []byte {
	t.frame = t.encoder.EncodeAll(t.raw, t.frame[:0])
	return bytes.Clone(t.frame)
}

// share finds the frame of what has that sum, or notes one that the caller is to make.
func (f *framer) share(sum [32]byte) (s *sharedFrame, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.shared {
		if s.sum == sum {
			return s, false
		}
	}
	s = &sharedFrame{sum: sum, made: make(chan struct{})}
	if f.shared = append(f.shared, s); len(f.shared) > frameShares {
		f.shared = slices.Delete(f.shared, 0, 1)
	}
	return s, true
}
