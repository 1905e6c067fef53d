package indexer

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A gate is what decides on every page of one series at one instant of the store:
// the newest grant, the one under which the state is held, and the revocations
// that reach either. It stays right for as long as the feed tells of no change to
// the series.
type gate struct {
	rec           *seriesRecord
	newest, bound grants.Pair
	revs          []*grants.Revocation
}

// A reader is on whose behalf a page is read.
type reader struct {
	purpose grants.Purpose
	// thirdParty is set for one to whom a page goes only where policy lets it be
	// passed on (UZPIF-OI 15).
	thirdParty bool
}

// gate reads the gate of a series.
func (r *seriesRecord) gate(rd durable.Reader) (*gate, error) {
	g := &gate{rec: r}
	var err error
	if g.newest, g.bound, err = r.pairs(rd); err != nil {
		return nil, err
	}
	g.revs, err = revocationsOf(rd, g.newest.Grant, g.bound.Grant)
	return g, err
}

// mayRead is the one function by which a page leaves: every exit, whatever its
// form, asks it at the moment of reading, and hands on the terms with the page
// (UZPIF-OI 11, 14). The error is the reason of a refusal. No reader is the
// publisher itself, who asks after its own page.
func (g *gate) mayRead(row *catalogueRow, who *reader, now time.Time) (Terms, error) {
	t, now := g.terms(row), g.reached(now)
	if err := g.allowed(row.URL, now); err != nil {
		return t, err
	}
	return t, g.admit(&t, row, who, now)
}

// reached is now, or the time that was reached at least when what decides was taken in:
// a clock that was moved back, behind what is in force, stops nobody.
func (g *gate) reached(now time.Time) time.Time {
	for _, p := range []grants.Pair{g.bound, g.newest} {
		for _, o := range []*envelope.Object{p.Grant.Object, p.Policy.Object} {
			if o.IssuedAt.After(now) {
				now = o.IssuedAt
			}
		}
	}
	return now
}

// closed is why no page of the series may be read by who, or nil if some may.
func (g *gate) closed(who reader, now time.Time) error {
	now = g.reached(now)
	for _, p := range []grants.Pair{g.bound, g.newest} {
		if err := errRevokedWhole(p.Grant, g.revs); err != nil {
			return err
		}
		if err := g.expired(p); err != nil {
			return err
		}
		if err := p.Fresh(now); err != nil {
			return err
		}
	}
	return g.admits(who, now)
}

// expired refuses a grant whose expiry is in the log: it has expired for good, and
// a clock that was moved back opens nothing again.
func (g *gate) expired(p grants.Pair) error {
	if p.Grant.Object.ID == g.rec.Expired {
		return refuse(grants.ErrExpired, "grant %s, as the log says", g.rec.Expired)
	}
	return nil
}

// allowed refuses a URL that either grant does not hold at now, or that a
// revocation reaches under either (UZPIF-OI 11.1, 12.6).
func (g *gate) allowed(url string, now time.Time) error {
	for _, p := range []grants.Pair{g.bound, g.newest} {
		if err := errRevokedPage(p.Grant, g.revs, url); err != nil {
			return err
		}
		if err := g.expired(p); err != nil {
			return err
		}
		if err := p.Check(url, now); err != nil {
			return err
		}
	}
	return nil
}

// admits refuses a reader for whom either grant and its policy allow nothing.
func (g *gate) admits(who reader, now time.Time) error {
	for _, p := range []grants.Pair{g.bound, g.newest} {
		if err := p.Permits(who.purpose, now); err != nil {
			return err
		}
		if who.thirdParty && p.Policy.Body.Redistribution != grants.Allowed {
			return refuse(grants.ErrPolicy, "not to be passed on to third parties")
		}
	}
	return nil
}

// admit refuses a page that is not held any more at now, and a reader for whom it
// is not.
func (g *gate) admit(t *Terms, row *catalogueRow, who *reader, now time.Time) error {
	if err := g.allowedContent(row); err != nil {
		return err
	}
	if who != nil {
		if err := g.admits(*who, now); err != nil {
			return err
		}
	}
	switch {
	case row.Purged != nil:
		return refuse(grants.ErrRetention, "%s, purged at %s", row.URL, unix(row.Purged.At))
	case !row.Held:
		return refuse(grants.ErrNotHeld, "%s", row.URL)
	case !now.Before(t.CopyUntil.Time):
		return refuse(grants.ErrRetention, "%s, kept until %s", row.URL, t.CopyUntil)
	}
	return nil
}

// allowedContent is what allowed asks of a page's content: a grant that names
// content holds it still.
func (g *gate) allowedContent(row *catalogueRow) error {
	if !g.rec.Listed {
		return nil
	}
	for _, p := range []grants.Pair{g.bound, g.newest} {
		if err := p.Grant.Body.Scope.Holds(row.URL, row.Digest); err != nil {
			return err
		}
	}
	return nil
}
