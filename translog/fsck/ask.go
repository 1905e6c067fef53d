package fsck

import (
	"context"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/internal/inorder"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// askAhead is how many sizes are asked about at once.
const askAhead = 8

// ask fetches what was published first at each of the sizes before the tree's:
// the last Options.Ask ones, and none that lies before After or From. A log
// names its predecessors by their hashes and not by their sizes, so that they
// can only be found by asking.
func (s *public) ask(ctx context.Context, j *judge) error {
	lo, from := uint64(0), s.o.From.Size()
	if s.tree.Size > s.o.Ask {
		lo = s.tree.Size - s.o.Ask
	}
	if a := s.o.After; a != nil && a.Size+1 >= lo && a.Size+1 >= from {
		lo = a.Size + 1
		j.last = &firsts{a.Size, a.ID, a.Previous, a.IssuedAt.Time}
	} else if from > lo {
		lo = from
	}
	j.chained, j.tail = true, lo > 0
	sizes := func(yield func(uint64, error) bool) {
		for n := lo; n < s.tree.Size && yield(n, nil); n++ {
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for c, err := range inorder.Map(sizes, askAhead, func(n uint64) (claim, error) {
		path := fmt.Sprintf("/signed-checkpoint/%d.json", n)
		raw, err := s.c.SignedCheckpointAt(ctx, n)
		if errors.Is(err, remote.ErrAbsent) {
			err = nil
		}
		return claim{key: path, size: n, kind: Checkpoint, raw: raw, place: first}, err
	}) {
		if ok, err := s.judge(c.key, err); !ok {
			return err
		}
		if c.raw != nil {
			s.before = append(s.before, c)
		}
	}
	return nil
}
