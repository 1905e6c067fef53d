package indexer

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// openRevocation opens a revocation, over whatever way it came: the object
// authenticates itself, by the keys of the publisher that it names (UZPIF-OI
// 12.6). peer, if it is set, must be that publisher.
func (x *Indexer) openRevocation(raw []byte, peer envelope.Name) (*grants.Revocation, error) {
	o, err := envelope.Parse(raw)
	if err != nil {
		return nil, err
	}
	if o.Type != envelope.Revocation {
		return nil, refuse(grants.ErrMalformed, "object_type %s, want %s", o.Type, envelope.Revocation)
	}
	var b grants.RevocationBody
	if err := o.DecodeBody(&b); err != nil {
		return nil, err
	}
	if _, ok := x.trust.Lookup(b.Publisher); !ok {
		return nil, refuse(grants.ErrUnknownPeer, "%s", b.Publisher)
	}
	return grants.OpenRevocation(raw, grants.Verifier{
		Keys: x.revocationKeys(b.Publisher, o.ID), Now: x.cfg.Now(), Publisher: peer, Indexer: x.local.Name(),
	})
}

// revoke takes a revocation in. When it returns, acquisition and every exit of
// what the revocation reaches have stopped, for good, and that is in the log;
// deletions begin. The same revocation again changes nothing.
func (x *Indexer) revoke(ctx context.Context, raw []byte, peer envelope.Name) (*grants.Revocation, error) {
	rev, err := x.openRevocation(raw, peer)
	if err != nil {
		return nil, err
	}
	p := &withdrawal{x: x, rev: rev}
	// Whoever brought it may hang up; it counts all the same.
	if err := x.tlog.CommitUrgent(context.WithoutCancel(ctx), p); err != nil {
		return nil, err
	}
	x.log.Info("revocation", "publisher", rev.Body.Publisher, "revocation", rev.Object.ID, "disposition", rev.Body.Disposition,
		"series", len(p.reached), "known", p.known)
	x.sessions.wake(rev.Body.Publisher)
	x.tender.hurry()
	return rev, nil
}

// A withdrawal is the proposal that takes a revocation in: its row, and for
// each series reached one entry, one acknowledgement, and the end of whatever
// the grant allowed.
type withdrawal struct {
	x       *Indexer
	rev     *grants.Revocation
	known   bool
	reached []reached
}

// reached is a series that a revocation reaches.
type reached struct {
	rec   *seriesRecord
	pair  grants.Pair   // the newest grant that it reaches
	scope envelope.Hash // what of the grant, as log objects name it
	whole bool          // nothing of what is held is left
	count uint64        // pages held that it reaches
}

// Prepare reads everything before it writes anything.
func (p *withdrawal) Prepare(tx *translog.Tx) error {
	b, publisher := tx.Batch(), p.rev.Body.Publisher
	key := revocationKey(publisher, p.rev.Object.ID)
	var old storedRevocation
	var err error
	if p.known, err = durable.ReadJSON(b, key, &old); err != nil || p.known {
		return err
	}
	if err := p.checkOwner(b); err != nil {
		return err
	}
	recs, err := seriesOf(b, publisher)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		hit, err := p.reach(b, rec)
		if err != nil {
			return err
		}
		if hit != nil {
			p.reached = append(p.reached, *hit)
		}
	}
	row := storedRevocation{Object: p.rev.Object.Raw, Series: p.rev.Body.Series, Grant: p.rev.Body.Target.GrantID, At: envelope.At(tx.Now())}
	if err := durable.WriteJSON(b, key, row); err != nil {
		return err
	}
	for i := range p.reached {
		if err := p.stop(tx, &p.reached[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner refuses a revocation of a grant that somebody else signed. One of a
// grant that was never seen is kept: it may have come before its grant.
func (p *withdrawal) checkOwner(r durable.Reader) error {
	id := p.rev.Body.Target.GrantID
	raw, err := r.Get(objectKey(id))
	if id.IsZero() || errors.Is(err, durable.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	g, err := grants.ReadGrant(raw)
	if err == nil && g.Body.Issuer != p.rev.Body.Publisher {
		err = refuse(grants.ErrIssuer, "grant %s is not of %s", id, p.rev.Body.Publisher)
	}
	return err
}

// reach finds what the revocation does to one series; nil is nothing.
func (p *withdrawal) reach(r durable.Reader, rec *seriesRecord) (*reached, error) {
	newest, bound, err := rec.pairs(r)
	if err != nil {
		return nil, err
	}
	hit := &reached{rec: rec}
	switch {
	case p.rev.Reaches(newest.Grant):
		hit.pair = newest
	case p.rev.Reaches(bound.Grant):
		hit.pair = bound
	default:
		return nil, nil
	}
	if hit.scope, err = p.rev.ScopeHash(hit.pair.Grant); err != nil {
		return nil, err
	}
	held := bound.Grant
	if !p.rev.Reaches(held) {
		held = newest.Grant
	}
	if hit.whole = p.rev.ReachesWhole(held); hit.whole {
		hit.count = rec.Pages
		return hit, nil
	}
	err = eachPage(r, rec.SID, func(_ []byte, row *catalogueRow) error {
		if row.Held && p.rev.ReachesPage(hit.pair.Grant, row.URL) {
			hit.count++
		}
		return nil
	})
	return hit, err
}

// eachPage calls f for every catalogue row of a series, by ascending hash of
// the URL. f must not keep the key.
func eachPage(r durable.Reader, sid uint32, f func(key []byte, row *catalogueRow) error) error {
	lo := sidKey('C', sid)
	for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		var row catalogueRow
		if err := row.ParseRow(kv.Value); err != nil {
			return fmt.Errorf("row %q: %w", kv.Key, err)
		}
		if err := f(kv.Key, &row); err != nil {
			return err
		}
	}
	return nil
}

// stop ends acquisition and exits of what is reached, and says so in the log.
func (p *withdrawal) stop(tx *translog.Tx, hit *reached) error {
	b, rec := tx.Batch(), hit.rec
	done := revokedRecord{ID: p.rev.Object.ID, Disposition: p.rev.Body.Disposition, At: envelope.At(tx.Now()), Count: hit.count}
	switch {
	case !hit.whole:
		rec.Partial = append(rec.Partial, done)
	case rec.Revoked == nil || rec.Revoked.Disposition != grants.DispositionDelete:
		rec.Revoked = &done
	}
	if p.rev.Body.Disposition == grants.DispositionRetention {
		d := newDeletion(p.rev, hit)
		if err := durable.WriteJSON(b, waitingKey(rec.SID, d.Revocation), d); err != nil {
			return err
		}
	}
	if p.rev.Body.Disposition == grants.DispositionDelete {
		rec.DataKey++
		rec.Deletions++
		if err := newDeletion(p.rev, hit).write(b); err != nil {
			return err
		}
	}
	if err := p.unwant(b, hit); err != nil {
		return err
	}
	if err := rec.write(b); err != nil {
		return err
	}
	e := rec.entry(hit.pair, rec.State)
	e.Decision, e.Status, e.RevocationID = translog.RevokeAck, translog.Stopped, p.rev.Object.ID
	e.ScopeHash, e.Objects = hit.scope, counted(hit.count)
	return rec.append(tx, hit.pair, e, nil)
}

// unwant forgets the pages that may not be asked for any more, and their URLs.
func (p *withdrawal) unwant(b *durable.Batch, hit *reached) error {
	var keep func(byte, *wantedPage) bool
	if !hit.whole {
		keep = func(_ byte, w *wantedPage) bool { return !p.rev.ReachesPage(hit.pair.Grant, w.URL) }
	}
	err := hit.rec.unwantAll(b, keep)
	p.x.asks.note(hit.rec)
	return err
}

// entry is what all entries about a series outside batches hold: the cursor,
// and the commitment of a state there.
func (r *seriesRecord) entry(p grants.Pair, root envelope.Hash) translog.Entry {
	g := p.Grant
	return translog.Entry{
		CollectionRef: r.leafKey().CollectionRef(r.Collection), From: r.Revision, GrantExpiresAt: envelope.At(g.Object.ExpiresAt),
		GrantID: g.Object.ID, JournalEpoch: r.JournalEpoch, PolicyHash: g.Body.PolicyHash, Purposes: g.Body.Purposes.Strings(),
		ScopeHash: g.ScopeHash, State: r.leafKey().StateCommitment(r.JournalEpoch, r.Revision, root), Through: r.Revision,
	}
}

// append adds an entry, and the row that finds it by its grant.
func (r *seriesRecord) append(tx *translog.Tx, p grants.Pair, e translog.Entry, leaves [][32]byte) error {
	if err := tx.Batch().Set(grantEntryKey(e.GrantID, tx.Log(), tx.NextIndex()), nil); err != nil {
		return err
	}
	return tx.Append(r.subject(p.Grant), e, leaves)
}

// counted is a set that only counts its pages, and claims none of them.
func counted(n uint64) translog.Set {
	return translog.Set{Count: n, Root: translog.SetOf(nil).Root}
}

// Finish signs one acknowledgement for each series.
func (p *withdrawal) Finish(tx *translog.Tx, c *translog.Committed) error {
	for i := range p.reached {
		hit := &p.reached[i]
		if err := acknowledge(tx, c, i, hit.rec, hit.pair, hit.scope, p.rev.Object.ID, translog.RevokeAck, hit.count); err != nil {
			return err
		}
	}
	return nil
}

// An acknowledgement is one as it was given, with its trace in the log. The
// path in the log is made anew each time, and always the same.
type acknowledgement struct {
	Series     string `json:"series"`
	Object     []byte `json:"object"`
	Entry      []byte `json:"entry"`
	Index      uint64 `json:"index"` // of the entry
	Checkpoint []byte `json:"checkpoint"`
	Note       []byte `json:"note"`
	TreeSize   uint64 `json:"tree_size"`
}

// acknowledgementsKey begins the rows of one revocation's acknowledgements.
func acknowledgementsKey(revocation envelope.Hash) []byte {
	return append([]byte{'A'}, revocation[:]...)
}

func acknowledgementKey(revocation envelope.Hash, sid uint32, kind translog.Decision) []byte {
	k := append(acknowledgementsKey(revocation), sidKey('s', sid)[1:]...)
	if kind == translog.DeleteAck {
		return append(k, 1)
	}
	return append(k, 0)
}

// acknowledge signs the acknowledgement of entry i of a commit, and keeps it.
func acknowledge(tx *translog.Tx, c *translog.Committed, i int, rec *seriesRecord, p grants.Pair, scope, revocation envelope.Hash, kind translog.Decision, count uint64) error {
	e, g := c.Entries[i], p.Grant
	o, err := tx.Sign(envelope.Header{
		Type: envelope.Acknowledgement, Subject: rec.subject(g), Audience: rec.Publisher, Sequence: e.Sequence,
	}, &translog.Acknowledgement{
		AckType: kind, CheckpointRef: c.Checkpoint.ID, Count: count, Entry: translog.AckEntry{Index: e.Sequence, ObjectID: e.ID},
		GrantID: g.Object.ID, Indexer: g.Object.Audience, PolicyHash: g.Body.PolicyHash, Publisher: rec.Publisher,
		RevocationID: revocation, ScopeHash: scope,
	})
	if err != nil {
		return err
	}
	return durable.WriteJSON(tx.Batch(), acknowledgementKey(revocation, rec.SID, kind), acknowledgement{
		Series: rec.Series, Object: o.Raw, Entry: e.Raw, Index: e.Sequence, Checkpoint: c.Checkpoint.Raw, Note: c.Note, TreeSize: c.Tree.Size,
	})

}

// acknowledgements reads what is acknowledged of a revocation by now, and how
// many deletions are still under way. The store shows commits before they are
// durable; what the log has not released is still under way.
func (x *Indexer) acknowledgements(revocation envelope.Hash) (given []acknowledgement, pending uint32, err error) {
	released := x.tlog.Released().Tree.Size
	r, err := x.store.Snapshot()
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	lo := acknowledgementsKey(revocation)
	for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return nil, 0, err
		}
		var a acknowledgement
		if err := json.Unmarshal(kv.Value, &a); err != nil {
			return nil, 0, fmt.Errorf("row %q: %w", kv.Key, err)
		}
		if a.TreeSize > released && translog.OriginOf(a.Note) == x.tlog.Origin() {
			pending++
			continue
		}
		given = append(given, a)
	}
	all, err := deletions(r)
	for _, d := range all {
		if d.Revocation == revocation {
			pending++
		}
	}
	return given, pending, err
}
