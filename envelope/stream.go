package envelope

import "cmp"

// A Position is the place of an object in its stream.
type Position struct {
	Epoch    uint64 `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	ID       Hash   `json:"object_id"`
}

// Position is where o stands in its stream.
func (o *Object) Position() Position { return Position{o.Epoch, o.Sequence, o.ID} }

// Compare orders by epoch first and by sequence within an epoch; timestamps
// never order objects.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.Sequence, q.Sequence))
}

// Advance decides whether next may follow p, the highest position seen in the
// stream (the zero Position if the stream is new). It reports whether next is
// newer; the exact replay of p is not, and no error. A lower position is
// ErrStale; the same position with another object is ErrEquivocates, and both
// objects are to be kept as evidence. A stored position that names no object
// is ErrState: what was lost is not taken for a stream that is new.
func (p Position) Advance(next Position) (newer bool, err error) {
	if next.ID.IsZero() {
		return false, refuse(ErrObjectID, "object_id", "missing")
	}
	if p == (Position{}) {
		return true, nil
	}
	switch c := next.Compare(p); {
	case p.ID.IsZero():
		return false, refuse(ErrState, "object_id", "missing at epoch %d sequence %d", p.Epoch, p.Sequence)
	case c > 0:
		return true, nil
	case c < 0:
		return false, refuse(ErrStale, "sequence", "epoch %d sequence %d, seen epoch %d sequence %d", next.Epoch, next.Sequence, p.Epoch, p.Sequence)
	case next.ID != p.ID:
		return false, refuse(ErrEquivocates, "object_id", "%s and %s at epoch %d sequence %d", p.ID, next.ID, p.Epoch, p.Sequence)
	}
	return false, nil
}
