package publisher

import "context"

// A Progress is how far a scan or a push has come. Total is 0 if nobody knows it;
// of a push, it is of revisions of the journal, of which some may need no word,
// and Octets are those that the connection has carried out.
type Progress struct {
	Scan        bool
	Collection  string
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
