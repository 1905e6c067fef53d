package publisher

import (
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

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
	f.open()
	encoder := <-f.turns
	defer func() {
		if f.pushing.Load() == 0 {
			encoder = nil
		}
		f.turns <- encoder
	}()
	if encoder == nil {
		// A batch is shorter than the window: one of them is history enough, not two.
		if encoder, err = newEncoder(zstd.WithLowerEncoderMem(true)); err != nil {
			return nil, err
		}
	}
	return encoder.EncodeAll(raw, nil), nil
}
