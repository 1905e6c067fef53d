package indexer

import (
	"crypto/sha256"
	"time"
)

// A Watch tells whether what was read may still be read, for as long as it takes to hand
// it out. It belongs to one goroutine.
type Watch struct {
	p    placing
	over <-chan struct{}
}

// Watch is that of everything of an offer that was read up to a moment, none of it to be
// used from end on; zero: there is nothing that ends.
func (r *Reading) Watch(o *Offer, moment uint64, end time.Time) *Watch {
	return r.watch(o.sid, moment, end)
}

func (r *Reading) watch(sid uint32, moment uint64, end time.Time) *Watch {
	return &Watch{p: placing{x: r.x, who: r.who, offers: map[uint32]bool{sid: true}, moment: moment, end: end}, over: r.over}
}

// WatchPage is that of one page which the Reading has read.
func (r *Reading) WatchPage(o *Offer, p *Page) (*Watch, error) { return r.watchPage(o.sid, p) }

func (r *Reading) watchPage(sid uint32, p *Page) (*Watch, error) {
	moment, err := r.Moment()
	if err != nil {
		return nil, err
	}
	end := p.Terms.CopyUntil.Time
	if p.Terms.ExpiresAt.Before(end) {
		end = p.Terms.ExpiresAt.Time
	}
	w := r.watch(sid, moment, end)
	h := sha256.Sum256([]byte(p.URL))
	w.p.only = h[:]
	return w, nil
}

// Look is ErrEnding if any of it may be read no more at this moment, or on other terms.
// It costs a look at the clock unless something was released since the last one.
func (w *Watch) Look() error {
	if w.p.ended() {
		return ErrEnding
	}
	select {
	case <-w.over:
	default:
		return nil
	}
	newest, err := w.p.x.Reading(w.p.who.purpose, w.p.who.thirdParty)
	if err != nil {
		return err
	}
	defer newest.Close()
	w.over = newest.Over()
	_, err = w.p.look(newest, false)
	return err
}
