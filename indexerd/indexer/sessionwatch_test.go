package indexer

import (
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// command is the trust of the rig's indexer as another process sees it.
func (r *rig) command() *identity.Trust {
	r.t.Helper()
	return must[*identity.Trust](r.t)(identity.OpenTrust(filepath.Join(r.dir, "trust"), identity.TrustOptions{}))
}

// TestARemovedIdentityLosesItsSessionAndNoOther changes the trust as commands
// do, while the indexer runs.
func TestARemovedIdentityLosesItsSessionAndNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(1)
	other := r.publisher("spiffe://other.example/publisher", "https://other.example")
	theirs := other.series("docs-1", "https://other.example/", nil)
	stays := other.session(theirs)
	early := r.publisher("spiffe://early.example/publisher", "https://early.example").greeted() // no announcement yet

	start := time.Now()
	for _, name := range []envelope.Name{s.p.local.Name(), early.p.local.Name()} {
		if err := r.command().Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*client{c, early} {
		if _, err := c.recv(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: the session ends by %v", c.p.local.Name(), err)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("after %s", took)
	}
	stays.push(theirs, puts("words", "https://other.example/a")...)

	// It is trusted again, and comes back without a restart.
	must[*identity.Peer](t)(r.command().Add(s.p.local.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{"https://example.com"}, Now: r.now()}))
	r.eventually("the trust", func() bool { r.x.trust.Refresh(); return len(r.x.trust.List()) == 2 })
	s.p.session(s).push(s, puts("words", site+"again")...)
	stays.push(theirs, puts("words", "https://other.example/b")...)
}

// TestABatchInFlightIsAnsweredWhenTheCertificateEnds has a certificate that ends
// before the grant does.
func TestABatchInFlightIsAnsweredWhenTheCertificateEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	const left = 2 * time.Hour
	p.local = must[*identity.Local](t)(identity.Create(t.TempDir(), identity.Options{
		Identity: "spiffe://short.example/publisher", Role: identity.Publisher, Now: r.now().Add(left - 365*24*time.Hour),
	}))
	must[*identity.Peer](t)(r.x.trust.Add(p.local.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{"https://short.example"}, Now: r.now()}))
	s := p.series("docs-1", "https://short.example/", nil)
	c := p.session(s)
	b := s.parcel(puts("words", "https://short.example/new")...).pack()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: b.frame[:10]}}})
	r.eventually("the batch to be in flight", r.x.sessions.of(p.local.Name()).serving.Load)
	r.forward(left)
	if f := c.next().GetDrain(); f == nil {
		t.Error("the publisher is not asked to come back")
	}
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: b.frame[10:]}}})
	if a := c.next().GetBatchResult(); a.GetCommitted() == nil {
		t.Errorf("the batch in flight: %v", a)
	}
	if _, err := c.recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the session ends by %v", err)
	}
	// With a new certificate under the same key it goes on.
	if changed, err := p.local.Renew(r.now(), nil); !changed || err != nil {
		t.Fatal(changed, err)
	}
	b.take()
	p.session(s).push(s, puts("words", "https://short.example/next")...)
}
