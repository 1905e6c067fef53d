package identity

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

func TestCardsSayWhatTheirRoleNeeds(t *testing.T) {
	a, b := create(t, publisherOptions(alice)), create(t, indexerOptions(bob))
	for _, l := range []*Local{a, b} {
		c, err := ParseCard(l.Card.Object.Raw, begin)
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range needs(c.Role) {
			if !c.has(use) {
				t.Errorf("%s lists no %s key", c.Identity, use)
			}
		}
		if c.Object.Subject != c.Identity || c.Object.Audience != "" {
			t.Errorf("subject %q, audience %q", c.Object.Subject, c.Object.Audience)
		}
	}
	if got, want := b.Card.Log.Origin, "search.example/indexer/log-1"; got != want {
		t.Errorf("log origin = %q, want %q", got, want)
	}
	v, err := note.NewVerifier(b.Card.Log.VKey)
	if err != nil || v.Name() != b.Card.Log.Origin {
		t.Errorf("vkey %q: %v", b.Card.Log.VKey, err)
	}
}

func TestCardIsRefused(t *testing.T) {
	a, b := create(t, publisherOptions(alice)), create(t, indexerOptions(bob))
	random := &dice{}
	stranger := newSigner(t, random)
	tests := []struct {
		name   string
		local  *Local
		want   error
		change func(*Card, *envelope.Header)
		signer *envelope.Signer
	}{
		{"signed by a key that it does not list", a, envelope.ErrThreshold, func(*Card, *envelope.Header) {}, stranger},
		{"subject of another", a, envelope.ErrSchema, func(_ *Card, h *envelope.Header) { h.Subject = mallory }, nil},
		{"authority of another", a, envelope.ErrSchema, func(_ *Card, h *envelope.Header) { h.Authority = "spiffe://evil.example" }, nil},
		{"an audience", a, envelope.ErrSchema, nil, nil},
		{"an unknown role", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Role = "auditor" }, nil},
		{"an identity without a path", a, envelope.ErrSchema, func(c *Card, h *envelope.Header) {
			c.Identity, h.Subject = "spiffe://example.com", "spiffe://example.com"
		}, nil},
		{"no card key", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { drop(t, c, envelope.UseCard) }, nil},
		{"no envelope key", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { drop(t, c, envelope.UseEnvelope) }, nil},
		{"a TLS key for another epoch only", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) {
			c.Keys[key(t, c, envelope.UseTLS)].Epochs = Epochs{First: 2}
		}, nil},
		{"a publisher with a log key", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) {
			c.Keys = append(c.Keys, Key{Alg: "Ed25519", Epochs: Epochs{First: 1}, PublicKey: stranger.Public(), Use: envelope.UseLog, Validity: c.Keys[0].Validity})
		}, nil},
		{"a publisher with an endpoint", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Endpoint = "example.com:1" }, nil},
		{"one public key twice", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Keys = append(c.Keys, c.Keys[0]) }, nil},
		{"one public key under two uses", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) {
			k := c.Keys[key(t, c, envelope.UseEnvelope)]
			k.Use = envelope.UseTLS
			c.Keys = append(c.Keys, k)
		}, nil},
		{"a use that is none", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Keys[0].Use = "root" }, nil},
		{"an algorithm by its old name", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Keys[0].Alg = "EdDSA" }, nil},
		{"epoch 0", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Keys[0].Epochs.First = 0 }, nil},
		{"epochs that end before they begin", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Keys[0].Epochs = Epochs{2, 1} }, nil},
		{"a validity that ends as it begins", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) {
			c.Keys[0].Validity.NotAfter = c.Keys[0].Validity.NotBefore
		}, nil},
		{"an origin twice", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Origins = append(c.Origins, c.Origins...) }, nil},
		{"an origin with a path", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Origins = []Origin{"https://example.com/"} }, nil},
		{"an indexer without log", b, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Log = nil }, nil},
		{"an indexer without endpoint", b, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Endpoint = "" }, nil},
		{"a vkey of another name", b, envelope.ErrSchema, func(c *Card, _ *envelope.Header) { c.Log.Origin += "x" }, nil},
		{"a vkey of another key", b, envelope.ErrSchema, func(c *Card, _ *envelope.Header) {
			c.Log.VKey, _ = note.NewEd25519VerifierKey(c.Log.Origin, stranger.Public().Bytes())
		}, nil},
		{"a vkey in other words", b, envelope.ErrSchema, func(c *Card, _ *envelope.Header) {
			name, rest, _ := strings.Cut(c.Log.VKey, "+")
			c.Log.VKey = name + "+" + strings.ToUpper(rest[:8]) + rest[8:] + "="
		}, nil},
		{"two log keys", b, envelope.ErrSchema, func(c *Card, _ *envelope.Header) {
			k := c.Keys[key(t, c, envelope.UseLog)]
			k.PublicKey = stranger.Public()
			c.Keys = append(c.Keys, k)
		}, nil},
		{"17 keys", a, envelope.ErrSchema, func(c *Card, _ *envelope.Header) {
			for len(c.Keys) < 17 {
				k := c.Keys[0]
				k.PublicKey = newSigner(t, random).Public()
				c.Keys = append(c.Keys, k)
			}
		}, nil},
		{"signed only by its TLS key", a, envelope.ErrThreshold, func(c *Card, _ *envelope.Header) {
			c.Keys[key(t, c, envelope.UseTLS)].PublicKey = stranger.Public()
		}, stranger},
		{"signed by a key that is retired at its epoch", a, envelope.ErrThreshold, func(c *Card, h *envelope.Header) {
			old := c.Keys[key(t, c, envelope.UseCard)]
			fresh := old
			old.Epochs.Last, fresh.Epochs.First, h.Epoch = 1, 2, 2
			fresh.PublicKey = stranger.Public()
			c.Keys[key(t, c, envelope.UseCard)] = old
			c.Keys = append(c.Keys, fresh)
		}, nil},
		{"issued 121 s ahead", a, envelope.ErrIssuedAhead, func(_ *Card, h *envelope.Header) { h.IssuedAt = begin.Add(121 * time.Second) }, nil},
		{"expired this very second", a, envelope.ErrExpired, func(_ *Card, h *envelope.Header) {
			h.IssuedAt, h.ExpiresAt = begin.Add(-time.Hour), begin
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change == nil {
				raw := bytes.Replace(tt.local.Card.Object.Raw, []byte(`{"body"`), []byte(`{"audience":"urn:x:y","body"`), 1)
				if _, err := ParseCard(raw, begin); !errors.Is(err, tt.want) {
					t.Errorf("ParseCard = %v, want %v", err, tt.want)
				}
				return
			}
			signers := []*envelope.Signer{tt.local.CardSigner}
			if tt.signer != nil {
				signers[0] = tt.signer
			}
			raw := reissue(t, tt.local, func(c *Card, h *envelope.Header) {
				for i := range c.Keys {
					c.Keys[i].Validity.NotBefore = envelope.At(begin.Add(-24 * time.Hour))
				}
				tt.change(c, h)
			}, signers...)
			if _, err := ParseCard(raw, begin); !errors.Is(err, tt.want) {
				t.Errorf("ParseCard = %v, want %v", err, tt.want)
			}
		})
	}
}

func drop(t *testing.T, c *Card, use envelope.Use) {
	i := key(t, c, use)
	c.Keys = append(c.Keys[:i:i], c.Keys[i+1:]...)
}

func TestJunkSignaturesOfUnknownKeysDoNotHarm(t *testing.T) {
	a := create(t, publisherOptions(alice))
	raw := reissue(t, a, func(*Card, *envelope.Header) {}, a.CardSigner, newSigner(t, &dice{}))
	if _, err := ParseCard(raw, begin); err != nil {
		t.Error(err)
	}
}

func TestOneFlippedBitRefusesACard(t *testing.T) {
	raw := create(t, publisherOptions(alice)).Card.Object.Raw
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 1 << (i % 8)
		if _, err := ParseCard(bad, begin); err == nil {
			t.Fatalf("octet %d flipped, and the card opens", i)
		}
	}
}

func TestFingerprintIsTheObjectIDInGroups(t *testing.T) {
	c := create(t, publisherOptions(alice)).Card
	f := c.Fingerprint()
	if groups := strings.Fields(f); len(groups) != 16 || len(f) != 79 {
		t.Errorf("fingerprint %q", f)
	}
	if got := "sha256:" + strings.ReplaceAll(f, " ", ""); got != c.Object.ID.String() {
		t.Errorf("fingerprint %q of %s", f, c.Object.ID)
	}
}

func TestCardIsAKeySourceForItsOwnIdentityOnly(t *testing.T) {
	c := create(t, publisherOptions(alice)).Card
	for _, k := range c.Keys {
		r, ok := c.LookupKey(k.PublicKey.ID())
		if !ok || r.Identity != alice || r.Authority != "spiffe://example.com" || r.Use != k.Use || r.FirstEpoch != 1 {
			t.Errorf("record %+v", r)
		}
	}
	if _, ok := c.LookupKey(newSigner(t, &dice{}).Public().ID()); ok {
		t.Error("a key that is not listed is found")
	}
}

func TestOnlyACardThatTheOldOneVouchesForSupersedes(t *testing.T) {
	a, b := create(t, publisherOptions(alice)), create(t, indexerOptions(bob))
	fresh, freshTLS := newSigner(t, &dice{}), newSigner(t, &dice{n: 1000})
	rotate := func(c *Card, h *envelope.Header) {
		h.Epoch, h.Sequence = 2, 1
		i := key(t, c, envelope.UseCard)
		successor := c.Keys[i]
		successor.PublicKey, successor.Epochs.First = fresh.Public(), 2
		c.Keys[i].Epochs.Last = 1
		c.Keys = append(c.Keys, successor)
	}
	for _, tt := range []struct {
		name    string
		local   *Local
		newer   bool
		want    error // nil with newer false: any error
		change  func(*Card, *envelope.Header)
		signers []*envelope.Signer
	}{
		{"a higher sequence by the same key", a, true, nil, func(c *Card, _ *envelope.Header) { c.Origins = nil }, nil},
		{"a rotated key with both signatures", a, true, nil, rotate, []*envelope.Signer{a.CardSigner, fresh}},
		{"a rotated key by the envelope key of before, which signs no cards", a, false, ErrByHand, rotate, []*envelope.Signer{a.Envelope, fresh}},
		{"a new key for an epoch that another had", a, false, nil, func(c *Card, _ *envelope.Header) {
			c.Keys[key(t, c, envelope.UseEnvelope)].PublicKey = fresh.Public()
		}, nil},
		{"a rotated key without the old one's signature", a, false, envelope.ErrThreshold, rotate, []*envelope.Signer{fresh}},
		{"a lower sequence", a, false, envelope.ErrStale, func(_ *Card, h *envelope.Header) { h.Sequence = 0 }, nil},
		{"another card at the same position", a, false, envelope.ErrEquivocates, func(_ *Card, h *envelope.Header) { h.Sequence = 1 }, nil},
		{"another role", b, false, ErrRole, func(c *Card, _ *envelope.Header) {
			i := key(t, c, envelope.UseLog)
			c.Role, c.Log, c.Endpoint = Publisher, nil, ""
			c.Keys[i].Use, c.Keys[i].PublicKey = envelope.UseCard, fresh.Public()
		}, nil},
		{"a key with another use", a, false, nil, func(c *Card, _ *envelope.Header) {
			i, j := key(t, c, envelope.UseTLS), key(t, c, envelope.UseEnvelope)
			c.Keys[i].Use, c.Keys[j].Use = envelope.UseEnvelope, envelope.UseTLS
		}, nil},
		{"the same log with another key", b, false, nil, func(c *Card, _ *envelope.Header) {
			c.Keys[key(t, c, envelope.UseLog)].PublicKey = freshTLS.Public()
			c.Log.VKey, _ = note.NewEd25519VerifierKey(c.Log.Origin, freshTLS.Public().Bytes())
		}, nil},
		{"another log with another key", b, true, nil, func(c *Card, _ *envelope.Header) {
			c.Keys[key(t, c, envelope.UseLog)].PublicKey = freshTLS.Public()
			c.Log.Origin = "search.example/indexer/log-2"
			c.Log.VKey, _ = note.NewEd25519VerifierKey(c.Log.Origin, freshTLS.Public().Bytes())
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw := reissue(t, tt.local, tt.change, tt.signers...)
			c, err := AuthenticateCard(raw)
			if err != nil {
				t.Fatal(err)
			}
			newer, err := c.Supersede(tt.local.Card)
			if newer != tt.newer || (err == nil) != tt.newer || (tt.want != nil && !errors.Is(err, tt.want)) {
				t.Errorf("Supersede = %v, %v, want %v, %v", newer, err, tt.newer, tt.want)
			}
		})
	}
	if newer, err := a.Card.Supersede(a.Card); newer || err != nil {
		t.Errorf("the same card again = %v, %v", newer, err)
	}
	if _, err := a.Card.Supersede(b.Card); err == nil {
		t.Error("a card supersedes that of another identity")
	}
}

func TestEpochComesBeforeSequence(t *testing.T) {
	a := create(t, publisherOptions(alice))
	at := func(epoch, sequence uint64) *Card {
		c, err := AuthenticateCard(reissue(t, a, func(_ *Card, h *envelope.Header) { h.Epoch, h.Sequence = epoch, sequence }))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	low, high := at(1, envelope.MaxInteger), at(2, 0)
	if newer, err := high.Supersede(low); !newer || err != nil {
		t.Errorf("a higher epoch = %v, %v", newer, err)
	}
	if newer, err := low.Supersede(high); newer || !errors.Is(err, envelope.ErrStale) {
		t.Errorf("a lower epoch with a huge sequence = %v, %v, want %v", newer, err, envelope.ErrStale)
	}
}

// checkOpened requires an opened card to encode to the octets it came from.
func checkOpened(t *testing.T, c *Card) {
	t.Helper()
	body, err := envelope.Canonical(c)
	if err != nil || !bytes.Equal(body, c.Object.Body) {
		t.Errorf("encodes again as %s, %v, want %s", body, err, c.Object.Body)
	}
	if newer, err := c.Supersede(c); newer || err != nil {
		t.Errorf("does not equal itself: %v, %v", newer, err)
	}
}

func FuzzParseCard(f *testing.F) {
	for _, o := range []Options{publisherOptions(alice), indexerOptions(bob)} {
		o.Rand = &dice{}
		f.Add(create(f, o).Card.Object.Raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseCard(raw, begin)
		if err != nil {
			return
		}
		checkOpened(t, c)
	})
}

// FuzzCardBody signs what it is given, so that the card's own checks are
// reached behind those of the envelope.
func FuzzCardBody(f *testing.F) {
	var signers []*envelope.Signer
	for i, o := range []Options{publisherOptions(alice), indexerOptions(bob)} {
		o.Rand = &dice{n: uint64(i) * 100}
		l := create(f, o)
		f.Add(l.Card.Object.Body)
		signers = append(signers, l.CardSigner)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, name := range []envelope.Name{alice, bob} {
			h := envelope.Header{Type: envelope.IdentityCard, Authority: name.Authority(), Subject: name, Epoch: 1, Sequence: 1, IssuedAt: begin}
			o, err := envelope.Sign(h, jsontext.Value(body), signers...)
			if err != nil {
				return
			}
			if c, err := AuthenticateCard(o.Raw); err == nil {
				checkOpened(t, c)
			}
		}
	})
}
