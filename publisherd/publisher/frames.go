package publisher

import (
	"math/bits"
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
// each takes 12 MiB, most of it the window.
const frameTurns = 2

// A framer compresses batch frames. Its encoders are used again by whatever session
// comes next, as long as any is pushing: what an encoder takes is taken once, and not
// whenever the collector has run. Its zero value is ready.
type framer struct {
	begin   sync.Once
	turns   chan *zstd.Encoder // frameTurns of them; nil is one that is yet to be made
	pushing atomic.Int32
}

func (f *framer) open() {
	f.begin.Do(func() {
		f.turns = make(chan *zstd.Encoder, frameTurns)
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
		if f.pushing.Add(-1) > 0 {
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

func (f *framer) encode(raw []byte) (frame []byte, err error) {
	if len(raw) <= smallFrame {
		return encodeFrame(raw, nil)
	}
	f.open()
	encoder := <-f.turns
	defer func() {
		if f.pushing.Load() == 0 {
			encoder = nil
		}
		f.turns <- encoder
	}()
	if encoder == nil {
		if encoder, err = newEncoder(maxWindow, 0); err != nil {
			return nil, err
		}
	}
	return encoder.EncodeAll(raw, nil), nil
}
