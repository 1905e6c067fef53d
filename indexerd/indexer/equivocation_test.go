package indexer

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/equivocation"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// allRows are the octets of the whole store.
func (r *rig) allRows() string {
	r.t.Helper()
	var b bytes.Buffer
	for kv, err := range r.x.store.Scan([]byte{0}, nil) {
		if err != nil {
			r.t.Fatal(err)
		}
		b.Write(kv.Key)
		b.Write(kv.Value)
	}
	return b.String()
}

// announcing is the reason for which an announcement of s is refused, "" if it is
// not.
func (p *tester) announcing(s *series) string {
	p.r.t.Helper()
	return p.announcingAs(s, 1, p.local.Envelope)
}

// announcingAs is announcing by another key, for another epoch.
func (p *tester) announcingAs(s *series, epoch uint64, signer *envelope.Signer) string {
	t := p.r.t
	t.Helper()
	c := p.greeted()
	defer c.close()
	f := c.announcement(s)
	var body grants.AnnouncementBody
	if err := must[*envelope.Object](t)(envelope.Parse(f.Announcement)).DecodeBody(&body); err != nil {
		t.Fatal(err)
	}
	stamp := grants.Stamp{Indexer: p.r.card.Identity, Epoch: epoch, Sequence: 1, At: p.r.now()}
	f.Announcement = must[*grants.Announcement](t)(grants.SignAnnouncement(body, stamp, signer)).Object.Raw
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: f}})
	answer, err := c.recv()
	if err != nil {
		return err.Error()
	}
	if fault := answer.GetFault(); fault != nil {
		return fault.Reason
	}
	for _, refusal := range answer.GetAnnounceResult().GetRefusals() {
		return refusal.Reason
	}
	return ""
}

func TestAnEquivocationIsKeptAndChangesNothingElse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s, c := p.held(2)
	c.close()
	folder := equivocation.In(r.dir)
	before, size := r.allRows(), len(r.log())
	if got := p.announcing(s); got != "" {
		t.Fatalf("the exact replay: %s", got)
	}
	if kept := must[[]*equivocation.Kept](t)(folder.List()); len(kept) > 0 || r.allRows() != before {
		t.Fatalf("the exact replay changed something, %d kept", len(kept))
	}
	first := s.pair
	for i := range 3 {
		s.pair = s.grant(first.Grant.Object.Sequence, func(d *grants.Draft) {
			d.GrantNonce, d.PolicyNonce = grants.Nonce{9, byte(i)}, grants.Nonce{8, byte(i)}
		})
		if got := p.announcing(s); got != string(grants.ErrEquivocation) {
			t.Fatalf("another grant at its place: %q, want %s", got, grants.ErrEquivocation)
		}
	}
	if r.allRows() != before || len(r.log()) != size {
		t.Error("the store has changed")
	}
	kept := must[[]*equivocation.Kept](t)(folder.List())
	if len(kept) != 2 {
		t.Fatalf("%d pairs kept, want one of grants and one of policies", len(kept))
	}
	for _, k := range kept {
		raw := must[[]byte](t)(os.ReadFile(k.Path))
		if rep := equivocation.Verify(raw, []*identity.Card{p.local.Card}); rep.Verdict != evaluate.Signed {
			t.Errorf("%s: %s, %v", k.Type, rep.Verdict, rep.Reasons)
		}
		if !strings.Contains(string(raw), first.Grant.Object.ID.String()) && !strings.Contains(string(raw), first.Policy.Object.ID.String()) {
			t.Errorf("%s: the one that is held is not in it", k.Type)
		}
	}
	s.pair = s.grant(2, nil)
	if got := p.announcing(s); got != "" {
		t.Errorf("the next true grant: %s", got)
	}
}

// changeKeys replaces keys of the publisher, and has the indexer take the card.
func (p *tester) changeKeys(dir string, lost bool) {
	p.r.t.Helper()
	t := p.r.t
	p.local = must[*identity.Local](t)(identity.ChangeKeys(dir, identity.KeyOptions{Uses: []envelope.Use{envelope.UseEnvelope}, Lost: lost, Now: p.r.now()}))
	by := ""
	if lost {
		by = p.local.Card.Fingerprint()
	}
	must[*identity.Peer](t)(p.r.x.trust.Add(p.local.Card.Object.Raw, identity.AddOptions{Now: p.r.now(), Fingerprint: by}))
	p.r.forward(time.Second) // the trust is looked at again
}

func TestALostKeySpeaksForNothingNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, dir := r.example(), t.TempDir()
	p.local = must[*identity.Local](t)(identity.Create(dir, identity.Options{Identity: "spiffe://example.org/publisher", Role: identity.Publisher, Now: r.now().Add(-time.Hour)}))
	must[*identity.Peer](t)(r.x.trust.Add(p.local.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{"https://example.org"}, Now: r.now()}))
	held, thief := p.series("docs-1", "https://example.org/doc/", nil), p.local.Envelope
	if got := p.announcing(held); got != "" {
		t.Fatalf("before the loss: %s", got)
	}
	stolen := p.series("docs-2", "https://example.org/other/", nil) // signed, and never shown
	p.changeKeys(dir, true)
	before := r.allRows()
	if got := p.announcingAs(held, 2, p.local.Envelope); got != "" {
		t.Errorf("the grant that is held already: %q", got)
	}
	for _, tt := range []struct {
		name   string
		s      *series
		epoch  uint64
		signer *envelope.Signer
	}{
		{"a grant of before that was never shown", stolen, 2, p.local.Envelope},
		{"an announcement by the lost key", held, 1, thief},
		{"an announcement by the lost key for the new epoch", held, 2, thief},
		{"an announcement for an epoch that nobody knows", held, 3, p.local.Envelope},
	} {
		if got := p.announcingAs(tt.s, tt.epoch, tt.signer); got == "" {
			t.Errorf("%s is taken", tt.name)
		}
	}
	stamp := grants.Stamp{Indexer: r.card.Identity, Epoch: 1, Sequence: 1, At: r.now().Add(-time.Minute)}
	rev := must[*grants.Revocation](t)(grants.SignRevocation(grants.RevokeAll(p.local.Name(), grants.DispositionStop), stamp, thief))
	if _, err := r.x.revoke(t.Context(), rev.Object.Raw, ""); grants.ReasonOf(err) == "" {
		t.Errorf("a revocation by the lost key: %v", err)
	}
	if r.allRows() != before {
		t.Error("what was refused has changed the store")
	}
	held.pair = held.grant(1, func(d *grants.Draft) { d.Epoch = 2 })
	if got := p.announcingAs(held, 2, p.local.Envelope); got != "" {
		t.Errorf("the grant of the new epoch: %q", got)
	}
	rec := must[*seriesRecord](t)(readSeries(r.x.store, p.local.Name(), held.name))
	if rec.Grant.Epoch != 2 || rec.Grant.Sequence != 1 {
		t.Errorf("the series goes on at epoch %d, sequence %d", rec.Grant.Epoch, rec.Grant.Sequence)
	}
}

func TestAStreamWhoseStateIsLostFailsClosed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(*durable.Batch, []byte, *seriesRecord) error
	}{
		{"the record is missing", func(b *durable.Batch, key []byte, _ *seriesRecord) error { return b.Delete(key) }},
		{"the record is cut short", func(b *durable.Batch, key []byte, _ *seriesRecord) error { return b.Set(key, []byte(`{"sid":1,`)) }},
		{"the record is empty", func(b *durable.Batch, key []byte, _ *seriesRecord) error { return b.Set(key, []byte(`{}`)) }},
		{"the position of the grant is zero", func(b *durable.Batch, key []byte, rec *seriesRecord) error {
			rec.Grant = envelope.Position{}
			return b.Set(key, must[[]byte](t)(json.Marshal(rec)))
		}},
		{"the position of the grant names no object", func(b *durable.Batch, key []byte, rec *seriesRecord) error {
			rec.Grant.ID = envelope.Hash{}
			return b.Set(key, must[[]byte](t)(json.Marshal(rec)))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			p := r.example()
			s, c := p.held(1)
			c.close()
			key := seriesKey(p.local.Name(), s.name)
			rec := must[*seriesRecord](t)(readSeries(r.x.store, p.local.Name(), s.name))
			b := r.x.store.NewBatch()
			if err := tt.spoil(b, key, rec); err != nil {
				t.Fatal(err)
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			b.Close()
			size := len(r.log())
			c = p.stream()
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: &oiv1.Hello{Versions: []string{sessionVersion}}}})
			f, err := c.recv()
			if err == nil && f.GetWelcome() != nil {
				c.welcome = f.GetWelcome()
				c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: c.announcement(s)}})
				f, err = c.recv()
			}
			if err == nil && f.GetFault() == nil {
				t.Errorf("the session goes on: %v", f)
			}
			if got := len(r.log()); got != size {
				t.Errorf("the log grew from %d to %d entries", size, got)
			}
		})
	}
}
