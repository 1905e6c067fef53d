package site

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"runtime"
	"sync"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// Pages yields the folder's pages in ascending byte order of location.
//
// The folder is listed first; if that fails, the error is all that is yielded.
// Then files are read and turned into pages on all processors, at most
// 2×GOMAXPROCS of them ahead of the caller or in its hands. A file that gives
// no page goes to skip, in its place among the others; those that have no URL
// come before all. The iteration ends
// early when the caller stops or ctx ends, which is then the last error.
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
// not nil, is asked with the file's present one, and where it is true the file is
// not opened, and its page yielded as Unread. It is called by ascending location,
// from one goroutine.
func (s *Site) PagesSince(
	ctx context.Context, known func(location string) (source [32]byte, ok bool),
	kept func(location string, now content.Stamp) bool, skip func(content.Skipped),
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
	kept  func(string, content.Stamp) bool
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
	root, err := s.open()
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := s.list(ctx, root, base, skip)
	if err != nil {
		return err
	}
	if by.kept != nil {
		stat(ctx, root, entries)
	}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for r := range s.readAhead(ctx, root, by, entries, &workers) {
		var done result
		select {
		case done = <-r:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case done.err != nil:
			skip(skippedFor(done))
		case !yield(done.page, nil):
			return nil
		}
	}
	return ctx.Err()
}

// A result is what became of one entry.
type result struct {
	location string
	page     content.Page
	err      error
}

// readAhead starts the workers, and returns the places where their results
// will appear, in the order of entries. No more of them hold a page than
// 2×GOMAXPROCS, the one that the caller took last included.
func (s *Site) readAhead(
	ctx context.Context, root *os.Root, by asked, entries []entry, workers *sync.WaitGroup,
) <-chan chan result {
	type job struct {
		entry
		done chan result
	}
	n := runtime.GOMAXPROCS(0)
	jobs := make(chan job)
	// Its buffer, the one in the caller's hands and the one that waits to be
	// sent to the workers, which holds no page yet.
	order := make(chan chan result, 2*n-1)
	workers.Go(func() {
		defer close(jobs)
		defer close(order)
		for _, e := range entries {
			done := make(chan result, 1)
			unread := by.kept != nil && e.stamp != content.Stamp{} && by.kept(e.location, e.stamp)
			if unread {
				page := content.Page{URL: e.url, Location: e.location, Unchanged: true, Unread: true, Stamp: e.stamp}
				done <- result{e.location, page, nil}
			}
			select {
			case order <- done:
			case <-ctx.Done():
				return
			}
			if unread {
				continue
			}
			select {
			case jobs <- job{e, done}:
			case <-ctx.Done():
				return
			}
		}
	})
	for range n {
		workers.Go(func() {
			r := s.reader(root, by.known)
			for j := range jobs {
				page, err := r.read(j.entry)
				j.done <- result{j.location, page, err}
			}
		})
	}
	return order
}

// skippedFor tells why an entry gave no page, and whether it is one no more.
func skippedFor(r result) content.Skipped {
	var odd *unfit
	switch {
	case errors.Is(r.err, errDraft):
		return content.Skipped{Location: r.location, Reason: "its front matter says draft"}
	case errors.Is(r.err, ErrNotOffered):
		return content.Skipped{Location: r.location, Reason: "its robots meta tag says noindex"}
	case errors.Is(r.err, fs.ErrNotExist):
		return content.Skipped{Location: r.location, Reason: "it was removed while the folder was read"}
	case errors.As(r.err, &odd):
		return content.Skipped{Location: r.location, Reason: odd.reason, Err: r.err}
	}
	return content.Skipped{Location: r.location, Reason: "it cannot be read", Err: r.err}
}
