package indexer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

func TestNewerSessionFencesTheOlder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, old := r.example().held(2)
	late := s.parcel(puts("late", site+"late")...).pack()
	c := s.p.session(s)
	if _, err := old.recv(); status.Code(err) != codes.Aborted {
		t.Errorf("the older session ends by %v", err)
	}
	ses := &session{x: r.x, peer: must2(r.x.trust.Lookup(s.p.local.Name())), self: &member{name: s.p.local.Name()}, live: make(map[string]*held)}
	rec, _, _ := r.stateOf(s)
	ses.live[s.name] = &held{&rec, s.pair}
	in := must[*ingest](t)(ses.ingest(late.batch, late.frame))
	if err := r.x.tlog.Commit(context.Background(), in); !errors.Is(err, errFenced) {
		t.Errorf("a batch of the older session: %v", err)
	}
	c.push(s, puts("words", site+"new")...)
}

func TestHelloIsRefusedByVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.example().stream()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: &oiv1.Hello{Versions: []string{"uzpif-oi-session/9"}}}})
	if got := c.next().GetFault().GetReason(); got != string(grants.ErrVersion) {
		t.Errorf("fault %q, want %q", got, grants.ErrVersion)
	}
}

func TestFramesOutOfPlaceEndTheSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	announce := &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: &oiv1.Announce{}}}
	hello := &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: &oiv1.Hello{Versions: []string{sessionVersion}}}}
	for _, tt := range []struct {
		name  string
		begin func() *client
		frame *oiv1.PublisherFrame
	}{
		{"an announcement before Hello", p.stream, announce},
		{"a batch before the announcement", p.greeted, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: &oiv1.Batch{}}}},
		{"a second Hello", func() *client { return p.session(p.series("docs-1", site, nil)) }, hello},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.begin()
			c.send(tt.frame)
			if got := c.next().GetFault().GetReason(); got != string(grants.ErrMalformed) {
				t.Errorf("fault %q, want %q", got, grants.ErrMalformed)
			}
		})
	}
}

// TestAnnouncementIsGoodForItsOwnSessionAlone plays one again that was never
// shown to the indexer, in another session of the same publisher.
func TestAnnouncementIsGoodForItsOwnSessionAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	kept := p.greeted().announcement(s)
	c := p.greeted()
	got := c.announce(kept).Refusals
	if len(got) != 1 || got[0].Reason != string(grants.ErrBinding) {
		t.Errorf("refused for %v, want %q", got, grants.ErrBinding)
	}
	if rec, err := readSeries(r.x.store, p.local.Name(), s.name); rec != nil || err != nil {
		t.Errorf("the series is there: %v (%v)", rec, err)
	}
}

func TestUntrustedPublisherIsToldNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publisher("spiffe://stranger.example/publisher")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn := p.connect()
	defer conn.Close()
	stream, err := oiv1.NewOutboundIndexingClient(conn).Session(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil {
		t.Error("a session")
	}
	rev := p.revocation(grants.RevokeAll(p.local.Name(), grants.DispositionDelete))
	if _, err := oiv1.NewOutboundIndexingClient(conn).Revoke(ctx, &oiv1.SignedObject{Object: rev.Object.Raw}); err == nil {
		t.Error("a call")
	}
}

func TestSessionEndsWithItsRight(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*rig, *series)
	}{
		{"its publisher's trust", func(r *rig, s *series) {
			if err := r.x.trust.Remove(s.p.local.Name()); err != nil {
				r.t.Error(err)
			}
		}},
		{"its certificate", func(r *rig, _ *series) { r.forward(366 * 24 * time.Hour) }},
		{"its grant", func(r *rig, _ *series) { r.forward(24 * time.Hour) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s, c := r.example().held(1)
			start := time.Now()
			tt.end(r, s)
			f, err := c.recv()
			if err == nil && f.GetDrain() != nil { // an end that finds it with a new certificate
				_, err = c.recv()
			}
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("the session ends by %v", err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("after %s", took)
			}
		})
	}
}

func TestTheMoreSessionsThereAreTheWiderTheyComeBack(t *testing.T) {
	for _, tt := range []struct{ sessions, perSecond int }{{1, 1}, {1000, 100}, {5000, 100}} {
		ms := int(spreadOf(tt.sessions))
		if ms < comeSpread || ms > comeMost || tt.sessions*1000 > tt.perSecond*ms {
			t.Errorf("%d sessions come back over %d ms, more than %d a second", tt.sessions, ms, tt.perSecond)
		}
	}
	if most := spreadOf(1 << 40); most != comeMost {
		t.Errorf("however many there are, they are told to come back within %d ms", most)
	}
}

func TestDrainAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(1)
	b := s.parcel(puts("words", site+"new")...).pack()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: b.frame[:10]}}})
	// The rest comes only when the drain has been told.
	r.eventually("the batch to be in flight", r.x.sessions.of(s.p.local.Name()).serving.Load)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.x.sessions.drain(drainTime)
	}()
	if f := c.next().GetDrain(); f == nil || f.ComeBackMs < comeBack || f.ComeBackMs > comeBack+spreadOf(1) {
		t.Errorf("told %v", f)
	}
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: b.frame[10:]}}})
	if a := c.next().GetBatchResult(); a.GetCommitted() == nil {
		t.Errorf("the batch in flight: %v", a)
	}
	if _, err := c.recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the session ends by %v", err)
	}
	<-drained
	late := s.p.stream()
	if _, err := late.recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a session that comes later: %v", err)
	}
}

func TestExpiryClosesAtItsSecondAndIsLoggedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(3)
	page := urls(site, 1)[0]
	r.forward(24*time.Hour - time.Second)
	r.x.tend(t.Context())
	if err := r.readable(s, page); err != nil {
		t.Errorf("a second before: %v", err)
	}
	r.forward(time.Second)
	if err := r.readable(s, page); !errors.Is(err, grants.ErrExpired) {
		t.Errorf("at the second: %v", err)
	}
	for range 3 {
		r.x.tend(t.Context())
	}
	r.close()
	r.open()
	r.x.tend(t.Context())
	if got, want := words(r.log()), []string{"include/accepted 3", "exclude/grant-expired 3"}; !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
	// A renewal takes over what is still held.
	s.pair = s.grant(2, nil)
	c := s.p.session(s)
	if err := r.readable(s, page); !errors.Is(err, grants.ErrExpired) {
		t.Errorf("before the rebind: %v", err)
	}
	if a := c.rebind(s); a.Refused != nil {
		t.Fatal(a.Refused)
	}
	if err := r.readable(s, page); err != nil {
		t.Errorf("behind the rebind: %v", err)
	}
	r.forward(24 * time.Hour)
	r.x.tend(t.Context())
	got := words(r.log())
	if want := []string{"update/rebound 3", "exclude/grant-expired 3"}; !slices.Equal(got[2:], want) {
		t.Errorf("logged %q, want %q", got[2:], want)
	}
}
