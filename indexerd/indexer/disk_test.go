package indexer

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// newDiskRig is newRig on a disk whose room the test decides.
func newDiskRig(t *testing.T) (*rig, *durabletest.Disk) {
	d := durabletest.New()
	d.SetFree(1 << 30)
	r := &rig{t: t, dir: t.TempDir(), fs: d.FS(), room: durable.Room{LowWater: 1 << 20, Every: time.Millisecond}}
	r.create()
	r.open()
	t.Cleanup(func() { r.close() })
	return r, d
}

func exhaustedBy(f *oiv1.Fault) bool {
	return f != nil && f.Reason == string(grants.ErrExhausted) && f.RetryMs >= 1000
}

// TestANearlyFullDiskTakesConsentBackAndNoPages: batches, rebinds and new grants
// are told when to come back; what was committed is answered, revocations are
// taken, and the log is served. It ends without a restart.
func TestANearlyFullDiskTakesConsentBackAndNoPages(t *testing.T) {
	t.Parallel()
	r, d := newDiskRig(t)
	s, c := r.example().held(3)
	other := s.p.series("blog-1", blogs, nil)
	c.close()
	c = s.p.session(s, other)
	c.push(other, puts("words", urls(blogs, 2)...)...)
	first := s.parcel(puts("new words", urls(site, 2)...)...).pack()
	kept := c.deliver(first).GetCommitted()
	first.take()

	d.SetFree(1)
	r.eventually("the disk to be nearly full", func() bool { return r.x.Ready() != nil })
	if st := must[Status](t)(r.x.Status()); !st.Disk.ReadOnly || st.Disk.FreeBytes != 1 || !strings.Contains(st.Disk.Reason, "nearly full") {
		t.Errorf("status %+v", st.Disk)
	}
	next := s.parcel(puts("newer words", urls(site, 3)...)...).pack()
	if a := c.deliver(next); !exhaustedBy(a.Refused) || strings.Contains(a.Refused.Detail, r.dir) {
		t.Errorf("a batch: %v", a)
	}
	if a := c.deliver(first).GetCommitted(); a == nil || !bytes.Equal(a.Receipt, kept.Receipt) || !bytes.Equal(a.Note, kept.Note) {
		t.Errorf("a batch that was committed before: %v", a)
	}
	w := httptest.NewRecorder()
	r.x.Public().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/checkpoint", nil))
	if w.Code != http.StatusOK {
		t.Errorf("the log is served with %d", w.Code)
	}
	if a := s.p.revoke(s.p.revocation(other.pair.Grant.Revoke(grants.DispositionDelete))); len(a.Acknowledged) == 0 || a.Refused != nil {
		t.Errorf("a revocation: %v", a)
	}
	c.close()
	newer := *s
	newer.pair = s.grant(2, nil)
	c = s.p.greeted()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: c.announcement(&newer)}})
	if f := c.next().GetFault(); !exhaustedBy(f) {
		t.Errorf("a new grant: %v", f)
	}
	c.close()

	d.SetFree(1 << 30)
	r.eventually("room", func() bool { return r.x.Ready() == nil })
	c = s.p.session(&newer)
	if a := c.rebind(&newer); a.Committed == nil {
		t.Errorf("a rebind with room again: %v", a)
	}
	newer.p = s.p
	if a := c.deliver(newer.parcel(puts("newest words", urls(site, 3)...)...).pack()); a.Committed == nil {
		t.Errorf("a batch with room again: %v", a)
	}
}

// TestARebindWaitsForRoom, and the session that asked for it goes on.
func TestARebindWaitsForRoom(t *testing.T) {
	t.Parallel()
	r, d := newDiskRig(t)
	s, c := r.example().held(2)
	c.close()
	s.pair = s.grant(2, nil)
	c = s.p.session(s)
	d.SetFree(1)
	r.eventually("the disk to be nearly full", func() bool { return r.x.Ready() != nil })
	if a := c.rebind(s); !exhaustedBy(a.Refused) {
		t.Errorf("a rebind: %v", a)
	}
	d.SetFree(1 << 30)
	r.eventually("room", func() bool { return r.x.Ready() == nil })
	answer := c.rebind(s)
	s.rebound(answer, 0)
	d.SetFree(1)
	r.eventually("the disk to be nearly full", func() bool { return r.x.Ready() != nil })
	if again := c.rebind(s); again.Committed == nil || !bytes.Equal(again.Committed.Receipt, answer.Committed.Receipt) {
		t.Errorf("the same rebind: %v", again)
	}
	d.SetFree(1 << 30)
}

// TestOverloadMeetsTheWireInOneCode: to a call it is RESOURCE_EXHAUSTED, and to
// a session a Fault, both with the time to come back after.
func TestOverloadMeetsTheWireInOneCode(t *testing.T) {
	for name, err := range map[string]error{"a full queue": translog.ErrOverloaded, "a full disk": durable.ErrFull, "no patience left": &refusal{reason: grants.ErrExhausted, retryMS: 1000}} {
		s := status.Convert(toStatus(err))
		if s.Code() != codes.ResourceExhausted || len(s.Details()) != 1 {
			t.Errorf("%s: %v", name, s)
			continue
		}
		if f, ok := s.Details()[0].(*oiv1.Fault); !ok || !exhaustedBy(f) {
			t.Errorf("%s: %v", name, s.Details())
		}
		if r, ok := asRefusal(err); !ok || !exhaustedBy(r.fault()) {
			t.Errorf("%s: %v, %t", name, r, ok)
		}
	}
}

// TestAWaitForMemoryHasAnEnd: the batch is dropped chunk by chunk, its publisher
// is told when to come back, and the session goes on.
func TestAWaitForMemoryHasAnEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(1)
	r.x.patience = 50 * time.Millisecond
	all := r.x.cfg.Limits.batchMemory()
	if !r.x.memory.TryAcquire(all) {
		t.Fatal("memory is in use while nothing is sent")
	}
	b := s.parcel(puts("later "+strings.Repeat("word ", 1000), urls(site, 20)...)...).pack()
	if a := c.deliver(b); !exhaustedBy(a.Refused) {
		t.Errorf("without memory: %v", a)
	}
	r.x.memory.Release(all)
	if a := c.deliver(b); a.Committed == nil {
		t.Errorf("with memory: %v", a)
	}
}

// TestARevocationThatFindsNoPlaceHasToComeAgain: it is not refused, which would
// be final.
func TestARevocationThatFindsNoPlaceHasToComeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(1)
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionStop))
	hold := &pause{make(chan struct{}), make(chan struct{})}
	const places = 64 // for what is urgent
	errs := make(chan error, places+1)
	go func() { errs <- r.x.tlog.Commit(context.Background(), hold) }()
	<-hold.entered
	for range places {
		go func() { errs <- r.x.tlog.CommitUrgent(context.Background(), &lookup{}) }()
	}
	r.eventually("all places to be taken", func() bool { return r.x.tlog.Stats().Queued == places })
	conn := s.p.connect()
	defer conn.Close()
	_, err := oiv1.NewOutboundIndexingClient(conn).Revoke(t.Context(), &oiv1.SignedObject{Object: rev.Object.Raw})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("Revoke = %v", err)
	}
	w := httptest.NewRecorder()
	r.x.Public().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/revocation", bytes.NewReader(rev.Object.Raw)))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("POST /revocation: %d %v", w.Code, w.Header())
	}
	close(hold.leave)
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if a := s.p.revoke(rev); len(a.Acknowledged) != 1 {
		t.Errorf("a second time: %v", a)
	}
}
