package identity

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A statement is the least body of a revocation.
type statement struct {
	Publisher envelope.Name `json:"publisher"`
}

// signed is an object of alice's.
func signed(t testing.TB, s *envelope.Signer, epoch uint64, at time.Time) []byte {
	t.Helper()
	o, err := envelope.Sign(envelope.Header{
		Type: envelope.Revocation, Authority: "spiffe://example.com", Subject: alice, Audience: bob,
		Epoch: epoch, Sequence: 1, IssuedAt: at,
	}, statement{alice}, s)
	if err != nil {
		t.Fatal(err)
	}
	return o.Raw
}

func opens(raw []byte, keys envelope.KeySource) error {
	_, err := envelope.Authenticate(raw, new(statement), envelope.Expecting(envelope.Revocation, keys, time.Time{}))
	return err
}

// change replaces keys of the identity that lives in dir.
func change(t testing.TB, l *Local, o KeyOptions) *Local {
	t.Helper()
	next, err := ChangeKeys(dirOf(l), o)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func dirOf(l *Local) string { return strings.TrimSuffix(l.folder, "/"+keyFolder) }

// take has a peer take a new card, by its fingerprint if by is set.
func take(s *Trust, c *Card, now time.Time, by string) error {
	_, err := s.Add(c.Object.Raw, AddOptions{Now: now, Fingerprint: by})
	return err
}

func TestEachKeySignsForItsOwnEpochOnly(t *testing.T) {
	old := create(t, publisherOptions(alice))
	clock := newClock()
	s := trusting(t, clock, old)
	later := begin.Add(time.Hour)
	for _, tt := range []struct {
		lost bool
		held error // of what is held already and was signed by the old key
		new  error // of the same when it comes for the first time
	}{
		{false, nil, nil},
		{true, nil, envelope.ErrThreshold},
	} {
		t.Run(fmt.Sprintf("lost %t", tt.lost), func(t *testing.T) {
			was, epoch := old.Envelope, old.Epoch(envelope.UseEnvelope)
			fresh := change(t, old, KeyOptions{Uses: []envelope.Use{envelope.UseEnvelope}, Lost: tt.lost, Now: later})
			if err := take(s, fresh.Card, later, fresh.Card.Fingerprint()); err != nil {
				t.Fatal(err)
			}
			clock.advance(time.Second)
			next := fresh.Epoch(envelope.UseEnvelope)
			if next != epoch+1 {
				t.Fatalf("the new key signs epoch %d after %d", next, epoch)
			}
			before := signed(t, was, epoch, later.Add(-time.Second))
			if err := opens(before, s.Known()); !errors.Is(err, tt.held) {
				t.Errorf("what the old key signed, held already: %v, want %v", err, tt.held)
			}
			if err := opens(before, s); !errors.Is(err, tt.new) {
				t.Errorf("what the old key signed, seen first: %v, want %v", err, tt.new)
			}
			if err := opens(signed(t, fresh.Envelope, next, later), s); err != nil {
				t.Errorf("what the new key signs: %v", err)
			}
			for name, raw := range map[string][]byte{
				"the old key for the new epoch":              signed(t, was, next, later.Add(-time.Second)),
				"the old key after its end":                  signed(t, was, epoch, later.Add(envelope.Skew)),
				"the new key for the old epoch":              signed(t, fresh.Envelope, epoch, later),
				"the new key before it began":                signed(t, fresh.Envelope, next, later.Add(-time.Second)),
				"the new key for an epoch that nobody knows": signed(t, fresh.Envelope, next+1, later),
			} {
				if err := opens(raw, s.Known()); !errors.Is(err, envelope.ErrThreshold) {
					t.Errorf("%s: %v, want %v", name, err, envelope.ErrThreshold)
				}
			}
			old, later = fresh, later.Add(time.Hour)
		})
	}
}

func TestALostKeyIsReplacedByItsFingerprintOnly(t *testing.T) {
	for _, role := range []Options{publisherOptions(alice), indexerOptions(bob)} {
		for _, use := range []envelope.Use{envelope.UseEnvelope, envelope.UseTLS, envelope.UseCard} {
			t.Run(fmt.Sprintf("%s %s", role.Role, use), func(t *testing.T) {
				l := create(t, role)
				if role.Role == Indexer && use == envelope.UseCard {
					l = change(t, l, KeyOptions{Uses: []envelope.Use{use}, Now: begin})
				}
				s := trusting(t, newClock(), l)
				now := begin.Add(time.Hour)
				fresh := change(t, l, KeyOptions{Uses: []envelope.Use{use}, Lost: true, Now: now})
				if err := take(s, fresh.Card, now, ""); !errors.Is(err, ErrByHand) {
					t.Errorf("without its fingerprint: %v, want %v", err, ErrByHand)
				}
				if err := take(s, fresh.Card, now, l.Card.Fingerprint()); err == nil {
					t.Error("taken by the fingerprint of another card")
				}
				if p, _ := s.Lookup(l.Name()); p.Card.Object.ID != l.Card.Object.ID {
					t.Fatal("what was refused has changed the trust")
				}
				if err := take(s, fresh.Card, now, strings.ReplaceAll(fresh.Card.Fingerprint(), " ", "")); err != nil {
					t.Errorf("by its fingerprint: %v", err)
				}
				said := strings.Join(fresh.Card.Changes(l.Card), "\n")
				if !strings.Contains(said, "LOST: the "+string(use)+" key") {
					t.Errorf("the operator is told:\n%s", said)
				}
			})
		}
	}
}

func TestAThiefOfTheEnvelopeKeyReplacesNoCard(t *testing.T) {
	l := create(t, publisherOptions(alice))
	s := trusting(t, newClock(), l)
	thief := newSigner(t, &dice{n: 50})
	raw := reissue(t, l, func(c *Card, h *envelope.Header) {
		h.Epoch = 2
		for i := range c.Keys {
			if c.Keys[i].Use == envelope.UseCard {
				k := c.Keys[i]
				c.Keys[i].Epochs.Last = 1
				k.PublicKey, k.Epochs.First = thief.Public(), 2
				c.Keys = append(c.Keys, k)
			}
		}
	}, l.Envelope, thief)
	c, err := AuthenticateCard(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := take(s, c, begin, ""); !errors.Is(err, ErrByHand) {
		t.Errorf("Add = %v, want %v", err, ErrByHand)
	}
}

func TestARecordThatHasEndedIsNotOpenedAgain(t *testing.T) {
	l := create(t, publisherOptions(alice))
	ended := change(t, l, KeyOptions{Uses: []envelope.Use{envelope.UseEnvelope}, Lost: true, Now: begin.Add(time.Hour)})
	for _, tt := range []struct {
		name   string
		change func(*Key)
	}{
		{"its last epoch is taken away", func(k *Key) { k.Epochs.Last, k.Lost = 0, false }},
		{"its last epoch is a later one", func(k *Key) { k.Epochs.Last = 2 }},
		{"its end is later", func(k *Key) { k.Validity.NotAfter = envelope.At(begin.Add(2 * time.Hour)) }},
		{"it was never lost", func(k *Key) { k.Lost = false }},
		{"it began earlier", func(k *Key) { k.Epochs.First = 2; k.Epochs.Last = 2 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw := reissue(t, ended, func(c *Card, _ *envelope.Header) {
				for i := range c.Keys {
					if c.Keys[i].Lost {
						tt.change(&c.Keys[i])
					}
				}
			})
			c, err := AuthenticateCard(raw)
			if err != nil {
				t.Fatal(err)
			}
			if newer, err := c.Supersede(ended.Card); newer || err == nil || errors.Is(err, ErrByHand) {
				t.Errorf("Supersede = %t, %v", newer, err)
			}
		})
	}
}

// inMemory is the identity of a card and its keys, without files.
func inMemory(t *rapid.T, card *envelope.Object, keys map[envelope.Use]ed25519.PrivateKey) *Local {
	c, err := AuthenticateCard(card.Raw)
	if err != nil {
		t.Fatal(err)
	}
	l := &Local{Card: c, epochs: make(map[envelope.Use]uint64)}
	signers := make(map[envelope.Use]*envelope.Signer)
	for use, key := range keys {
		if signers[use], err = envelope.NewSigner(key); err != nil {
			t.Fatal(err)
		}
		k, ok := c.own(use, key)
		if !ok {
			t.Fatalf("the card does not list its %s key", use)
		}
		l.epochs[use] = k.Epochs.First
	}
	l.Envelope, l.CardSigner = signers[envelope.UseEnvelope], signers[c.signingUse()]
	return l
}

// TestWhateverIsReplacedPeersFollow replaces keys in any order: each card is
// vouched for by the one before, or reports a loss, and the newest one verifies
// whatever was ever signed.
func TestWhateverIsReplacedPeersFollow(t *testing.T) {
	all := []envelope.Use{envelope.UseEnvelope, envelope.UseTLS, envelope.UseCard}
	rapid.Check(t, func(r *rapid.T) {
		options, random, now := publisherOptions(alice), &dice{}, begin
		keys, card, err := options.issue(random)
		if err != nil {
			r.Fatal(err)
		}
		l := inMemory(r, card, keys)
		var held [][]byte
		for range rapid.IntRange(1, 9).Draw(r, "changes") {
			held = append(held, signed(t, l.Envelope, l.Epoch(envelope.UseEnvelope), now))
			now = now.Add(time.Duration(rapid.IntRange(0, 50*3600).Draw(r, "seconds")) * time.Second)
			o := KeyOptions{
				Uses: rapid.Permutation(all).Draw(r, "uses")[:rapid.IntRange(1, 3).Draw(r, "n")], Lost: rapid.Bool().Draw(r, "lost"),
				Overlap: time.Duration(rapid.IntRange(0, 20).Draw(r, "overlap")) * time.Hour, Now: now, Rand: random,
			}
			s, err := l.succeed(o)
			if err != nil {
				r.Fatal(err)
			}
			for _, use := range o.Uses {
				keys[use] = s.keys[keyFile(use)]
				if keys[use] == nil {
					keys[use] = s.keys[nextKeyFile]
				}
			}
			next := inMemory(r, s.card, keys)
			newer, err := next.Card.Supersede(l.Card)
			if newer == o.Lost || errors.Is(err, ErrByHand) != o.Lost {
				r.Fatalf("the next card, lost %t: %t, %v", o.Lost, newer, err)
			}
			l = next
		}
		for i, raw := range held {
			if err := opens(raw, l.Card); err != nil {
				r.Fatalf("object %d of %d: %v", i, len(held), err)
			}
		}
	})
}

func TestTLSKeysMakeRoomForThoseThatSign(t *testing.T) {
	options, random, now := publisherOptions(alice), &dice{}, begin
	keys, card, err := options.issue(random)
	if err != nil {
		t.Fatal(err)
	}
	var held [][]byte
	for range 12 {
		c, err := AuthenticateCard(card.Raw)
		if err != nil {
			t.Fatal(err)
		}
		l := &Local{Card: c}
		if l.CardSigner, err = envelope.NewSigner(keys[envelope.UseCard]); err != nil {
			t.Fatal(err)
		}
		if l.Envelope, err = envelope.NewSigner(keys[envelope.UseEnvelope]); err != nil {
			t.Fatal(err)
		}
		held = append(held, signed(t, l.Envelope, c.Object.Epoch, now))
		s, err := l.succeed(KeyOptions{Uses: []envelope.Use{envelope.UseTLS, envelope.UseEnvelope}, Now: now, Rand: random})
		if err != nil {
			t.Fatal(err)
		}
		keys[envelope.UseEnvelope], card = s.keys[keyFile(envelope.UseEnvelope)], s.card
	}
	c, err := AuthenticateCard(card.Raw)
	if err != nil {
		t.Fatal(err)
	}
	for i, raw := range held {
		if err := opens(raw, c); err != nil {
			t.Errorf("object %d of %d: %v", i, len(held), err)
		}
	}
}

func TestACardWithoutRoomDropsTheOldestKey(t *testing.T) {
	options, random := publisherOptions(alice), &dice{}
	keys, card, err := options.issue(random)
	if err != nil {
		t.Fatal(err)
	}
	c, err := AuthenticateCard(card.Raw)
	if err != nil {
		t.Fatal(err)
	}
	l := &Local{Card: c}
	if l.CardSigner, err = envelope.NewSigner(keys[envelope.UseCard]); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		o := KeyOptions{Uses: []envelope.Use{envelope.UseEnvelope}, Now: begin.Add(time.Duration(i+1) * time.Hour), Rand: random}
		s, err := l.succeed(o)
		if err != nil {
			t.Fatalf("rotation %d: %v", i+1, err)
		}
		if l.Card, err = AuthenticateCard(s.card.Raw); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.Card.Keys); n != maxKeys {
		t.Errorf("%d keys, want %d", n, maxKeys)
	}
	for _, k := range l.Card.Keys {
		if k.Use == envelope.UseEnvelope && k.Epochs.First < 31-13 {
			t.Errorf("the key of epoch %d is kept, and newer ones are not", k.Epochs.First)
		}
	}
}
