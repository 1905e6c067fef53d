package site

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"runtime"
	"sync"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// Pages yields the folder's pages in ascending byte order of location.
//
// The folder is listed first, which holds nothing but the names in one folder
// and those above it; if that fails, the error is all that is yielded. Then it is
// listed again, and what it has then counts: files are read and turned into pages
// on all processors, at most 2×GOMAXPROCS of them ahead of the caller or in its
// hands, and of those above 16 MiB one. A file that gives no page goes to skip, in its place among the others.
// The iteration ends early when the caller stops, when ctx ends, or when a folder
// cannot be listed any more, and the error is the last that is yielded.
//
// known, if not nil, is asked for the SHA-256 of a location's source as the
// caller last saw it; where that is still true, the page is yielded as
// Unchanged. It is called from several goroutines at once. skip, if not nil,
// is called between two pages, from the caller's own goroutine.
func (s *Site) Pages(
	ctx context.Context, known func(location string) (source [32]byte, ok bool), skip func(content.Skipped),
) iter.Seq2[content.Page, error] {
	return s.PagesSince(ctx, known, nil, skip)
}

// PagesSince is Pages for a caller that took down each file's Stamp: kept, if
// not nil, is asked with the file's present one, and what it remembers of a file
// under it is yielded, or skipped, as Unread, without opening the file. It is
// called by ascending location, from one goroutine.
func (s *Site) PagesSince(
	ctx context.Context, known func(location string) (source [32]byte, ok bool),
	kept func(location string, now content.Stamp) content.Kept, skip func(content.Skipped),
) iter.Seq2[content.Page, error] {
	if skip == nil {
		skip = func(content.Skipped) {}
	}
	return func(yield func(content.Page, error) bool) {
		if err := s.pages(ctx, asked{known, kept}, skip, yield); err != nil {
			yield(content.Page{}, err)
		}
	}
}

// asked is what the caller knows; see PagesSince.
type asked struct {
	known func(string) ([32]byte, bool)
	kept  func(string, content.Stamp) content.Kept
}

// pages returns the error that ended it; nil also when the caller stopped.
func (s *Site) pages(
	ctx context.Context, by asked, skip func(content.Skipped),
	yield func(content.Page, error) bool,
) error {
	base, err := s.base()
	if err != nil {
		return err
	}
	root, err := s.openListed()
	if err != nil {
		return err
	}
	defer root.Close()
	w := walk{site: s, root: root, base: base}
	if err := w.folder(ctx, "."); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	a := ahead{walk: &w, by: by, order: make(chan chan result, 2*runtime.GOMAXPROCS(0)-1), large: make(chan struct{}, 1)}
	a.start(ctx, &workers)
	for r := range a.order {
		var done result
		select {
		case done = <-r:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case done.skipped != nil:
			skip(*done.skipped)
		case !yield(done.page, nil):
			return nil
		}
		if done.large {
			<-a.large
		}
	}
	if err := ctx.Err(); err != nil {
		return err // the walk may not have ended
	}
	return a.err
}

// A result is what became of one entry.
type result struct {
	page    content.Page
	skipped *content.Skipped
	large   bool // holds the token
}

// largeFile is the size above which files are read one at a time: reading one takes
// up to three times its size (TestLargeFilesAreReadOneAtATime).
const largeFile = 16 << 20

// ahead reads ahead of the caller.
type ahead struct {
	walk *walk
	by   asked
	// order holds the places where results will appear, in the order of entries.
	// No more of them hold a page than 2×GOMAXPROCS: its buffer, the one in the
	// caller's hands and the one that waits to be sent to the workers, which holds
	// no page yet.
	order chan chan result
	// large holds a token while a large file is in hand. It is taken in the order
	// of entries, so those in front of one that waits need none.
	large chan struct{}
	// err is why the walk ended; written before order is closed, unless that is because
	// the context has ended.
	err error
}

type job struct {
	entry
	done  chan result
	large bool
}

// start starts the walk, those who ask for stamps, and those who read.
func (a *ahead) start(ctx context.Context, workers *sync.WaitGroup) {
	jobs := make(chan job)
	runs := a.list(ctx, workers)
	workers.Go(func() {
		defer close(jobs)
		defer close(a.order)
		for r := range runs {
			<-r.ready
			for _, e := range r.entries {
				if !a.hand(ctx, e, jobs) {
					return
				}
			}
		}
	})
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			r := a.walk.site.reader(a.walk.root, a.by.known)
			for j := range jobs {
				done := r.result(j.entry)
				done.large = j.large
				j.done <- done
			}
		})
	}
}

// hand gives an entry its place in the order, and to a worker if it has to be
// read. It reports whether to go on.
func (a *ahead) hand(ctx context.Context, e entry, jobs chan<- job) bool {
	done := make(chan result, 1)
	unread := true
	if e.unnamed != nil {
		done <- result{skipped: &content.Skipped{Location: e.location, Reason: "its name gives no URL", Err: e.unnamed}}
	} else if r, ok := a.remembered(e); ok {
		done <- r
	} else {
		unread = false
	}
	select {
	case a.order <- done:
	case <-ctx.Done():
		return false
	}
	if unread {
		return true
	}
	large := e.stamp.Size > largeFile
	if large {
		select {
		case a.large <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	select {
	case jobs <- job{e, done, large}:
	case <-ctx.Done():
		return false
	}
	return true
}

// remembered is what the caller remembers of a file that has not moved since.
func (a *ahead) remembered(e entry) (result, bool) {
	if a.by.kept == nil || e.stamp == (content.Stamp{}) {
		return result{}, false
	}
	k := a.by.kept(e.location, e.stamp)
	if k.Skipped != nil {
		return result{skipped: k.Skipped}, true
	}
	return result{page: content.Page{URL: e.url, Location: e.location, Unchanged: true, Unread: true, Stamp: e.stamp}}, k.Page
}

// result is what reading a file comes to.
func (r *reader) result(e entry) result {
	page, err := r.read(e)
	if err == nil {
		return result{page: page}
	}
	k := skippedFor(e.location, err)
	var odd *unfit
	if errors.Is(err, ErrNotOffered) || errors.As(err, &odd) {
		k.Stamp = page.Stamp // the file's octets say so
	}
	return result{skipped: &k}
}

// skippedFor tells why an entry gave no page, and whether it is one no more.
func skippedFor(location string, err error) content.Skipped {
	var odd *unfit
	switch {
	case errors.Is(err, errDraft):
		return content.Skipped{Location: location, Reason: "its front matter says draft"}
	case errors.Is(err, ErrNotOffered):
		return content.Skipped{Location: location, Reason: "its robots meta tag says noindex"}
	case errors.Is(err, fs.ErrNotExist):
		return content.Skipped{Location: location, Reason: "it was removed while the folder was read"}
	case errors.As(err, &odd):
		return content.Skipped{Location: location, Reason: odd.reason, Err: err}
	}
	return content.Skipped{Location: location, Reason: "it cannot be read", Err: err}
}
