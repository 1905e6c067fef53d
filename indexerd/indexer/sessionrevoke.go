package indexer

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// tellTimeout is how long a session may take to take a frame that it did not
// ask for.
const tellTimeout = 5 * time.Second

// Revoke takes one revocation of a trusted publisher, which may be another than
// the one that the object names: it is the object that counts.
func (s *service) Revoke(ctx context.Context, f *oiv1.SignedObject) (*oiv1.Acknowledgements, error) {
	pr, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no peer")
	}
	info, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no TLS")
	}
	who, _, err := identity.VerifyPeer(info.State, s.x.trust, identity.Publisher, s.x.cfg.Now())
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, string(grants.ErrUnknownPeer))
	}
	if err := s.x.call(ctx, who.Card.Identity); err != nil {
		return nil, toStatus(err)
	}
	a, err := s.x.answerRevocation(ctx, f, "")
	return a, toStatus(err)
}

// answerRevocation takes a revocation in and answers it, also with a refusal.
// An error is a fault of our own.
func (x *Indexer) answerRevocation(ctx context.Context, f *oiv1.SignedObject, peer envelope.Name) (*oiv1.Acknowledgements, error) {
	raw := f.GetObject()
	rev, err := x.revoke(ctx, raw, peer)
	if err == nil {
		return x.wireAcknowledgements(rev.Object.ID, f.GetSeen())
	}
	r, ok := asRefusal(err)
	if !ok || exhausted(err) != nil { // not refused: it has to come again
		return nil, err
	}
	x.log.Warn("revocation refused", "peer", peer, "reason", string(r.reason), "detail", r.detail)
	a := &oiv1.Acknowledgements{Refused: r.fault()}
	if o, err := envelope.Parse(raw); err == nil {
		a.RevocationId = o.ID[:]
	}
	return a, nil
}

// wireAcknowledgements is all that is acknowledged of a revocation by now, for a
// publisher that has seen a tree of that size, or none.
func (x *Indexer) wireAcknowledgements(revocation envelope.Hash, seen uint64) (*oiv1.Acknowledgements, error) {
	given, pending, err := x.acknowledgements(revocation)
	if err != nil {
		return nil, err
	}
	w := &oiv1.Acknowledgements{RevocationId: revocation[:], Pending: pending}
	for _, a := range given {
		log, err := x.logOf(a.Note)
		if err != nil {
			return nil, fmt.Errorf("acknowledgement of revocation %s: %w", revocation, err)
		}
		view := log.Released()
		path, err := view.InclusionAt(a.Index, a.TreeSize)
		if err != nil {
			return nil, fmt.Errorf("acknowledgement of revocation %s: %w", revocation, err)
		}
		var growth [][32]byte
		if seen > 0 && seen <= view.Tree.Size { // beyond it, it was another log's or is for the session to find
			if growth, err = view.ConsistencyAt(min(seen, a.TreeSize), max(seen, a.TreeSize)); err != nil {
				return nil, fmt.Errorf("acknowledgement of revocation %s: %w", revocation, err)
			}
		}
		w.Acknowledged = append(w.Acknowledged, &oiv1.Acknowledged{
			Series: a.Series, Acknowledgement: a.Object, Entry: a.Entry, Inclusion: &oiv1.Path{Hashes: rawHashes(path)},
			Checkpoint: a.Checkpoint, Note: a.Note, Consistency: rawHashes(growth),
		})
	}
	return w, nil
}

func acknowledgementsFrame(a *oiv1.Acknowledgements) *oiv1.IndexerFrame {
	return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Acknowledgements{Acknowledgements: a}}
}

// revocation serves a revocation that came in the session. It waits for no
// batch, and its answer passes before what is queued.
func (s *session) revocation(ctx context.Context, f *oiv1.SignedObject) error {
	s.withdrew.Store(true)
	if err := s.x.call(ctx, s.peer.Card.Identity); err != nil {
		return err
	}
	a, err := s.x.answerRevocation(ctx, f, s.peer.Card.Identity)
	if err != nil {
		return err
	}
	return s.link.Urgent(ctx, acknowledgementsFrame(a))
}

// tell sends what is acknowledged of a revocation, unasked, to the publisher's
// session, if it has one that is past its announcement.
func (x *Indexer) tell(publisher envelope.Name, revocation envelope.Hash) {
	m := x.sessions.of(publisher)
	if m == nil || !m.ready.Load() {
		return
	}
	a, err := x.wireAcknowledgements(revocation, 0) // the publisher asks again, and says what it has seen
	if err != nil {
		x.log.Error("acknowledgements", "revocation", revocation, "error", err)
		return
	}
	m.send(acknowledgementsFrame(a))
	x.sessions.wake(publisher)
}
