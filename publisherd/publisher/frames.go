package publisher

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// frameTurns is how many batch frames are compressed at once, over all sessions:
// each takes 12 MiB, most of it the window.
const frameTurns = 2

// A framer compresses batch frames. Its encoders are used again by whatever session
// comes next, and are gone when none has for a while.
// Its zero value is ready.
type framer struct {
	begin    sync.Once
	turns    chan struct{}
	encoders sync.Pool
}

func (f *framer) encode(raw []byte) ([]byte, error) {
	f.begin.Do(func() { f.turns = make(chan struct{}, frameTurns) })
	f.turns <- struct{}{}
	defer func() { <-f.turns }()
	encoder, ok := f.encoders.Get().(*zstd.Encoder)
	if !ok {
		var err error
		// A batch is shorter than the window: one of them is history enough, not two.
		if encoder, err = newEncoder(zstd.WithLowerEncoderMem(true)); err != nil {
			return nil, err
		}
	}
	defer f.encoders.Put(encoder)
	return encoder.EncodeAll(raw, nil), nil
}
