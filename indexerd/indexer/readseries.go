package indexer

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// An Offer is a series of which a reader may be handed pages, page by page: under
// which grants and policies, and what they all allow at least.
type Offer struct {
	Publisher  envelope.Name
	Series     string
	Collection string
	Scope      grants.Scope    // of the grant under which it is held
	Grants     []envelope.Hash // one or two, ascending
	Policies   []envelope.Hash // likewise
	Terms      Terms           // of the series; CopyUntil and FeaturesUntil are each page's own
	IssuedAt   time.Time       // of the newest grant
	sid        uint32
}

// Offers lists what is open to the reader, by publisher and series. It holds one
// record for each series.
func (r *Reading) Offers() ([]Offer, error) {
	recs, err := seriesOf(r.rows, "")
	if err != nil {
		return nil, err
	}
	var all []Offer
	for _, rec := range recs {
		o, err := r.offer(rec)
		if _, refused := asRefusal(err); refused {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, *o)
	}
	return all, nil
}

// Offer is that of one series. The error is the reason why nothing of it may be
// read: ErrNoGrant if there is no such series.
func (r *Reading) Offer(publisher envelope.Name, series string) (*Offer, error) {
	rec, err := readSeries(r.rows, publisher, series)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, refuse(grants.ErrNoGrant, "series %.80q", series)
	}
	return r.offer(rec)
}

func (r *Reading) offer(rec *seriesRecord) (*Offer, error) {
	g, err := r.gate(rec.SID)
	if err != nil {
		return nil, err
	}
	if g == nil {
		return nil, refuse(grants.ErrNoGrant, "series %.80q", rec.Series)
	}
	if err := g.closed(r.who, r.x.latest()); err != nil {
		return nil, err
	}
	pairs := []grants.Pair{g.newest, g.bound}
	o := &Offer{
		Publisher: rec.Publisher, Series: rec.Series, Collection: rec.Collection, Scope: g.bound.Grant.Body.Scope, sid: rec.SID,
		Terms: g.terms(new(catalogueRow)), IssuedAt: g.newest.Grant.Object.IssuedAt,
	}
	for _, p := range pairs {
		o.Grants, o.Policies = append(o.Grants, p.Grant.Object.ID), append(o.Policies, p.Policy.Object.ID)
	}
	o.Grants, o.Policies = Ascending(o.Grants), Ascending(o.Policies)
	return o, nil
}

// Ascending sorts, and leaves each out but once.
func Ascending(all []envelope.Hash) []envelope.Hash {
	slices.SortFunc(all, func(a, b envelope.Hash) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(all)
}

// Pages yields each page of a series that may be read at this moment, by the
// SHA-256 of its URL, with its payload. It holds one page, and one frame of others.
func (r *Reading) Pages(o *Offer) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		g, err := r.gate(o.sid)
		if err == nil && g == nil {
			err = fmt.Errorf("series %.80q has no gate", o.Series)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		lo := sidKey('C', o.sid)
		for kv, err := range r.rows.Scan(lo, durable.PrefixEnd(lo)) {
			var p *Page
			if err == nil {
				p, err = r.pageOf(g, kv.Value)
			}
			if _, refused := asRefusal(err); refused {
				continue
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

func (r *Reading) pageOf(g *gate, raw []byte) (*Page, error) {
	row := new(catalogueRow)
	if err := row.ParseRow(raw); err != nil {
		return nil, err
	}
	terms, err := g.mayRead(row, &r.who, r.x.latest())
	if err != nil {
		return nil, err
	}
	return r.page(g, row, terms)
}

// PageAt reads one page by the SHA-256 of its URL. The error is that of
// Indexer.Read.
func (r *Reading) PageAt(o *Offer, urlHash [32]byte) (*Page, error) {
	g, err := r.gate(o.sid)
	if err != nil || g == nil {
		return nil, errors.Join(err, fmt.Errorf("series %.80q: gate %v", o.Series, g != nil))
	}
	row, terms, err := r.find(g, urlHash[:])
	if err != nil {
		return nil, err
	}
	return r.page(g, row, terms)
}

// Moment is the number of the last change that the Reading sees: what was made of
// an Offer at one moment stays right as long as Changed says so of it, and no page's
// time is over.
func (r *Reading) Moment() (uint64, error) { return number(r.rows, feedKey(5)) }

// maxLook bounds the changes that are looked at in one step.
const maxLook = 1 << 14

// Changed reports whether anything of a series has changed behind a moment. Where
// that is more than maxLook changes ago, it says yes.
func (r *Reading) Changed(o *Offer, behind uint64) (bool, error) {
	changes, err := changesAfter(r.rows, behind, maxLook)
	if err != nil || len(changes) == maxLook {
		return true, err
	}
	return slices.ContainsFunc(changes, func(c feedChange) bool { return c.sid == o.sid }), nil
}

// Now is the time by which the Reading decides.
func (r *Reading) Now() time.Time { return r.x.latest() }

// Checkpoint is that of the release that the Reading sees.
func (r *Reading) Checkpoint() (origin string, ref translog.CheckpointRef) {
	t := r.view.Tree
	return t.Origin, translog.CheckpointRef{ObjectID: r.view.Checkpoint.ID, Root: t.Root, Size: t.Size}
}

// HandOut makes it durable that pages of a series may be handed out, before the
// first of them is: to the indexer itself, which passes them on.
func (r *Reading) HandOut(o *Offer) error {
	l := listener{name: r.x.local.Name(), purpose: r.who.purpose, thirdParty: r.who.thirdParty}
	r.x.feed.handedMu.Lock()
	defer r.x.feed.handedMu.Unlock()
	upTo, err := r.Moment()
	if err != nil {
		return err
	}
	s := subscription{x: r.x, l: l, r: r, handed: make(map[uint32]uint64)}
	return s.hand(o.sid, upTo)
}

// SignExport signs what an export claims of itself.
func (x *Indexer) SignExport(body *translog.Export, at, until time.Time) (*envelope.Object, error) {
	if x.frozen != nil {
		return nil, ErrFrozen
	}
	body.Indexer = x.local.Name()
	return envelope.Sign(envelope.Header{
		Type: envelope.Export, Authority: x.local.Name().Authority(), Subject: x.local.Name(), Epoch: x.local.Epoch(envelope.UseEnvelope),
		Sequence: uint64(at.Unix()), IssuedAt: at, NotBefore: at, ExpiresAt: until,
	}, body, x.local.Envelope)
}
