package publisher

import (
	"context"
	"sync"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Progress is how far a scan or a push has come. Total is 0 if nobody knows it;
// of a push, it is of revisions of the journal, of which some may need no word,
// and Octets are those that the connection has carried out.
type Progress struct {
	Scan        bool
	Collection  string
	Indexer     envelope.Name // of a push to one; several side by side are told of as one
	Indexers    int           // how many that is
	Done, Total int64
	Octets      int64
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
		sum := Progress{Scan: p.Scan, Collection: p.Collection, Indexer: p.Indexer, Indexers: len(all)}
		for _, x := range all {
			sum.Done, sum.Total, sum.Octets = sum.Done+x.Done, sum.Total+x.Total, sum.Octets+x.Octets
		}
		f(sum)
	})
}
