package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// revokeTimeout is for one answer to a revocation.
const revokeTimeout = 20 * time.Second

// DeliverPending brings every revocation that is not settled to its indexer:
// to one indexer only if it is named. It reports how many were waiting.
func (p *Publisher) DeliverPending(ctx context.Context, only envelope.Name) (int, error) {
	all, err := Revocations(p.dir)
	if err != nil {
		return 0, err
	}
	waiting := 0
	tried := make(map[envelope.Name]bool)
	var errs []error
	for _, v := range all {
		if !v.due(p.now()) || only != "" && v.Indexer != only {
			continue
		}
		if !v.Settled() {
			waiting++
		}
		if !tried[v.Indexer] {
			tried[v.Indexer] = true
			errs = append(errs, p.DeliverRevocations(ctx, v.Indexer))
		}
	}
	return waiting, errors.Join(errs...)
}

// DeliverRevocations shows an indexer each revocation that is not settled,
// over a connection of its own that needs no session and no live grant, and
// stores what it acknowledges. A call that comes later asks again: the indexer
// answers the same revocation with the same acknowledgements, and with those
// that have come since. The error is ErrUnavailable or a *Refused where
// nothing was delivered, and an *evaluate.Failure for an acknowledgement that
// does not hold, which is kept in the folder alarms.
func (p *Publisher) DeliverRevocations(ctx context.Context, indexer envelope.Name) error {
	p.revocationsMu.Lock()
	defer p.revocationsMu.Unlock()
	all, err := Revocations(p.dir)
	if err != nil {
		return err
	}
	if err := p.dropRevoked(indexer); err != nil {
		return err
	}
	who, ok := p.trust.Lookup(indexer)
	if !ok {
		return &Refused{Reason: grants.ErrUnknownPeer, Detail: string(indexer) + "; import its card with trust add"}
	}
	conn, hs, err := p.connect(who, new(counter))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := oiv1.NewOutboundIndexingClient(conn)
	var errs []error
	for _, v := range all {
		if v.Indexer != indexer || !v.due(p.now()) {
			continue
		}
		seen, _, err := p.logTree(indexer)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		answer, err := revoke(ctx, client, v, seen.Size)
		if err != nil {
			err = hs.explain(err)
			return errors.Join(append(errs, fmt.Errorf("%s: revocation %s: %w", indexer, v.ID(), err))...)
		}
		if err := p.takeAcknowledgements(v, who, seen, answer); err != nil {
			errs = append(errs, fmt.Errorf("%s: revocation %s: %w", indexer, v.ID(), err))
		}
	}
	return errors.Join(errs...)
}

// revoke makes one call, by a publisher that has seen a tree of that size.
func revoke(ctx context.Context, client oiv1.OutboundIndexingClient, v *Revocation, seen uint64) (*oiv1.Acknowledgements, error) {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	answer, err := client.Revoke(ctx, &oiv1.SignedObject{Object: v.Signed.Object.Raw, Seen: seen})
	if err == nil {
		if id := v.ID(); string(answer.RevocationId) != string(id[:]) {
			return nil, fmt.Errorf("%w: an answer to another revocation", ErrProtocol)
		}
		return answer, nil
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
}

// takeAcknowledgements evaluates what is new in an answer, to one who had seen that
// tree, and stores it.
func (p *Publisher) takeAcknowledgements(v *Revocation, who *identity.Peer, seen translog.Tree, answer *oiv1.Acknowledgements) error {
	if answer.Refused != nil {
		return refusedBy(answer.Refused)
	}
	v.Asked = envelope.At(p.now())
	if v.Delivered.IsZero() {
		v.Delivered = v.Asked
	}
	var errs []error
	for _, wire := range answer.Acknowledged {
		a, err := p.takeAcknowledgement(v, who, seen, wire)
		if err != nil {
			errs = append(errs, fmt.Errorf("acknowledgement for series %.80q: %w", wire.Series, err))
			continue
		}
		if a == nil {
			continue
		}
		v.Acknowledgements = append(v.Acknowledgements, *a)
		p.log.Info("revocation acknowledged", "indexer", v.Indexer, "series", a.Series, "type", a.Type, "pages", a.Count)
	}
	missing, err := p.unacknowledged(v)
	if err != nil {
		return err
	}
	errs = append(errs, missing)
	v.Disputed = errors.Join(errs...) != nil
	return errors.Join(append(errs, v.write(p.dir))...)
}

// unacknowledged is an error if the indexer has said nothing of a series of
// which it holds pages, by its own receipts. It stops them at once, and says so.
func (p *Publisher) unacknowledged(v *Revocation) (missing, err error) {
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	for _, r := range rels {
		if r.Indexer != v.Indexer || !v.Signed.Reaches(r.Pair.Grant) || v.acknowledged(r.Series, translog.RevokeAck) {
			continue
		}
		c, err := agreement{p.store, r}.cursor(p.store)
		if err != nil {
			return nil, err
		}
		if !c.Receipt.IsZero() {
			missing = errors.Join(missing, fmt.Errorf("%w: series %s is not acknowledged", ErrProtocol, r.Series))
		}
	}
	return missing, nil
}

// takeAcknowledgement evaluates one acknowledgement. None is returned for one
// that is stored already.
func (p *Publisher) takeAcknowledgement(v *Revocation, who *identity.Peer, seen translog.Tree, wire *oiv1.Acknowledged) (*Acknowledgement, error) {
	path, err := hashes(wire.Inclusion.GetHashes())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	growth, err := hashes(wire.Consistency)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	var body translog.Acknowledgement
	o, err := envelope.Parse(wire.Acknowledgement)
	if err == nil {
		err = o.DecodeBody(&body)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if v.acknowledged(wire.Series, body.AckType) {
		return nil, nil
	}
	rel, err := p.agreedWith(v.Indexer, wire.Series)
	if err != nil {
		return nil, err
	}
	e, keep, err := p.expectedAck(v, rel, who, seen, wire)
	if err != nil {
		return nil, err
	}
	if e.Seen == (translog.Tree{}) {
		growth = nil // it leads from a tree of another log
	}
	done, err := evaluate.Acknowledgement(evaluate.AckAnswer{
		Acknowledgement: wire.Acknowledgement, Entry: wire.Entry, Inclusion: path, Checkpoint: wire.Checkpoint, Note: wire.Note,
		Consistency: growth,
	}, e)
	if err != nil {
		return nil, errors.Join(p.keepBadAnswer(rel, v.Signed.Object.Raw, wire), err)
	}
	done.Linked = done.Linked && keep
	if done.Linked {
		if err := p.raiseLogTree(v.Indexer, done.Own, wire.Note); err != nil {
			return nil, err
		}
	}
	// What proves the deletion of each page is durable before the acknowledgement
	// is, and before the pages leave the state.
	if err := p.keepDeletion(v, rel, done); err != nil {
		return nil, err
	}
	if err := p.afterDeletion(v, rel, e, done.Body.AckType); err != nil {
		return nil, err
	}
	return &Acknowledgement{
		Series: rel.Series, Type: done.Body.AckType, Count: done.Body.Count, IssuedAt: envelope.At(done.Object.IssuedAt),
		EntryIndex: done.Entry.Sequence, Linked: done.Linked, Unplaced: done.Unplaced,
		JournalEpoch: done.EntryBody.JournalEpoch, Through: done.EntryBody.Through, State: done.EntryBody.State,
		Acknowledgement: done.Object.Raw, Entry: done.Entry.Raw, Inclusion: wirePath(path), Checkpoint: wire.Checkpoint, Note: string(wire.Note),
	}, nil
}

// raiseLogTree stores a verified note if it is of a larger tree than the one that
// is stored, which a session may have moved on meanwhile.
func (p *Publisher) raiseLogTree(indexer envelope.Name, own translog.Tree, note []byte) error {
	now, _, err := p.logTree(indexer)
	if err != nil || now.Origin != "" && (now.Origin != own.Origin || now.Size >= own.Size) {
		return err
	}
	return p.setLogTree(indexer, note)
}

// agreedWith finds a series that an indexer named among those agreed with it.
func (p *Publisher) agreedWith(indexer envelope.Name, series string) (*Relationship, error) {
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	for _, r := range rels {
		if r.Indexer == indexer && r.Series == series {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no such series with %s", ErrProtocol, indexer)
}

// expectedAck is what an acknowledgement has to match. It is under the newest
// grant that the indexer has seen, which a renewal may have overtaken here.
//
// tree was seen when the revocation was shown. same is set if the acknowledgement
// stands in its log. One in another, before or after a rotation, is held against
// no tree, and is therefore not linked to any.
func (p *Publisher) expectedAck(v *Revocation, rel *Relationship, who *identity.Peer, tree translog.Tree, wire *oiv1.Acknowledged) (e evaluate.ExpectedAck, same bool, err error) {
	var body translog.Entry
	o, err := envelope.Parse(wire.Entry)
	if err == nil {
		err = o.DecodeBody(&body)
	}
	if err != nil {
		return e, false, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	pair, err := p.pairOf(rel, body.GrantID)
	if err != nil {
		return e, false, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	log, err := logOf(who, wire.Note)
	if err != nil {
		return e, false, err
	}
	if same = tree.Origin == "" || tree.Origin == log.Origin; !same {
		tree = translog.Tree{}
	}
	standings, lost, err := p.standings(rel)
	return evaluate.ExpectedAck{
		Agreed: agreed(p.local.Name(), who, log, p.trust.Known(), rel, pair), Grant: pair.Grant, Revocation: v.Signed,
		Standings: standings, Lost: lost, Now: p.now(), Seen: tree,
	}, same, err
}

// standings are where a series may have stood when it was revoked: at the last
// receipt, after what awaits one, or where an earlier acknowledgement found it. lost is
// set while it may be at a place that is not known here: the store was lost or is older, or
// the series is being begun anew and the indexer may stand where it stood before.
func (p *Publisher) standings(rel *Relationship) (all []evaluate.Standing, lost bool, err error) {
	a := agreement{p.store, rel}
	c, err := a.cursor(p.store)
	if err != nil {
		return nil, false, err
	}
	at := func(epoch, cursor uint64, root envelope.Hash) evaluate.Standing {
		return evaluate.Standing{JournalEpoch: epoch, Cursor: cursor, State: rel.LeafKey.StateCommitment(epoch, cursor, root)}
	}
	all = []evaluate.Standing{at(c.JournalEpoch, c.Acked, c.State)}
	batch, err := a.pending(p.store)
	if err != nil {
		return nil, false, err
	}
	if batch != nil {
		_, m, err := manifestOf(&storedAnswer{Manifest: batch.Manifest})
		if err != nil {
			return nil, false, err
		}
		all = append(all, at(m.JournalEpoch, m.Through, m.StateAfter))
	}
	rebind, err := a.pendingRebind(p.store)
	if err != nil {
		return nil, false, err
	}
	if rebind != nil {
		all = append(all, at(rebind.JournalEpoch, rebind.Cursor, rebind.State), at(rebind.JournalEpoch, rebind.Cursor, rebind.After))
	}
	places := all
	for _, v := range rel.revocations {
		for _, x := range v.Acknowledgements {
			if x.Series == rel.Series {
				all = append(all, evaluate.Standing{JournalEpoch: x.JournalEpoch, Cursor: x.Through, State: x.State})
			}
		}
		if v.Signed.Body.Disposition == grants.DispositionStop {
			continue
		}
		// The indexer may have deleted already what it was told to, and not have
		// been asked since.
		plan, _, err := a.narrow(p.store, func(url string, _ envelope.Hash) bool { return !v.Signed.ReachesPage(rel.Pair.Grant, url) })
		if err != nil {
			return nil, false, err
		}
		for _, s := range places {
			all = append(all, at(s.JournalEpoch, s.Cursor, plan.Root()))
		}
	}
	return all, c.Doubted || c.Reconciling, nil
}

// afterDeletion takes the pages of a scope that was deleted out of the state,
// as the indexer did.
func (p *Publisher) afterDeletion(v *Revocation, rel *Relationship, e evaluate.ExpectedAck, kind translog.Decision) error {
	if kind != translog.DeleteAck || v.Signed.Body.Target.Scope == nil {
		return nil
	}
	a := agreement{p.store, rel}
	c, err := a.cursor(p.store)
	if err != nil {
		return err
	}
	b := p.store.NewBatch()
	defer b.Close()
	plan, _, err := a.narrow(b, func(url string, _ envelope.Hash) bool { return !v.Signed.ReachesPage(e.Grant, url) })
	if err != nil {
		return err
	}
	if err := a.narrowTo(b, plan); err != nil {
		return err
	}
	c.State, c.Pages = plan.Root(), plan.Count()
	if err := durable.WriteJSON(b, rowKey('A', rel.Series, 'c'), c); err != nil {
		return err
	}
	return b.Commit()
}
