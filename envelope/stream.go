package envelope

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
	switch {
	case p.Epoch != q.Epoch:
		return sign(p.Epoch, q.Epoch)
	default:
		return sign(p.Sequence, q.Sequence)
	}
}

func sign(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Advance decides whether next may follow p, the highest position seen in the
// stream (the zero Position if none). It reports whether next is new; the
// exact replay of p is not, and no error. A lower position is ErrStale; the
// same position with another object is ErrEquivocates, and both objects are
// to be kept as evidence.
func (p Position) Advance(next Position) (newer bool, err error) {
	if p.ID.IsZero() {
		return true, nil
	}
	switch c := next.Compare(p); {
	case c > 0:
		return true, nil
	case c < 0:
		return false, refuse(ErrStale, "sequence", "epoch %d sequence %d, seen epoch %d sequence %d", next.Epoch, next.Sequence, p.Epoch, p.Sequence)
	case next.ID != p.ID:
		return false, refuse(ErrEquivocates, "object_id", "%s and %s at epoch %d sequence %d", p.ID, next.ID, p.Epoch, p.Sequence)
	}
	return false, nil
}
