package publisher

import (
	"context"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Progress is how far a scan or a push has come. Total is 0 if nobody knows it;
// of a push, it is of revisions of the journal, of which some may need no word,
// and Octets are those that the connection has carried out. What has been sent of
// a batch that is not answered counts as that share of its revisions; Waiting says
// that all of it has, and that the answer is what is missing.
type Progress struct {
	Scan        bool
	Collection  string
	Indexer     envelope.Name // of a push to one; several side by side are told of as one
	Indexers    int           // how many that is
	Done, Total int64
	Octets      int64
	Waiting     bool
}

type progressKey struct{}

// WithProgress has what is done under ctx tell f how far it is, often. f is
// called by one goroutine at a time, and has to be quick.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// tell tells whoever wants to know.
func tell(ctx context.Context, p Progress) {
	if f, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		f(p)
	}
}

// sideBySide has pushes to several indexers under ctx tell of one collection how
// far they are together, one after the other.
func sideBySide(ctx context.Context) context.Context {
	f, ok := ctx.Value(progressKey{}).(func(Progress))
	if !ok {
		return ctx
	}
	var mu sync.Mutex // guards pushes, and keeps the callers of f apart
	pushes := make(map[string]map[envelope.Name]Progress)
	return WithProgress(ctx, func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		if pushes[p.Collection] == nil {
			pushes[p.Collection] = make(map[envelope.Name]Progress)
		}
		all := pushes[p.Collection]
		all[p.Indexer] = p
		sum := Progress{Scan: p.Scan, Collection: p.Collection, Indexer: p.Indexer, Indexers: len(all), Waiting: true}
		for _, x := range all {
			sum.Waiting = sum.Waiting && (x.Waiting || x.Done == x.Total)
			sum.Done, sum.Total, sum.Octets = sum.Done+x.Done, sum.Total+x.Total, sum.Octets+x.Octets
		}
		f(sum)
	})
}

// tellEvery is how often a push tells how far it is while a batch is under way.
const tellEvery = 200 * time.Millisecond

// A pushTeller tells how far the push of one collection to one indexer is. On a
// slow line a batch takes minutes, so what the connection has carried since it
// began stands for that share of it, short of all: its answer says the rest.
type pushTeller struct {
	a            agreement
	wire         *counter
	from, target uint64
	open         bool // there will be more behind target

	mu    sync.Mutex // guards what is below, and keeps what is told in order
	done  uint64     // revisions that are answered for
	next  uint64     // what done is once the batch under way is answered for
	began int64      // octets out at its beginning
	size  int64      // octets that it takes; 0 without one
}

// watch tells until ctx ends or the function that it returns is called, which comes
// back once nothing more is told.
func (t *pushTeller) watch(ctx context.Context) (stop func()) {
	if ctx.Value(progressKey{}) == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { t.keepTelling(ctx) })
	return func() { cancel(); watching.Wait() }
}

func (t *pushTeller) keepTelling(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		t.mu.Lock()
		t.tell(ctx)
		t.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// begin says that a batch is sent now.
func (t *pushTeller) begin(dr *draft) {
	size := len(dr.frame)
	switch {
	case dr.alone != nil:
		size = dr.rawBytes // compressed as it goes: this is the most
	case dr.patch != nil:
		size = len(dr.patch.frame)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next, t.began, t.size = dr.through, t.wire.left(), int64(size)
}

// end says that all up to through is answered for.
func (t *pushTeller) end(ctx context.Context, through uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done, t.size = max(t.from, min(through, t.target)), 0
	t.tell(ctx)
}

// tell is called with mu held.
func (t *pushTeller) tell(ctx context.Context) {
	octets, done, share := t.wire.left(), t.done, 0.0
	if next := min(t.next, t.target); t.size > 0 && next > done {
		share = min(1, float64(max(0, octets-t.began))/float64(t.size))
		done += min(uint64(float64(next-done)*share), next-done-1)
	}
	total := int64(t.target - t.from)
	if t.open {
		total = 0
	}
	tell(ctx, Progress{
		Indexer: t.a.rel.Indexer, Collection: t.a.rel.Collection, Done: int64(done - t.from), Total: total,
		Octets: octets, Waiting: share == 1,
	})
}
