package scp

import (
	"iter"
	"slices"
	"strings"
)

// A found is the page that stands at a URL once all layers were applied.
type found struct {
	entry
	layer *layer
	// conflict says that a layer held another page for the same time.
	conflict bool
}

// fold yields, by ascending URL, what an index would hold that took the pages
// of the first layer in and then, in their order, those of the others, each by
// Apply. It walks all layers side by side and holds one entry of each:
// TestFoldIsDeltaApplication.
func fold(layers []*layer) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		heads := make([]foldHead, len(layers))
		for i, l := range layers {
			next, stop := iter.Pull2(l.entries(0))
			defer stop()
			heads[i] = foldHead{layer: l, next: next}
			if err := heads[i].step(); err != nil {
				yield(found{}, err)
				return
			}
		}
		for {
			url, any := least(heads)
			if !any {
				return
			}
			f, err := foldOne(heads, url)
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

type foldHead struct {
	layer *layer
	next  func() (entry, error, bool)
	entry entry
	live  bool
}

func (h *foldHead) step() (err error) {
	h.entry, err, h.live = h.next()
	return err
}

func least(heads []foldHead) (url string, any bool) {
	for i := range heads {
		if h := &heads[i]; h.live && (!any || strings.Compare(h.entry.url, url) < 0) {
			url, any = h.entry.url, true
		}
	}
	return url, any
}

// foldOne applies what the layers hold of one URL, and steps them on.
func foldOne(heads []foldHead, url string) (f found, err error) {
	for i := range heads {
		h := &heads[i]
		if !h.live || h.entry.url != url {
			continue
		}
		f.apply(h.layer, h.entry)
		if err := h.step(); err != nil {
			return f, err
		}
	}
	return f, nil
}

// apply takes one more page in.
func (f *found) apply(l *layer, e entry) {
	var held *Held
	if f.layer != nil {
		held = &Held{f.modified, f.digest}
	}
	switch Apply(held, Held{e.modified, e.digest}) {
	case Insert, Replace:
		*f = found{entry: e, layer: l}
	case Conflict:
		f.conflict = true
	}
}

// find is fold for a single URL.
func find(layers []*layer, url string) (f found, ok bool, err error) {
	for _, l := range layers {
		e, ok, err := l.lookup(url)
		if err != nil {
			return found{}, false, err
		}
		if ok {
			f.apply(l, e)
		}
	}
	return f, f.layer != nil, nil
}

// byGenerated puts layers into the order in which they apply.
func byGenerated(layers []*layer) {
	slices.SortStableFunc(layers, func(a, b *layer) int { return a.generated.Compare(b.generated) })
}
