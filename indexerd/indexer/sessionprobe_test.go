package indexer

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

func (c *client) probe(series, url string, nonce []byte) *oiv1.IndexerFrame {
	c.p.r.t.Helper()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Probe{Probe: &oiv1.Probe{Series: series, Url: url, Nonce: nonce}}})
	return c.next()
}

func TestAProbeIsAnsweredFromThePayload(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(2)
	r.forward(time.Second)
	c.push(s, change{url: site + "bad", payload: []byte("<html>")}) // excluded
	url := urls(site, 2)[1]
	nonce := bytes.Repeat([]byte{7}, 32)
	want := sha256.Sum256(slices.Concat([]byte("uzpif-oi/probe/v1\x00"), nonce, payloadOf(url, "words at "+url)))
	for _, tt := range []struct {
		name, url string
		proof     []byte
		refused   grants.Reason
	}{
		{"a page that is held is shown", url, want[:], ""},
		{"a page that was never offered is not held", site + "never", nil, grants.ErrNotHeld},
		{"a page that was excluded is not held", site + "bad", nil, grants.ErrNotHeld},
		{"a page outside the grant is not shown", "https://example.com/elsewhere", nil, grants.ErrScope},
	} {
		a := c.probe(s.name, tt.url, nonce).GetProbeAnswer()
		if a == nil || !bytes.Equal(a.Nonce, nonce) || !bytes.Equal(a.Proof, tt.proof) || a.Refused != string(tt.refused) {
			t.Errorf("%s: %v", tt.name, a)
		}
	}
}

// TestAPageThatCannotBeReadIsNotHeld damages the sealed segments: the session
// has to outlive that, since the publisher brings the page again in it.
func TestAPageThatCannotBeReadIsNotHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(1)
	rec, _, _ := r.stateOf(s)
	b := r.x.store.NewBatch()
	defer b.Close()
	for kv, err := range r.x.store.Scan(sidKey('G', rec.SID), sidKey('G', rec.SID+1)) {
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Set(bytes.Clone(kv.Key), []byte("damaged")); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if a := c.probe(s.name, urls(site, 1)[0], make([]byte, 32)).GetProbeAnswer(); a.GetRefused() != string(grants.ErrNotHeld) {
		t.Errorf("answer %v", a)
	}
	c.push(s, puts("words", site+"another")...)
}

func TestProbesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s, _ := p.held(1)
	url := urls(site, 1)[0]
	for _, tt := range []struct {
		name        string
		series, url string
		nonce       int
		before      int // good ones
		want        grants.Reason
	}{
		{"a series that was not announced", "docs-2", url, 32, 0, grants.ErrNoGrant},
		{"a short nonce", s.name, url, 31, 0, grants.ErrMalformed},
		{"a URL over the limit", s.name, site + strings.Repeat("a", grants.MaxURL), 32, 0, grants.ErrMalformed},
		{"the ninth of a session", s.name, url, 32, maxProbes, grants.ErrOversize},
	} {
		c := p.session(s)
		for range tt.before {
			if a := c.probe(s.name, url, make([]byte, 32)).GetProbeAnswer(); len(a.GetProof()) != 32 {
				t.Errorf("%s: one before: %v", tt.name, a)
			}
		}
		if f := c.probe(tt.series, tt.url, make([]byte, tt.nonce)).GetFault(); f.GetReason() != string(tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, f, tt.want)
		}
	}
}

// TestAClockMovedBackTakesNothingIn moves it behind the expiry of a grant: to
// the second at which the grant would be in force again.
func TestAClockMovedBackTakesNothingIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, func(d *grants.Draft) { d.Lifetime = time.Hour })
	c := p.session(s)
	c.push(s, puts("words", urls(site, 1)...)...)
	r.forward(2 * time.Hour)
	r.eventually("the expiry is logged", func() bool { return len(r.log()) == 2 })
	r.forward(-2*time.Hour + time.Second)
	_, size, _ := r.stateOf(s)
	c = p.session(s)
	if a := c.deliver(s.parcel(puts("late", site+"late")...).pack()); !exhaustedBy(a.Refused) || !strings.Contains(a.Refused.Detail, "clock") {
		t.Errorf("a batch behind the highest time seen: %v", a)
	}
	if _, now, _ := r.stateOf(s); now != size {
		t.Errorf("%d entries, want %d", now, size)
	}
	if err := r.readable(s, urls(site, 1)[0]); err == nil {
		t.Error("a page whose grant has expired can be read again")
	}
}
