package indexer

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

func TestContentWithoutCreditIsAFault(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(1)
	before, size, rows := r.stateOf(s)
	c.close()
	for name, send := range map[string]func(c *client){
		"a chunk before any batch": func(c *client) { c.send(chunkOf([]byte("x"), false)) },
		"more than a batch may begin with": func(c *client) {
			// There is no room for the rest of it.
			if err := r.x.memory.Acquire(t.Context(), r.x.cfg.Limits.batchMemory()); err != nil {
				t.Error(err)
			}
			b := s.parcel(puts("words", site+"new")...).pack()
			b.batch.FrameBytes, b.batch.RawBytes = 8<<20, 8<<20
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
			for range c.welcome.Limits.InitialCredit>>18 + 1 {
				if c.stream.Send(chunkOf(make([]byte, 1<<18), false)) != nil {
					return
				}
			}
		},
	} {
		c := s.p.session(s)
		send(c)
		// The batch that waits for its room ends first, by its patience or with its room.
		if name == "more than a batch may begin with" {
			time.AfterFunc(time.Second, func() { r.x.memory.Release(r.x.cfg.Limits.batchMemory()) })
		}
		if f := c.next().GetFault(); f.GetReason() != string(grants.ErrCredit) {
			t.Errorf("%s: %v", name, f)
		}
		c.close()
		if after, n, m := r.stateOf(s); after.State != before.State || n != size || m != rows {
			t.Errorf("%s: it left traces", name)
		}
	}
}

// TestARevocationPassesABatchThatWaits has no room for a batch, all of whose
// credit is used up; the revocation behind it is answered at once, and so is
// another session's.
func TestARevocationPassesABatchThatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(3)
	room := r.x.cfg.Limits.batchMemory()
	if err := r.x.memory.Acquire(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	defer r.x.memory.Release(room)
	b := s.parcel(puts("words", site+"new")...).pack()
	b.batch.FrameBytes, b.batch.RawBytes = 8<<20, 8<<20
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
	for left := int(c.welcome.Limits.InitialCredit); left > 0; left -= 1 << 18 {
		c.send(chunkOf(make([]byte, 1<<18), false))
	}
	begin := time.Now()
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionStop))
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Revocation{Revocation: &oiv1.SignedObject{Object: rev.Object.Raw}}})
	a := c.next().GetAcknowledgements()
	if took := time.Since(begin); len(a.GetAcknowledged()) != 1 || took > time.Second {
		t.Errorf("after %s: %v", took, a)
	}
}

func TestInitialCreditsAreBoundedOverAllSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	total := 0
	var all []func()
	for range creditPool/creditInitial + 10 {
		c, giveBack := r.x.newCredit()
		all = append(all, giveBack)
		total += int(c.initial)
	}
	if want := creditPool + 10*creditLeast; total != want {
		t.Errorf("%d octets may come unasked, want %d", total, want)
	}
	for _, giveBack := range all {
		giveBack()
	}
	if c, _ := r.x.newCredit(); c.initial != creditInitial {
		t.Errorf("when all have ended: %d", c.initial)
	}
}
