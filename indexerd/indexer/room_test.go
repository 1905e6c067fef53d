package indexer

import (
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// TestAPageAloneOverTheQuotaIsRefusedBeforeItComes: no more of it is taken than its
// list of items is in, and the session goes on.
func TestAPageAloneOverTheQuotaIsRefusedBeforeItComes(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	page := largePage(site+"large", 600<<10, 1)
	c.pushAlone(s, page)
	size := uint64(len(payloadOf(page.url, page.text)))
	r.x.SetAllowance(Allowance{Octets: size + 10})
	b := s.parcel(largePage(site+"other", 600<<10, 2)).packAlone()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
	// Enough for the encoder's first block, and far from all.
	for sent := 0; sent < len(b.frame)*3/4; sent += 2 << 10 {
		if c.stream.Send(chunkOf(b.frame[sent:sent+2<<10], false)) != nil {
			break
		}
	}
	if f := c.next().GetBatchResult().GetRefused(); f.GetReason() != string(grants.ErrQuota) || f.GetRetryMs() != retryStorage {
		t.Fatalf("refused %v", f)
	}
	if r.files() != 1 {
		t.Errorf("there are %d files", r.files())
	}
	same := largePage(page.url, 600<<10, 3)
	c.pushAlone(s, same)
	r.holds(s, same.url, same.text, 1)
}

// TestWhatThereIsNoRoomForIsNotAskedForAgainBeforeThereIs: neither by the hint of the
// refusal nor by the clock, until less is held or more may be.
func TestWhatThereIsNoRoomForIsNotAskedForAgainBeforeThereIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		room func(r *rig, s *source, c *client, held string)
	}{
		{"the operator allows more", func(r *rig, _ *source, _ *client, _ string) { r.x.SetAllowance(Allowance{Pages: 9}) }},
		{"a page goes", func(_ *rig, s *source, c *client, held string) {
			s.revision++
			s.told[held] = s.revision
			f := s.signals("words")
			f.From, f.Through = s.revision-1, s.revision
			if ack := c.tell(f); ack.Refused != nil {
				s.p.r.t.Fatal(ack.Refused)
			}
			s.deliver(c, s.answer(0, nil, held))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newAskingRig(t, Requests{Pages: 1})
			p := r.example()
			s := p.source(site)
			c := p.session(s.series)
			pages := urls(site, 2)
			s.tell(c, "words", pages[0])
			q := c.asked()
			s.deliver(c, s.answer(q.Id, q.Urls))
			c.done(q)
			r.x.SetAllowance(Allowance{Pages: 1})
			s.tell(c, "words", pages[1])
			q = c.asked()
			refused := c.deliver(s.answer(q.Id, q.Urls)).Refused
			if refused.GetReason() != string(grants.ErrQuota) {
				t.Fatalf("refused %v", refused)
			}
			refused.RetryMs = 1
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ContentAnswer{ContentAnswer: &oiv1.ContentAnswer{Series: q.Series, Id: q.Id, Refused: refused}}})
			time.Sleep(2 * askEvery) // twice as long as it takes to ask, where nothing is in the way
			if n := r.x.asks.asked.Load(); n != 2 || r.record(s.series).Wanted != 1 {
				t.Errorf("%d pages were asked for, %d are wanted", n, r.record(s.series).Wanted)
			}
			tt.room(r, s, c, pages[0])
			if q = c.asked(); len(q.Urls) != 1 || q.Urls[0] != pages[1] {
				t.Errorf("asked for %v", q.Urls)
			}
			s.deliver(c, s.answer(q.Id, q.Urls))
		})
	}
}

// TestAskedPagesAreAskedForAgainOnceThereIsRoomOnTheDisk: what was delivered stays,
// what is under way is taken back, and the rest is asked for in the same session.
func TestAskedPagesAreAskedForAgainOnceThereIsRoomOnTheDisk(t *testing.T) {
	t.Parallel()
	d := durabletest.New()
	d.SetFree(1 << 30)
	r := &rig{t: t, dir: t.TempDir(), fs: d.FS(), room: durable.Room{LowWater: 1 << 20, Every: time.Millisecond}, requests: Requests{Pages: 2, Rate: 1000}}
	r.create()
	r.open()
	t.Cleanup(func() { r.close() })
	p := r.example()
	s := p.source(site)
	c := p.session(s.series)
	pages := urls(site, 3)
	s.tell(c, "words", pages...)
	q := c.asked()
	s.deliver(c, s.answer(q.Id, q.Urls[:1]))
	kept, lost := q.Urls[0], q.Urls[1]

	d.SetFree(1)
	r.eventually("the disk to be nearly full", func() bool { return r.x.Ready() != nil })
	r.x.sessions.askSoon(p.local.Name())
	if f := c.next().GetContentCancel(); f.GetId() != q.Id {
		t.Fatalf("no request is taken back, but %v", f)
	}
	if a := c.deliver(s.answer(q.Id, []string{lost})); !exhaustedBy(a.Refused) {
		t.Errorf("a page that was under way: %v", a)
	}
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ContentAnswer{ContentAnswer: &oiv1.ContentAnswer{
		Series: q.Series, Id: q.Id, Refused: &oiv1.Fault{Reason: string(grants.ErrCancelled)},
	}}})
	if ack := c.tell(s.signals("words", site+"new")); !exhaustedBy(ack.Refused) {
		t.Errorf("a signal: %v", ack)
	}
	if rec := r.record(s.series); rec.Wanted != 2 || rec.Delivered != 1 {
		t.Errorf("on the full disk %d pages are wanted, and %d were delivered", rec.Wanted, rec.Delivered)
	}

	d.SetFree(1 << 30)
	q = c.asked()
	if !slices.Equal(q.Urls, []string{lost, pages[0]}) {
		t.Errorf("asked for %v, want %s and %s", q.Urls, lost, pages[0])
	}
	s.deliver(c, s.answer(q.Id, q.Urls))
	for _, u := range []string{kept, lost, pages[0]} {
		if err := r.readable(s.series, u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	r.sound("all is there")
}
