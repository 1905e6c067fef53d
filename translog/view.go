package translog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// ErrNotCovered: an index or a size is beyond the tree.
var ErrNotCovered = errors.New("beyond the tree")

// A View is a state of the log that was released or published. It does not
// change, and is safe for concurrent use while the Store is open.
type View struct {
	Tree       Tree
	Note       []byte           // C2SP signed note; not to be changed
	Checkpoint *envelope.Object // UZPIF-OI 9.1.3
	nodes      tree             // of this size or a later one
}

// viewOf is the view of a checkpoint of the tree's size or of an earlier one.
func viewOf(s signed, nodes tree) *View { return &View{s.tree, s.note, s.object, nodes} }

// view is viewOf the tree as it is now.
func (l *Log) view(s signed) *View { return viewOf(s, l.edge.tree(l.rows)) }

// Released is the state after the last commit that was answered.
func (l *Log) Released() View { return l.released.Load().view }

// Published is the state that the public side shows.
func (l *Log) Published() View { return *l.published.Load() }

// Inclusion proves entry index under the view's own tree. Errors:
// ErrNotCovered; damage.
func (v View) Inclusion(index uint64) ([][32]byte, error) {
	return v.InclusionAt(index, v.Tree.Size)
}

// InclusionAt proves entry index under the tree as it was at size, which a
// receipt may name long after.
func (v View) InclusionAt(index, size uint64) ([][32]byte, error) {
	if index >= size || size > v.Tree.Size {
		return nil, fmt.Errorf("%w: index %d, size %d of %d", ErrNotCovered, index, size, v.Tree.Size)
	}
	return v.nodes.inclusion(index, size)
}

// Consistency proves that the view's tree goes on from the one of size from.
// Errors: ErrNotCovered; damage.
func (v View) Consistency(from uint64) ([][32]byte, error) {
	return v.ConsistencyAt(from, v.Tree.Size)
}

// ConsistencyAt proves that the tree as it was at size to goes on from the one
// of size from.
func (v View) ConsistencyAt(from, to uint64) ([][32]byte, error) {
	if from > to || to > v.Tree.Size {
		return nil, fmt.Errorf("%w: from %d to %d of %d", ErrNotCovered, from, to, v.Tree.Size)
	}
	return v.nodes.consistency(from, to)
}

// RootAt is the root that the tree had at size.
func (v View) RootAt(size uint64) ([32]byte, error) {
	if size > v.Tree.Size {
		return [32]byte{}, fmt.Errorf("%w: size %d of %d", ErrNotCovered, size, v.Tree.Size)
	}
	return v.nodes.rootAt(size)
}

// Entry returns the exact octets of entry index.
func (v View) Entry(index uint64) ([]byte, error) {
	if index >= v.Tree.Size {
		return nil, fmt.Errorf("%w: entry %d of %d", ErrNotCovered, index, v.Tree.Size)
	}
	b, err := v.nodes.rows.Get(entryKey(index))
	if errors.Is(err, durable.ErrNotFound) {
		return nil, fmt.Errorf("%w: entry %d is missing", ErrCorrupt, index)
	}
	return b, err
}

// SetLeaves returns the leaf hashes of the decision set of entry index, or
// none if none were kept.
func (v View) SetLeaves(index uint64) ([][32]byte, error) {
	if index >= v.Tree.Size {
		return nil, fmt.Errorf("%w: entry %d of %d", ErrNotCovered, index, v.Tree.Size)
	}
	b, err := v.nodes.rows.Get(setKeyOf(index))
	if errors.Is(err, durable.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b)%32 != 0 {
		return nil, fmt.Errorf("%w: the set of entry %d has %d octets", ErrCorrupt, index, len(b))
	}
	leaves := make([][32]byte, len(b)/32)
	for i := range leaves {
		leaves[i] = [32]byte(b[i*32:])
	}
	return leaves, nil
}

// tile returns the first width hashes of a tile, which the view must cover.
func (v View) tile(level int, index uint64, width int) ([]byte, error) {
	covered := tree{size: v.Tree.Size}.width(level, index)
	if width < 1 || width > covered {
		return nil, fmt.Errorf("%w: tile %d/%d of width %d, has %d", ErrNotCovered, level, index, width, covered)
	}
	b, err := v.nodes.tile(level, index)
	if err != nil {
		return nil, err
	}
	return b[:width*32], nil
}

// A release is a released view with the rows that were committed with it. The
// log holds the newest; readers hold older ones for as long as they read.
type release struct {
	view View
	rows *durable.Snapshot
	refs atomic.Int64
	over chan struct{} // closed when a newer one has taken its place
}

// release makes v, the state after a commit, and the rows of the store at that
// instant, the ones that readers see.
func (l *Log) release(v *View, rows *durable.Snapshot) {
	r := &release{view: *v, rows: rows, over: make(chan struct{})}
	r.refs.Store(1)
	if old := l.released.Swap(r); old != nil {
		close(old.over)
		old.unref()
	}
}

// ref takes part in r, unless it has been given up already.
func (r *release) ref() bool {
	for n := r.refs.Load(); n > 0; n = r.refs.Load() {
		if r.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (r *release) unref() {
	if r.refs.Add(-1) == 0 && r.rows != nil {
		_ = r.rows.Close() // a snapshot has nothing to lose
	}
}

// A Snapshot is everything that was committed up to a release: the view, and
// as a durable.Reader the rows of the whole store at that instant. What is not
// released yet is not in it, though the database already shows it.
type Snapshot struct {
	View
	durable.Reader
	r      *release
	closed atomic.Bool
}

// Snapshot is the newest release. It must be closed. Errors: ErrClosed;
// ErrReadOnly of a log that has ended.
func (l *Log) Snapshot() (*Snapshot, error) {
	if l.mark == nil {
		return nil, ErrReadOnly
	}
	for {
		r := l.released.Load()
		if r.ref() {
			return &Snapshot{View: r.view, Reader: r.rows, r: r}, nil
		}
		if l.released.Load() == r {
			return nil, ErrClosed // it was the last
		}
	}
}

// markLead is how long the mark of a log may lead what is released: one sync, and what a
// disk that is slow makes of it.
const markLead = 10 * time.Second

// SnapshotOf is Snapshot, but waits for a release of a tree of that size at least, which the
// mark of a commit on its way tells (see ReadMark), for ten seconds and while the log
// goes on. Then it is the newest that there is. Errors: those of Snapshot; ctx's.
func (l *Log) SnapshotOf(ctx context.Context, size uint64) (*Snapshot, error) {
	var enough <-chan time.Time // none for those, nearly all, who need not wait
	for {
		s, err := l.Snapshot()
		if err != nil || s.Tree.Size >= size {
			return s, err
		}
		if enough == nil {
			enough = time.After(markLead)
		}
		select {
		case <-s.Superseded():
			s.Close()
		case <-ctx.Done():
			s.Close()
			return nil, ctx.Err()
		case <-l.done:
			return s, nil
		case <-enough:
			return s, nil
		}
	}
}

// Superseded is closed when there is a newer release. It can be waited for by any
// number of readers, behind Close too, and holds up nobody.
func (s *Snapshot) Superseded() <-chan struct{} { return s.r.over }

// Close gives the snapshot up.
func (s *Snapshot) Close() {
	if s.closed.CompareAndSwap(false, true) {
		s.r.unref()
	}
}
