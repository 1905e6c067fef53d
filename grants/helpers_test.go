package grants_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

const (
	publisher = envelope.Name("spiffe://example.com/publisher")
	stranger  = envelope.Name("spiffe://example.net/publisher")
	indexer   = envelope.Name("spiffe://indexer.example/i1")
	other     = envelope.Name("spiffe://indexer.example/i2")
)

var noon = time.Date(2026, 3, 16, 12, 0, 0, 0, time.UTC)

// keyring is a verifier's trust.
type keyring map[envelope.Hash]envelope.KeyRecord

func (k keyring) LookupKey(id envelope.Hash) (envelope.KeyRecord, bool) { r, ok := k[id]; return r, ok }

// signerOf makes the same key for a name each time.
func signerOf(t testing.TB, name envelope.Name) *envelope.Signer {
	t.Helper()
	seed := envelope.TaggedHash("test key", []byte(name))
	s, err := envelope.NewSigner(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// trust knows both publishers.
func trust(t testing.TB) keyring {
	k := make(keyring)
	for _, n := range []envelope.Name{publisher, stranger} {
		key := signerOf(t, n).Public()
		k[key.ID()] = envelope.KeyRecord{Key: key, Identity: n, Authority: n.Authority(), Use: envelope.UseEnvelope}
	}
	return k
}

func verifier(t testing.TB) grants.Verifier {
	return grants.Verifier{Keys: trust(t), Now: noon, Publisher: publisher, Indexer: indexer}
}

func prefixes(t testing.TB, p ...string) grants.Scope {
	t.Helper()
	s, err := grants.PrefixScope(p...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// draft is a grant of search over one folder, issued at noon.
func draft(t testing.TB) grants.Draft {
	return grants.Draft{
		Stamp:         grants.Stamp{Indexer: indexer, Epoch: 1, Sequence: 7, At: noon},
		Publisher:     publisher,
		Series:        "docs-1",
		Scope:         prefixes(t, "https://example.com/doc/"),
		Purposes:      grants.Purposes{grants.RAGRetrieve, grants.SearchIndex},
		LeafKeyCommit: envelope.Hash{1},
		GrantNonce:    grants.Nonce{2},
		PolicyNonce:   grants.Nonce{3},
	}
}

// issue issues what change makes of draft.
func issue(t testing.TB, change func(*grants.Draft)) grants.Pair {
	t.Helper()
	d := draft(t)
	if change != nil {
		change(&d)
	}
	p, _, err := grants.Issue(d, signerOf(t, d.Publisher))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// resign signs again what a pair's grant becomes by changing header and body,
// without any check of ours.
func resign(t testing.TB, g *grants.Grant, change func(*envelope.Header, *grants.GrantBody)) []byte {
	t.Helper()
	o, b := g.Object, g.Body
	h := envelope.Header{
		Type: o.Type, Authority: o.Authority, Subject: o.Subject, Audience: o.Audience, Epoch: o.Epoch, Sequence: o.Sequence,
		IssuedAt: o.IssuedAt, NotBefore: o.NotBefore, ExpiresAt: o.ExpiresAt, Extensions: o.Extensions,
	}
	change(&h, &b)
	return signed(t, h, members(t, &b), signerOf(t, publisher))
}

func signed(t testing.TB, h envelope.Header, body any, s *envelope.Signer) []byte {
	t.Helper()
	o, err := envelope.Sign(h, body, s)
	if err != nil {
		t.Fatal(err)
	}
	return o.Raw
}

// members is a body as a map, which signs what the body's own check refuses.
func members(t testing.TB, body any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]any)
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// wantReason checks an error's reason, by both ways of asking for it.
func wantReason(t testing.TB, err error, want grants.Reason) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("not refused, want %q", string(want))
	case want != "" && (!errors.Is(err, want) || grants.ReasonOf(err) != want):
		t.Errorf("reason %q (%v), want %q", string(grants.ReasonOf(err)), err, string(want))
	}
}

// unchanged returns a check that neither value nor octets of the pairs moved.
func unchanged(t testing.TB, pairs ...grants.Pair) func() {
	t.Helper()
	image := func() []byte {
		var all []byte
		for _, p := range pairs {
			for _, v := range []any{p.Grant.Body, p.Policy.Body, p.Grant.ScopeHash} {
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, b...)
			}
			all = append(append(all, p.Grant.Object.Raw...), p.Policy.Object.Raw...)
		}
		return all
	}
	before := image()
	return func() {
		t.Helper()
		if !bytes.Equal(before, image()) {
			t.Error("what was refused changed what is held")
		}
	}
}
