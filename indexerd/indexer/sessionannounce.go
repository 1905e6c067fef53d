package indexer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// announced admits an announcement, or refuses it whole (UZPIF-OI 12.2). What
// is new in it is durable before the answer.
func (s *session) announced(ctx context.Context, f *oiv1.Announce) error {
	exporter, err := s.info.State.ExportKeyingMaterial(exporterLabel, nil, len(grants.Binding{}))
	if err != nil {
		return fmt.Errorf("TLS exporter: %w", err)
	}
	v := s.verifier()
	raw := f.Announcement
	if len(f.Packed) > 0 {
		var err error
		if raw, err = grants.Unpack(f.Packed, maxMessage); err != nil {
			return err
		}
	}
	a, err := grants.OpenAnnouncement(raw, v)
	if err != nil {
		return err
	}
	offers, refusals, err := s.offers(a, f)
	if err != nil {
		return err
	}
	if len(refusals) == 0 {
		pairs := make([]grants.Pair, len(offers))
		for i, o := range offers {
			pairs[i] = o.pair
		}
		refusals = grants.CheckAnnouncement(a, grants.Session{
			Exporter: grants.Binding(exporter), Nonce: s.nonce, Publisher: v.Publisher, Indexer: v.Indexer, Now: v.Now,
		}, pairs)
	}
	if len(refusals) == 0 {
		refusals, err = s.admit(ctx, offers)
		if err != nil {
			return err
		}
	}
	if len(refusals) > 0 {
		s.keepEquivocations(offers)
	}
	result := new(oiv1.AnnounceResult)
	for _, r := range refusals {
		s.x.log.Warn("announcement refused", "publisher", v.Publisher, "series", r.Series, "reason", string(r.Reason), "detail", r.Detail)
		s.x.noteRefusal("announcement", string(r.Reason), v.Publisher, "")
		result.Refusals = append(result.Refusals, &oiv1.Refusal{Series: r.Series, GrantId: r.GrantID[:], Reason: string(r.Reason), Detail: r.Detail})
	}
	for _, h := range s.live {
		c, err := h.rec.wireState(s.x.store)
		if err != nil {
			return err
		}
		result.Collections = append(result.Collections, c)
	}
	return s.link.Urgent(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_AnnounceResult{AnnounceResult: result}})
}

func (s *session) verifier() grants.Verifier {
	return grants.Verifier{
		// All trusted keys: what another identity signed is then refused as
		// another's, and not as signed by nobody. Whose it must be is checked.
		Keys: s.x.trust, Now: s.x.cfg.Now(),
		Publisher: s.peer.Card.Identity, Indexer: s.x.local.Name(), MaxLifetime: time.Duration(s.x.maxGrant.Load()),
	}
}

func (r *seriesRecord) wireState(rd durable.Reader) (*oiv1.CollectionState, error) {
	c := &oiv1.CollectionState{Series: r.Series, JournalEpoch: r.JournalEpoch, Revision: r.Revision, StateRoot: r.State[:], Wanted: r.Wanted}
	receipt, err := readReceipt(rd, r.SID)
	if !receipt.ID.IsZero() {
		c.Receipt = receipt.ID[:]
	}
	if !r.Bound.IsZero() {
		c.BoundGrant = r.Bound[:]
	}
	return c, err
}

// maxSeries bounds the series that are held of one publisher: each Welcome lists
// them all, and they stay for as long as what is proven by them.
const maxSeries = 1024

// An offer is a grant with its policy, as presented or as held already.
type offer struct {
	pair   grants.Pair
	secret *oiv1.SeriesSecret // nil when nothing new was presented
	feed   *grants.Feed       // likewise
}

// offers opens every grant and policy that the announcement lists: those that
// came with it, and those that are held, by their ids.
func (s *session) offers(a *grants.Announcement, f *oiv1.Announce) ([]offer, []grants.Refusal, error) {
	if max(len(f.Grants), len(f.Policies), len(f.Secrets)) > grants.MaxRequests {
		return nil, nil, refuse(grants.ErrOversize, "more than %d grants or policies", grants.MaxRequests)
	}
	v := s.verifier()
	presented := make(map[envelope.Hash][]byte)
	for _, raw := range append(append([][]byte{}, f.Grants...), f.Policies...) {
		o, err := envelope.Parse(raw)
		if err != nil {
			return nil, nil, err
		}
		presented[o.ID] = raw
	}
	secrets := make(map[string]*oiv1.SeriesSecret)
	for _, sec := range f.Secrets {
		secrets[sec.Series] = sec
	}
	feeds, err := s.feeds(f, v)
	if err != nil {
		return nil, nil, err
	}
	var offers []offer
	var refusals []grants.Refusal
	for _, id := range a.Body.Grants {
		o, err := s.offer(id, presented, v)
		if err != nil {
			if grants.ReasonOf(err) == "" {
				return nil, nil, err
			}
			refusals = append(refusals, refusalOf("", id, err))
			continue
		}
		o.secret, o.feed = secrets[o.pair.Grant.Body.Series], feeds[o.pair.Grant.Body.Series]
		offers = append(offers, o)
	}
	if len(refusals) == 0 {
		refusals = unasked(feeds, offers)
	}
	// Of two grants of one series the newer one comes last, and counts.
	slices.SortStableFunc(offers, func(a, b offer) int {
		return a.pair.Grant.Object.Position().Compare(b.pair.Grant.Object.Position())
	})
	return offers, refusals, nil
}

// offer opens one grant with its policy.
func (s *session) offer(id envelope.Hash, presented map[envelope.Hash][]byte, v grants.Verifier) (offer, error) {
	raw, err := s.object(id, presented)
	if err != nil {
		return offer{}, err
	}
	g, err := grants.OpenGrant(raw, s.x.holding(v, id))
	if err != nil {
		return offer{}, err
	}
	if raw, err = s.object(g.Body.PolicyHash, presented); errors.Is(err, grants.ErrNoGrant) {
		return offer{}, refuse(grants.ErrPolicy, "%s is neither presented nor held", g.Body.PolicyHash)
	}
	if err != nil {
		return offer{}, err
	}
	p, err := grants.OpenPolicy(raw, s.x.holding(v, g.Body.PolicyHash))
	if err != nil {
		return offer{}, err
	}
	pair, err := grants.NewPair(g, p)
	return offer{pair: pair}, err
}

// object finds an object among those that came or in the store.
func (s *session) object(id envelope.Hash, presented map[envelope.Hash][]byte) ([]byte, error) {
	if raw, ok := presented[id]; ok {
		return raw, nil
	}
	raw, err := s.x.store.Get(objectKey(id))
	if errors.Is(err, durable.ErrNotFound) {
		return nil, refuse(grants.ErrNoGrant, "%s is neither presented nor held", id)
	}
	return raw, err
}

// admit makes what is new durable, in commit order, and takes the series up
// into the session.
func (s *session) admit(ctx context.Context, offers []offer) ([]grants.Refusal, error) {
	p := &admission{s: s, offers: offers}
	var err error
	if p.isKnown(s.x.store) {
		err = p.check(s.x.store)
	} else if err = s.x.store.Room(); err == nil {
		err = s.x.tlog.Commit(ctx, p)
	}
	if err != nil && len(p.refusals) == 0 {
		return nil, err
	}
	if len(p.refusals) > 0 {
		return p.refusals, nil
	}
	for i, rec := range p.recs {
		s.live[rec.Series] = &held{rec, offers[i].pair}
	}
	return nil, nil
}

// An admission takes grants and policies in. Its check runs in the writer, in
// commit order: a newer object of a series may have come meanwhile.
type admission struct {
	s        *session
	offers   []offer
	recs     []*seriesRecord
	refusals []grants.Refusal
}

// isKnown reports whether everything offered is already in force: the usual
// case of a session that continues an agreement, which needs no commit.
func (p *admission) isKnown(r durable.Reader) bool {
	for _, o := range p.offers {
		rec, err := readSeries(r, p.s.peer.Card.Identity, o.pair.Grant.Body.Series)
		if err != nil || rec == nil || rec.Grant.ID != o.pair.Grant.Object.ID || rec.Policy.ID != o.pair.Policy.Object.ID ||
			o.feed != nil && rec.Feed.ID != o.feed.Object.ID {
			return false
		}
	}
	return true
}

var errRefusedWhole = errors.New("the announcement is refused whole")

// check finds the records of all series, and what is at fault with any.
func (p *admission) check(r durable.Reader) error {
	all, err := seriesOf(r, p.s.peer.Card.Identity)
	if err != nil {
		return err
	}
	p.recs = p.recs[:0]
	for _, o := range p.offers {
		rec, err := p.checkOne(r, o, all)
		if err != nil {
			if grants.ReasonOf(err) == "" {
				return err
			}
			p.refusals = append(p.refusals, refusalOf(o.pair.Grant.Body.Series, o.pair.Grant.Object.ID, err))
		} else if !slices.Contains(all, rec) {
			all = append(all, rec)
		}
		p.recs = append(p.recs, rec)
	}
	if len(p.refusals) > 0 {
		return errRefusedWhole
	}
	return nil
}

// checkOne checks one offer against what is held: whose origin it is, its
// place in its streams, its secrets, and whether another live series of this
// publisher reaches the same pages.
func (p *admission) checkOne(r durable.Reader, o offer, all []*seriesRecord) (*seriesRecord, error) {
	g := o.pair.Grant
	var origins []string
	for _, origin := range p.s.peer.Origins {
		origins = append(origins, string(origin))
	}
	if err := g.Body.Scope.CheckOrigins(origins); err != nil {
		return nil, err
	}
	revs, err := revocationsOf(r, g)
	if err != nil {
		return nil, err
	}
	if err := errRevokedWhole(g, revs); err != nil {
		return nil, err
	}
	var rec *seriesRecord
	for _, other := range all {
		if other.Series == g.Body.Series {
			rec = other
			continue
		}
		if other.leafKey().Commit() == g.Body.LeafKeyCommit { // the log would show two series as one
			return nil, refuse(grants.ErrMalformed, "series %s has this leaf key", other.Series)
		}
		if err := p.checkOverlap(r, g, other); err != nil {
			return nil, err
		}
	}
	if err := checkBeside(rec, all, g.Body.Scope); err != nil {
		return nil, err
	}
	if rec == nil {
		if len(all) >= maxSeries {
			return nil, refuse(grants.ErrOversize, "%d series are held of this publisher", len(all))
		}
		if err := neverHeld(r, g); err != nil {
			return nil, err
		}
		return p.newSeries(o)
	}
	return rec, rec.advance(o)
}

// checkOverlap refuses a scope that collides with that of another live series.
func (p *admission) checkOverlap(r durable.Reader, g *grants.Grant, other *seriesRecord) error {
	if slices.ContainsFunc(p.offers, func(o offer) bool { return o.pair.Grant.Body.Series == other.Series }) {
		return nil // announced beside this one, and compared with it already
	}
	pair, live, err := other.live(r, p.s.x.cfg.Now())
	if err != nil {
		return err
	}
	if live && grants.Collide(g.Body.Scope, pair.Grant.Body.Scope) {
		return refuse(grants.ErrOverlap, "series %s", other.Series)
	}
	return nil
}

// newSeries makes the record of a series that is seen for the first time.
func (p *admission) newSeries(o offer) (*seriesRecord, error) {
	g, sec := o.pair.Grant, o.secret
	if sec == nil || len(sec.LeafKey) != 32 || len(sec.Relationship) != 32 {
		return nil, refuse(grants.ErrMalformed, "series %s comes without its secrets", g.Body.Series)
	}
	if _, err := grants.CollectionScope(sec.Collection, g.Body.Scope.Prefixes...); err != nil {
		return nil, refuse(grants.ErrMalformed, "series %s: the collection's name %.80q", g.Body.Series, sec.Collection)
	}
	if translog.LeafKey(sec.LeafKey).Commit() != g.Body.LeafKeyCommit {
		return nil, refuse(grants.ErrMalformed, "the leaf key of series %s is not the one that the grant commits to", g.Body.Series)
	}
	if id := g.Body.Scope.ID; id != "" && id != sec.Collection {
		return nil, refuse(grants.ErrScope, "the grant is for collection %q", id)
	}
	rec := &seriesRecord{
		Publisher: g.Body.Issuer, Series: g.Body.Series, Collection: sec.Collection,
		LeafKey: [32]byte(sec.LeafKey), Relation: [32]byte(sec.Relationship),
		Grant: g.Object.Position(), Policy: o.pair.Policy.Object.Position(),
		Since: envelope.At(o.pair.BeginsAt()),
	}
	return rec, rec.takeFeed(o)
}

// advance takes a newer grant or policy of the series up.
func (r *seriesRecord) advance(o offer) error {
	if o.pair.Grant.Body.LeafKeyCommit != r.leafKey().Commit() {
		return refuse(grants.ErrMalformed, "series %s has another leaf key", r.Series)
	}
	newGrant, err := r.Grant.Advance(o.pair.Grant.Object.Position())
	if err != nil {
		return err
	}
	newPolicy, err := r.Policy.Advance(o.pair.Policy.Object.Position())
	if err != nil {
		return err
	}
	if newGrant {
		r.Grant = o.pair.Grant.Object.Position()
		if r.Expired != r.Bound {
			r.Expired = envelope.Hash{} // a renewal that had ended before what it renewed
		}
	}
	if newPolicy {
		r.Policy = o.pair.Policy.Object.Position()
	}
	return r.takeFeed(o)
}

// Prepare checks again and writes.
func (p *admission) Prepare(tx *translog.Tx) error {
	if !p.s.x.sessions.current(p.s.self) {
		return errFenced
	}
	b := tx.Batch()
	if err := p.check(b); err != nil {
		return err
	}
	for i, rec := range p.recs {
		if rec.SID == 0 { // two offers of one series share their record
			sid, err := nextSID(b)
			if err != nil {
				return err
			}
			rec.SID = sid
		}
		pair := p.offers[i].pair
		err := errors.Join(
			b.Set(objectKey(pair.Grant.Object.ID), pair.Grant.Object.Raw),
			b.Set(objectKey(pair.Policy.Object.ID), pair.Policy.Object.Raw),
			rec.write(b),
		)
		if feed := p.offers[i].feed; feed != nil {
			err = errors.Join(err, b.Set(objectKey(feed.Object.ID), feed.Object.Raw))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Finish has nothing to add: an admission makes no entry.
func (p *admission) Finish(*translog.Tx, *translog.Committed) error { return nil }

// nextSID gives the next series number.
func nextSID(b *durable.Batch) (uint32, error) {
	key := []byte{'N'}
	var last uint32
	if _, err := durable.ReadJSON(b, key, &last); err != nil {
		return 0, err
	}
	last++
	return last, durable.WriteJSON(b, key, last)
}
