package publisher

import (
	"encoding/binary"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A heldFilter is a Bloom filter of the pages of an agreement's state: what it does
// not have the indexer was never offered, which spares a first push a look-up for
// each page. Of other pages it says so of one in eighty.
type heldFilter []uint64

// A filter is worth its scan of the state for a push that looks at many pages: at
// heldFilterFrom, and a sixteenth of the state, or more.
const (
	heldFilterFrom = 10_000
	heldFilterMost = 4 << 20 // words, 32 MiB: 26 million pages
)

// newHeldFilter fills a filter with the state that r shows. It has room for more
// pages besides. A push that looks at few pages has none.
func newHeldFilter(r durable.Reader, tree state.Tree, more uint64) (heldFilter, error) {
	_, held, err := tree.Root(r)
	if err != nil || more < max(heldFilterFrom, held/16) {
		return nil, err
	}
	f := make(heldFilter, min((held+more)*10/64+1, heldFilterMost))
	for it, err := range tree.LeavesAfter(r, nil) {
		if err != nil {
			return nil, err
		}
		f.add(&it.URLHash)
	}
	return f, nil
}

// place is the n-th of a page's four bits. The octets of h are as good as drawn.
func (f heldFilter) place(h *[32]byte, n int) (word, bit uint64) {
	at := binary.BigEndian.Uint64(h[8*n:])
	return at >> 6 % uint64(len(f)), 1 << (at & 63)
}

func (f heldFilter) add(h *[32]byte) {
	if f == nil {
		return
	}
	for n := range 4 {
		word, bit := f.place(h, n)
		f[word] |= bit
	}
}

// lacks reports that the state surely does not have h. No filter knows nothing.
func (f heldFilter) lacks(h *[32]byte) bool {
	if f == nil {
		return false
	}
	for n := range 4 {
		if word, bit := f.place(h, n); f[word]&bit == 0 {
			return true
		}
	}
	return false
}
