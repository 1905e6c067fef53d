package publisher

import (
	"io"
	"reflect"
	"sync"
)

// readers keeps the readers of sources between scans: what a server asked for,
// to be left alone for an hour say, is not forgotten with each round, and a
// mirror is open once. Its zero value is empty.
type readers struct {
	readersMu sync.Mutex
	byName    map[string]keptReader
}

type keptReader struct {
	source Source
	secret [32]byte
	reader reader
}

// lookup returns the reader of a source. It is made anew when the source's
// file, or its credential, has changed.
func (c *readers) lookup(dir string, s Source) (reader, error) {
	secret, err := s.secretSum(dir)
	if err != nil {
		return nil, err
	}
	c.readersMu.Lock()
	defer c.readersMu.Unlock()
	kept, ok := c.byName[s.Name]
	if ok && kept.secret == secret && sameSource(kept.source, s) {
		return kept.reader, nil
	}
	r, err := s.reader(dir, mirrorDir(dir, s.Name))
	if err != nil {
		return nil, err
	}
	if c.byName == nil {
		c.byName = make(map[string]keptReader)
	}
	if ok {
		closeReader(kept.reader) // one that is still in use opens its mirror again
	}
	c.byName[s.Name] = keptReader{s, secret, r}
	return r, nil
}

func (c *readers) close() {
	c.readersMu.Lock()
	defer c.readersMu.Unlock()
	for _, k := range c.byName {
		closeReader(k.reader)
	}
	clear(c.byName)
}

func closeReader(r reader) {
	if c, ok := r.(io.Closer); ok {
		c.Close()
	}
}

// sameSource reports whether two sources, as they are read from files, are one.
func sameSource(a, b Source) bool { return reflect.DeepEqual(a, b) }
