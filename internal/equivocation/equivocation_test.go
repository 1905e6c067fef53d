package equivocation

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

var begin = time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)

const (
	alice = "spiffe://example.com/publisher"
	bob   = "spiffe://search.example/indexer"
)

func publisher(t testing.TB) *identity.Local {
	t.Helper()
	l, err := identity.Create(t.TempDir(), identity.Options{Identity: alice, Role: identity.Publisher, Now: begin})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// object signs a body of the given type, which no schema but the envelope's has
// looked at.
func object(t testing.TB, s *envelope.Signer, typ envelope.Type, sequence uint64, body string) *envelope.Object {
	t.Helper()
	h := envelope.Header{Type: typ, Authority: "spiffe://example.com", Subject: alice, Epoch: 1, Sequence: sequence, IssuedAt: begin.Add(time.Minute)}
	switch typ {
	case envelope.DiscoveryGrant, envelope.Revocation, envelope.BatchManifest, envelope.Receipt:
		h.Audience = bob
	}
	if typ == envelope.DiscoveryGrant {
		h.ExpiresAt = begin.Add(time.Hour)
	}
	o, err := envelope.Sign(h, jsontext.Value(body), s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func grant(t testing.TB, s *envelope.Signer, sequence uint64, series, nonce string) *envelope.Object {
	return object(t, s, envelope.DiscoveryGrant, sequence, fmt.Sprintf(`{"issuer":"%s","nonce":"%s","series":"%s"}`, alice, nonce, series))
}

func TestOnlyTwoObjectsOfOnePlaceEquivocate(t *testing.T) {
	s := publisher(t).Envelope
	checkpoint := func(origin string, size int, root byte, sequence uint64) *envelope.Object {
		return object(t, s, envelope.Checkpoint, sequence, fmt.Sprintf(`{"indexer":"%s","log_origin":"%s","root":"sha256:%064x","tree_size":%d}`, alice, origin, root, size))
	}
	entry := func(origin string, index uint64, nonce string) *envelope.Object {
		return object(t, s, envelope.Entry, index, fmt.Sprintf(`{"indexer":"%s","log_origin":"%s","nonce":"%s"}`, alice, origin, nonce))
	}
	one := grant(t, s, 7, "docs-1", "a")
	for _, tt := range []struct {
		name string
		a, b *envelope.Object
		pair bool
	}{
		{"two grants at one place", one, grant(t, s, 7, "docs-1", "b"), true},
		{"the exact replay", one, one, false},
		{"a grant and its renewal", one, grant(t, s, 8, "docs-1", "b"), false},
		{"grants of two series", one, grant(t, s, 7, "docs-2", "b"), false},
		{"a grant and a policy", one, object(t, s, envelope.Policy, 7, `{"issuer":"`+alice+`","series":"docs-1"}`), false},
		{"two entries at one index", entry("log", 3, "a"), entry("log", 3, "b"), true},
		{"entries of two logs", entry("log", 3, "a"), entry("next", 3, "b"), false},
		{"two trees of one size", checkpoint("log", 3, 1, 3), checkpoint("log", 3, 2, 3), true},
		{"one tree signed twice", checkpoint("log", 3, 1, 3), checkpoint("log", 3, 1, 4), false},
		{"trees of two sizes", checkpoint("log", 3, 1, 3), checkpoint("log", 4, 2, 3), false},
		{"two revocations, which are a set", object(t, s, envelope.Revocation, 7, `{"nonce":"a","publisher":"`+alice+`"}`),
			object(t, s, envelope.Revocation, 7, `{"nonce":"b","publisher":"`+alice+`"}`), false},
		{"two manifests, which the batch decides", object(t, s, envelope.BatchManifest, 7, `{"nonce":"a","publisher":"`+alice+`"}`),
			object(t, s, envelope.BatchManifest, 7, `{"nonce":"b","publisher":"`+alice+`"}`), false},
	} {
		p, err := New(tt.a, tt.b)
		if (err == nil) != tt.pair || (err != nil && !errors.Is(err, ErrNone)) {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if err != nil {
			continue
		}
		q, err := New(tt.b, tt.a)
		if err != nil || q.ID != p.ID {
			t.Errorf("%s: in the other order %v", tt.name, err)
		}
	}
}

func encoded(t testing.TB, a, b *envelope.Object) []byte {
	t.Helper()
	p, err := New(a, b)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAForgedPairProvesNothing(t *testing.T) {
	l, thief := publisher(t), publisher(t)
	a, b := grant(t, l.Envelope, 7, "docs-1", "a"), grant(t, l.Envelope, 7, "docs-1", "b")
	raw := encoded(t, a, b)
	mine := []*identity.Card{l.Card}
	if rep := Verify(raw, mine); rep.Verdict != evaluate.Signed {
		t.Fatalf("a true pair: %s, %v", rep.Verdict, rep.Reasons)
	}
	for _, tt := range []struct {
		name  string
		raw   []byte
		cards []*identity.Card
	}{
		{"no card of the signer", raw, nil},
		{"the card of a namesake", raw, []*identity.Card{thief.Card}},
		{"one of the two by an unknown key", encoded(t, a, grant(t, thief.Envelope, 7, "docs-1", "c")), mine},
		{"one of the two by the card key", encoded(t, a, grant(t, l.CardSigner, 7, "docs-1", "c")), mine},
		{"one object twice", bytes.Replace(raw, b.Raw, a.Raw, 1), mine},
		{"the objects in the other order", bytes.Replace(bytes.Replace(bytes.Replace(raw, a.Raw, []byte("@"), 1), b.Raw, a.Raw, 1), []byte("@"), b.Raw, 1), mine},
		{"another name", bytes.Replace(raw, []byte(`"equivocation_id":"sha256:`), []byte(`"equivocation_id":"sha256:0`), 1), mine},
		{"another edition", bytes.Replace(raw, []byte("equivocation/1"), []byte("equivocation/2"), 1), mine},
		{"a member more", append(raw[:len(raw)-1:len(raw)-1], []byte(`,"z":1}`)...), mine},
		{"nothing", nil, mine},
		{"too much", bytes.Repeat([]byte(" "), MaxFile+1), mine},
	} {
		if rep := Verify(tt.raw, tt.cards); rep.Verdict != evaluate.Invalid || len(rep.Reasons) == 0 {
			t.Errorf("%s: %s, %v", tt.name, rep.Verdict, rep.Reasons)
		}
	}
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 1 << (i % 8)
		if rep := Verify(bad, mine); rep.Verdict != evaluate.Invalid {
			t.Fatalf("octet %d flipped: %s", i, rep.Verdict)
		}
	}
}

func TestAPairByALostKeyIsToldSo(t *testing.T) {
	dir := t.TempDir()
	l, err := identity.Create(dir, identity.Options{Identity: alice, Role: identity.Publisher, Now: begin})
	if err != nil {
		t.Fatal(err)
	}
	raw := encoded(t, grant(t, l.Envelope, 7, "docs-1", "a"), grant(t, l.Envelope, 7, "docs-1", "b"))
	later, err := identity.ChangeKeys(dir, identity.KeyOptions{Uses: []envelope.Use{envelope.UseEnvelope}, Lost: true, Now: begin.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	rep := Verify(raw, []*identity.Card{later.Card})
	if rep.Verdict != evaluate.Signed || !strings.Contains(strings.Join(rep.Reasons, "\n"), "reported lost") {
		t.Errorf("%s: %v", rep.Verdict, rep.Reasons)
	}
}

func TestWhatIsKeptHasABound(t *testing.T) {
	dir := t.TempDir()
	f, s := In(dir), publisher(t).Envelope
	for i := range uint64(maxOfSigner + 5) {
		kept, err := f.Keep(grant(t, s, i+1, "docs-1", "a"), grant(t, s, i+1, "docs-1", "b"))
		if err != nil || (kept != nil) != (i < maxOfSigner) {
			t.Fatalf("pair %d: %v, %v", i+1, kept, err)
		}
	}
	if kept, err := f.Keep(grant(t, s, 1, "docs-1", "a"), grant(t, s, 1, "docs-1", "c")); kept != nil || err != nil {
		t.Errorf("another pair of a place that has one: %v, %v", kept, err)
	}
	foreign := func(at time.Time) *envelope.Object {
		h := envelope.Header{Type: envelope.Policy, Authority: "spiffe://search.example", Subject: bob, Epoch: 1, Sequence: 1, IssuedAt: at}
		o, err := envelope.Sign(h, jsontext.Value(`{"issuer":"`+bob+`","series":"x"}`), s)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if kept, err := f.Keep(foreign(begin), foreign(begin.Add(time.Hour))); kept == nil || err != nil {
		t.Errorf("another signer: %v, %v", kept, err)
	}
	all, err := f.List()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != maxOfSigner+1 {
		t.Errorf("%d kept, want %d", len(all), maxOfSigner+1)
	}
	if err := os.WriteFile(filepath.Join(string(f), "bad.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	rest, err := f.List()
	if err == nil || len(rest) != len(all) {
		t.Errorf("beside a file that is none: %d, %v", len(rest), err)
	}
}

func FuzzParse(f *testing.F) {
	l := publisher(f)
	f.Add(encoded(f, grant(f, l.Envelope, 7, "docs-1", "a"), grant(f, l.Envelope, 7, "docs-1", "b")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%s\nencodes again as\n%s, %v", raw, again, err)
		}
		if o := p.Objects(); o[0].ID == o[1].ID || o[0].Signer != o[1].Signer {
			t.Errorf("no pair: %s and %s", o[0].ID, o[1].ID)
		}
	})
}
