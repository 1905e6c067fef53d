package identity

import (
	"crypto/ed25519"
	"encoding/binary"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// begin is when the identities of these tests are made.
var begin = time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)

const (
	alice   = "spiffe://example.com/publisher"
	bob     = "spiffe://search.example/indexer/log-1"
	mallory = "spiffe://example.com/mallory"
)

// A clock stands still until it is set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: begin} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// dice is a reproducible source of keys: no two seeds give the same ones.
type dice struct{ n uint64 }

func (d *dice) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 32 {
		d.n++
		h := envelope.TaggedHash("test", binary.BigEndian.AppendUint64(nil, d.n))
		copy(p[i:], h[:])
	}
	return len(p), nil
}

func publisherOptions(name envelope.Name) Options {
	return Options{Identity: name, Role: Publisher, Origins: []Origin{"https://example.com"}, Now: begin}
}

func indexerOptions(name envelope.Name) Options {
	return Options{Identity: name, Role: Indexer, Endpoint: "search.example:7443", LogURL: "https://search.example/log", Now: begin}
}

func create(t testing.TB, o Options) *Local {
	t.Helper()
	l, err := Create(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func openTrust(t testing.TB, dir string, o TrustOptions) *Trust {
	t.Helper()
	s, err := OpenTrust(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t testing.TB, s *Trust, l *Local) {
	t.Helper()
	if _, err := s.Add(l.Card.Object.Raw, AddOptions{Now: begin}); err != nil {
		t.Fatal(err)
	}
}

// trusting is a store that trusts the given identities.
func trusting(t testing.TB, c *clock, locals ...*Local) *Trust {
	t.Helper()
	s := openTrust(t, t.TempDir(), TrustOptions{Now: c.now})
	for _, l := range locals {
		add(t, s, l)
	}
	return s
}

func newSigner(t testing.TB, random io.Reader) *envelope.Signer {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		t.Fatal(err)
	}
	s, err := envelope.NewSigner(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reissue signs a changed copy of l's card; change may alter body and header.
func reissue(t testing.TB, l *Local, change func(*Card, *envelope.Header), signers ...*envelope.Signer) []byte {
	t.Helper()
	card := *l.Card
	card.Keys = append([]Key(nil), card.Keys...)
	card.Previous = l.Card.Object.ID
	if card.Log != nil {
		log := *card.Log
		card.Log = &log
	}
	o := l.Card.Object
	h := envelope.Header{
		Type: o.Type, Authority: o.Authority, Subject: o.Subject,
		Epoch: o.Epoch, Sequence: o.Sequence + 1, IssuedAt: o.IssuedAt,
	}
	change(&card, &h)
	if len(signers) == 0 {
		signers = []*envelope.Signer{l.CardSigner}
	}
	body, err := envelope.Canonical(&card)
	if err != nil {
		t.Fatal(err)
	}
	// As raw JSON, so that a card which no Card may be is signed too.
	signed, err := envelope.Sign(h, jsontext.Value(body), signers...)
	if err != nil {
		t.Fatal(err)
	}
	return signed.Raw
}

// key is the index of the card's key of the given use.
func key(t testing.TB, c *Card, use envelope.Use) int {
	t.Helper()
	for i, k := range c.Keys {
		if k.Use == use {
			return i
		}
	}
	t.Fatalf("no %s key", use)
	return 0
}
