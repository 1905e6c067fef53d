package state

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// Of computes root and count of a tree from its items alone, which must ascend
// by h without a repetition or a removal; it stops at the first error. It holds
// 17 leaves in memory, however many there are.
func Of(items iter.Seq2[Item, error]) (root envelope.Hash, count uint64, err error) {
	next, stop := iter.Pull2(items)
	defer stop()
	f := folder{next: next}
	top, err := f.subtree(Prefix{})
	return top.Hash, top.Count, err
}

// A folder looks as far ahead as tells a node from a bucket.
type folder struct {
	next  func() (Item, error, bool)
	done  bool
	ahead [bucketSize + 1]leaf
	n     int // leaves in ahead
}

// subtree takes from the stream what lies below at. All before it is taken.
func (f *folder) subtree(at Prefix) (Child, error) {
	if err := f.fill(); err != nil {
		return Child{}, err
	}
	inside := 0
	for inside < f.n && at.Contains(&f.ahead[inside].h) {
		inside++
	}
	if inside <= bucketSize {
		b := bucket(f.ahead[:inside])
		f.n = copy(f.ahead[:], f.ahead[inside:f.n])
		return b, nil
	}
	var c children
	for i := range c {
		var err error
		if c[i], err = f.subtree(at.Child(i)); err != nil {
			return Child{}, err
		}
	}
	return node(at.depth, &c), nil
}

func (f *folder) fill() error {
	for f.n < len(f.ahead) && !f.done {
		it, err, ok := f.next()
		switch {
		case !ok:
			f.done = true
			return nil
		case err != nil:
			return err
		case it.Deleted:
			return fmt.Errorf("item %x is a removal", it.URLHash)
		case f.n > 0 && bytes.Compare(f.ahead[f.n-1].h[:], it.URLHash[:]) >= 0:
			return fmt.Errorf("item %x is out of order", it.URLHash)
		}
		f.ahead[f.n] = leaf{it.URLHash, leafHash(&it.URLHash, &it.Digest, it.Format)}
		f.n++
	}
	return nil
}
