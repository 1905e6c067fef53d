package walk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// maxMisses is how often in a row a root may fail below HTTP or git, or be one
// that may not be asked, until it is not asked any more.
const maxMisses = 5

// A source is a root or mirror, with how it has done.
type source struct {
	place  place
	misses int
	last   error
}

func (s *source) read(ctx context.Context, target rbt.Target, limit int64) ([]byte, error) {
	return s.ask(func() ([]byte, error) { return s.place.read(ctx, target, limit) })
}

func (s *source) document(ctx context.Context, target rbt.Target) ([]byte, error) {
	return s.ask(func() ([]byte, error) { return s.place.document(ctx, target) })
}

func (s *source) ask(question func() ([]byte, error)) ([]byte, error) {
	if s.misses >= maxMisses {
		return nil, fmt.Errorf("not asked any more: %w", s.last)
	}
	data, err := question()
	if err != nil && (passing(err) || errors.Is(err, fetch.ErrForbiddenAddress) || errors.Is(err, errHost)) {
		s.misses, s.last = s.misses+1, err
	} else {
		s.misses = 0
	}
	return data, err
}

// fetch gets the octets of an entry: from the roots in order, then from mirrors.
// What is not what the entry names is not taken from anywhere.
func (t *traversal) fetch(ctx context.Context, item *Item, target rbt.Target, f *failure) {
	e := &item.Entry
	if sum, ok := digestOf(e); ok && t.config.Known(sum) {
		item.Sum, item.Unchanged = sum, true
		return
	}
	if !t.config.Wants(e) {
		item.Unwanted = true
		return
	}
	limit := t.config.Limits.Resource
	if e.Size > limit {
		f.add("none", fmt.Errorf("%w: %d octets, at most %d", fetch.ErrTooLarge, e.Size, limit))
		return
	}
	if target.URL != "" {
		r, err := t.web.get(ctx, target.URL, fetch.Conditions{}, limit)
		if err == nil {
			err = t.accept(item, r.data, false)
		}
		if item.From = "https"; err != nil {
			f.add("https", err)
		}
		return
	}
	for i, s := range append(t.roots[:len(t.roots):len(t.roots)], t.mirrors...) {
		isMirror := i >= len(t.roots)
		name := s.place.kind()
		if isMirror {
			name = "mirror " + name
		}
		if isMirror && !verifiable(e) {
			f.add(name, errUnverified)
			continue
		}
		data, err := s.read(ctx, target, limit)
		if err == nil {
			err = t.accept(item, data, isMirror)
		}
		if err == nil {
			item.From = name
			return
		}
		if ctx.Err() != nil {
			return
		}
		t.config.Log.Info("a root does not give an entry", "root", s.place.root().String(), "entry", e.ID, "error", err)
		f.add(name, err)
	}
}

// accept takes octets, if they are what the entry names.
func (t *traversal) accept(item *Item, data []byte, fromMirror bool) error {
	sum := sha256.Sum256(data)
	verified, err := item.Entry.Verify(sum, int64(len(data)))
	switch {
	case err != nil:
		return err
	case !verified && fromMirror:
		return errUnverified
	case !verified:
		item.Warnings = append(item.Warnings, "the entry names neither an RID nor a hash of octets: they are taken as they came")
	}
	if err := rbt.CheckType(item.Entry.Type, data); err != nil {
		return fmt.Errorf("%w: %w", errType, err)
	}
	if data == nil {
		data = []byte{}
	}
	item.Data, item.Sum = data, sum
	return nil
}

// digestOf is the one SHA-256 that an entry names, in whichever form.
func digestOf(e *rbt.Entry) (sum [sha256.Size]byte, ok bool) {
	sum, ok = e.RID.Sum()
	switch {
	case e.Hash == nil:
		return sum, ok
	case ok && sum != *e.Hash:
		return sum, false
	}
	return *e.Hash, true
}

func verifiable(e *rbt.Entry) bool {
	_, hasRID := e.RID.Sum()
	return hasRID || e.Hash != nil
}
