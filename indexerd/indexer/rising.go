package indexer

import "github.com/uzpif-oi/uzpif-oi/internal/durable"

// risingItems is from how many pages on a batch is one of many: a publisher with a large
// collection brings those by the hashes of their URLs, so that each batch adds behind what
// the ones before have brought.
const risingItems = 2000

// rising is the series of which a session brings large batches.
type rising struct {
	sid  uint32
	done func() // nil if there is none
}

// batch is told of each batch before it is committed.
func (r *rising) batch(s *durable.Store, sid uint32, items int) {
	large := items >= risingItems
	if large && r.done != nil && r.sid == sid {
		return
	}
	r.end()
	if large {
		r.sid, r.done = sid, s.Ascending(sidKey('C', sid), stateTree(sid).Leaf(), feedSID(1, sid))
	}
}

func (r *rising) end() {
	if r.done != nil {
		r.done()
		r.done = nil
	}
}
