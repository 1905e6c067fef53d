package identity

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

func TestAddedPeersAreFoundByNameAndKey(t *testing.T) {
	c := newClock()
	a, b := create(t, publisherOptions(alice)), create(t, indexerOptions(bob))
	s := openTrust(t, t.TempDir(), TrustOptions{Now: c.now})
	origins := []Origin{"https://example.com", "https://www.example.com:8443"}
	if _, err := s.Add(a.Card.Object.Raw, AddOptions{Origins: origins, Now: begin}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(b.Card.Object.Raw, AddOptions{Endpoint: "127.0.0.1:9", Now: begin}); err != nil {
		t.Fatal(err)
	}
	again := openTrust(t, s.dir, TrustOptions{Now: c.now})
	for _, s := range []*Trust{s, again} {
		p, ok := s.Lookup(alice)
		if !ok || !slices.Equal(p.Origins, origins) || !p.AddedAt.Equal(begin) || !bytes.Equal(p.Card.Object.Raw, a.Card.Object.Raw) {
			t.Fatalf("Lookup = %+v, %v", p, ok)
		}
		if p, _ := s.Lookup(bob); p.Address() != "127.0.0.1:9" || p.Card.Endpoint != "search.example:7443" {
			t.Errorf("address %q", p.Address())
		}
		if list := s.List(); len(list) != 2 || list[0].Card.Identity != alice || list[1].Card.Identity != bob {
			t.Errorf("List = %v", list)
		}
		if owner, ok := s.OwnerOf("https://example.com"); !ok || owner != alice {
			t.Errorf("OwnerOf = %v, %v", owner, ok)
		}
		if _, ok := s.OwnerOf("https://sub.example.com"); ok {
			t.Error("a subdomain has an owner")
		}
		for _, l := range []*Local{a, b} {
			for _, k := range l.Card.Keys {
				r, ok := s.LookupKey(k.PublicKey.ID())
				if !ok || r.Identity != l.Name() || r.Use != k.Use {
					t.Errorf("LookupKey = %+v, %v", r, ok)
				}
				_, ofA := s.KeysOf(alice).LookupKey(k.PublicKey.ID())
				_, ofNobody := s.KeysOf(mallory).LookupKey(k.PublicKey.ID())
				if ofA != (l == a) || ofNobody {
					t.Errorf("a key of %s in the view of alice: %v, of nobody: %v", l.Name(), ofA, ofNobody)
				}
			}
		}
	}
}

func TestAddJudgesCardsOfOneIdentityByTheirOrder(t *testing.T) {
	c := newClock()
	a := create(t, publisherOptions(alice))
	s := trusting(t, c, a)
	later := begin.Add(time.Hour)
	second := reissue(t, a, func(c *Card, _ *envelope.Header) { c.Origins = nil })
	if _, err := s.Add(second, AddOptions{Origins: []Origin{"https://example.com"}, Now: later}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"the card before it", a.Card.Object.Raw, envelope.ErrStale},
		{"another card at its position", reissue(t, a, func(c *Card, _ *envelope.Header) { c.Origins = []Origin{"http://a.example"} }), envelope.ErrEquivocates},
		{"the same card", second, nil},
		{"a torn card", second[:len(second)-1], envelope.ErrSyntax},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := snapshot(t, s.dir)
			if _, err := s.Add(tt.raw, AddOptions{Now: later}); !errors.Is(err, tt.want) {
				t.Errorf("Add = %v, want %v", err, tt.want)
			}
			if !maps.Equal(before, snapshot(t, s.dir)) {
				t.Error("the folder changed")
			}
		})
	}
	p, _ := s.Lookup(alice)
	if p.Card.Object.Sequence != 2 || !p.AddedAt.Equal(begin) || len(p.Origins) != 1 {
		t.Errorf("sequence %d, added at %s, origins %v", p.Card.Object.Sequence, p.AddedAt, p.Origins)
	}
	if _, err := s.Add(second, AddOptions{Origins: []Origin{}, Now: later}); err != nil {
		t.Fatal(err)
	}
	if p, _ := s.Lookup(alice); len(p.Origins) != 0 {
		t.Errorf("origins %v, after they were taken away", p.Origins)
	}
}

// snapshot is the content of every file of a folder and when it was last written.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = info.ModTime().String() + string(b)
	}
	return m
}

func TestNothingBelongsToTwoIdentities(t *testing.T) {
	c := newClock()
	a, m := create(t, publisherOptions(alice)), create(t, publisherOptions(mallory))
	s := openTrust(t, t.TempDir(), TrustOptions{Now: c.now})
	if _, err := s.Add(a.Card.Object.Raw, AddOptions{Origins: []Origin{"https://example.com"}, Now: begin}); err != nil {
		t.Fatal(err)
	}
	stolen := reissue(t, m, func(c *Card, _ *envelope.Header) {
		k := a.Card.Keys[key(t, a.Card, envelope.UseEnvelope)]
		c.Keys = append(c.Keys, k)
	})
	if _, err := s.Add(stolen, AddOptions{Now: begin}); !errors.Is(err, ErrConflict) {
		t.Errorf("a public key of another identity: %v, want %v", err, ErrConflict)
	}
	if _, err := s.Add(m.Card.Object.Raw, AddOptions{Origins: []Origin{"https://example.com"}, Now: begin}); !errors.Is(err, ErrConflict) {
		t.Errorf("an origin of another identity: %v, want %v", err, ErrConflict)
	}
	if _, ok := s.Lookup(mallory); ok {
		t.Error("a refused identity is trusted")
	}
	card, err := AuthenticateCard(stolen)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s.dir, &Peer{Card: card, AddedAt: begin})
	if _, err := OpenTrust(s.dir, TrustOptions{Now: c.now}); !errors.Is(err, ErrConflict) {
		t.Errorf("OpenTrust = %v, want %v", err, ErrConflict)
	}
}

// put writes a trust file behind the store's back, whole but not durable.
func put(t *testing.T, dir string, p *Peer) {
	t.Helper()
	data, err := encodePeer(p)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fileName(p.Card.Identity))
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestAddRefusesWhatTheOperatorMayNotSay(t *testing.T) {
	a, b := create(t, publisherOptions(alice)), create(t, indexerOptions(bob))
	s := trusting(t, newClock())
	for _, tt := range []struct {
		name string
		raw  []byte
		o    AddOptions
	}{
		{"an origin with a path", a.Card.Object.Raw, AddOptions{Origins: []Origin{"https://example.com/a"}, Now: begin}},
		{"an origin twice", a.Card.Object.Raw, AddOptions{Origins: []Origin{"https://a.example", "https://a.example"}, Now: begin}},
		{"an endpoint of a publisher", a.Card.Object.Raw, AddOptions{Endpoint: "example.com:1", Now: begin}},
		{"an endpoint without port", b.Card.Object.Raw, AddOptions{Endpoint: "example.com", Now: begin}},
		{"a card of tomorrow", a.Card.Object.Raw, AddOptions{Now: begin.Add(-24 * time.Hour)}},
	} {
		if _, err := s.Add(tt.raw, tt.o); err == nil {
			t.Errorf("%s: added", tt.name)
		}
	}
	if list := s.List(); len(list) > 0 {
		t.Errorf("List = %v", list)
	}
	if err := s.Remove(alice); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("Remove = %v, want %v", err, ErrUnknownPeer)
	}
}

func TestCardWithExtensionsIsKept(t *testing.T) {
	c := newClock()
	a := create(t, publisherOptions(alice))
	raw := reissue(t, a, func(_ *Card, h *envelope.Header) {
		h.Extensions = map[string]envelope.Extension{"note.example.com/colour": {Data: jsontext.Value(`"red"`)}}
	})
	s := trusting(t, c)
	if _, err := s.Add(raw, AddOptions{Now: begin}); err != nil {
		t.Fatal(err)
	}
	if p, ok := openTrust(t, s.dir, TrustOptions{Now: c.now}).Lookup(alice); !ok || !bytes.Equal(p.Card.Object.Raw, raw) {
		t.Error("the card is not kept as it was")
	}
}

func TestExpiredCardStillLoadsAndItsKeysEndWithIt(t *testing.T) {
	c := newClock()
	a := create(t, publisherOptions(alice))
	end := begin.Add(time.Hour)
	raw := reissue(t, a, func(_ *Card, h *envelope.Header) { h.ExpiresAt = end })
	s := trusting(t, c)
	if _, err := s.Add(raw, AddOptions{Now: end}); !errors.Is(err, envelope.ErrExpired) {
		t.Errorf("Add at its end = %v, want %v", err, envelope.ErrExpired)
	}
	if _, err := s.Add(raw, AddOptions{Now: end.Add(-time.Second)}); err != nil {
		t.Fatal(err)
	}
	c.advance(24 * time.Hour)
	r, ok := openTrust(t, s.dir, TrustOptions{Now: c.now}).LookupKey(a.Envelope.Public().ID())
	if !ok || !r.NotAfter.Equal(end) {
		t.Errorf("record %+v, %v, want an end at %s", r, ok, end)
	}
}

func TestConcurrentCommandsKeepTheStoreWhole(t *testing.T) {
	dir := t.TempDir()
	names := []envelope.Name{alice, mallory, "spiffe://example.com/c", "spiffe://example.com/d"}
	won := make([]bool, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		l := create(t, publisherOptions(name))
		s := openTrust(t, dir, TrustOptions{})
		wg.Go(func() {
			_, err := s.Add(l.Card.Object.Raw, AddOptions{Origins: []Origin{"https://example.com"}, Now: begin})
			won[i] = err == nil
			if err != nil && !errors.Is(err, ErrConflict) {
				t.Errorf("Add = %v", err)
			}
			s.List()
		})
	}
	wg.Wait()
	if s := openTrust(t, dir, TrustOptions{}); len(s.List()) != 1 || len(slices.DeleteFunc(won, func(w bool) bool { return !w })) != 1 {
		t.Errorf("%d identities hold one origin", len(s.List()))
	}
}

func TestFileNamesKeepIdentitiesApart(t *testing.T) {
	long := "spiffe://example.com/" + strings.Repeat("a", 234)
	seen := make(map[string]bool)
	for _, n := range []envelope.Name{"spiffe://example.com/a/b", "spiffe://example.com/a_b", envelope.Name(long), envelope.Name(long[:254] + "b")} {
		f := fileName(n)
		if seen[f] || len(f) > 130 || strings.ContainsAny(f, "/:") || strings.HasPrefix(f, ".") {
			t.Errorf("fileName(%s) = %s", n, f)
		}
		seen[f] = true
	}
}

func FuzzDecodePeer(f *testing.F) {
	for _, o := range []Options{publisherOptions(alice), indexerOptions(bob)} {
		o.Rand = &dice{}
		p := &Peer{Card: create(f, o).Card, Origins: []Origin{"https://example.com"}, AddedAt: begin}
		if o.Role == Indexer {
			p.Endpoint = "127.0.0.1:7443"
		}
		raw, err := encodePeer(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := decodePeer(raw)
		if err != nil {
			return
		}
		if again, err := encodePeer(p); err != nil || !bytes.Equal(again, raw) {
			t.Errorf("encodes again as %s, %v", again, err)
		}
	})
}
