package indexer

import (
	"bytes"
	"errors"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// FuzzCursor: a cursor is refused, or it is one that was given to this listener.
func FuzzCursor(f *testing.F) {
	r := newRig(f)
	r.example().held(3)
	own := listener{name: "spiffe://search.example/own", purpose: grants.SearchIndex}
	other := listener{name: "spiffe://search.example/own", purpose: grants.Archive}
	given := func(l listener) [][]byte {
		var all [][]byte
		for _, p := range []feedPlace{{}, {number: 2}, {number: 2, of: 3, walk: make([]byte, 32)}, {number: 3, end: true}} {
			all = append(all, r.x.feed.cursor(l, p))
		}
		return all
	}
	for _, c := range append(given(own), given(other)...) {
		f.Add(c)
		f.Add(c[:len(c)-1])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, err := r.x.feed.open(r.x.store, own, raw, true)
		known := false
		for _, c := range given(own) {
			known = known || bytes.Equal(c, raw)
		}
		if known != (err == nil) || err != nil && !errors.Is(err, grants.ErrCursor) {
			t.Errorf("open %x: %v", raw, err)
		}
	})
}
