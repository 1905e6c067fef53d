package envelope

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
)

const (
	publisher = Name("urn:example:publisher:p1")
	indexer   = Name("urn:example:indexer:i1")
	authority = Name("urn:example:authority:a")
)

// issued is when the grants of these tests are issued, noon a time inside
// their validity.
var (
	issued = time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC)
	noon   = time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)
)

// doc is JSON as anybody may write it.
type doc = map[string]any

// note is a body with one member of each kind.
type note struct {
	Count  uint64   `json:"count"`
	Hint   string   `json:"hint,omitzero"`
	Issuer Name     `json:"issuer"`
	Tags   []string `json:"tags"`
}

func (n *note) Validate() error {
	if n.Count > 1000 {
		return errors.New("count over 1000")
	}
	return nil
}

func goodHeader() Header {
	return Header{Type: DiscoveryGrant, Authority: authority, Subject: publisher, Audience: indexer,
		Epoch: 1, Sequence: 7, IssuedAt: issued, ExpiresAt: issued.AddDate(0, 0, 30)}
}

func goodNote() note { return note{Count: 3, Issuer: publisher, Tags: []string{"rag", "search"}} }

// goodGrant is an envelope that opens under trustIn of its signer.
func goodGrant(t testing.TB) []byte {
	t.Helper()
	o, err := Sign(goodHeader(), goodNote(), rfcSigner(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	return o.Raw
}

// record is what the tests' verifier knows of the key of s.
func record(s *Signer) KeyRecord {
	return KeyRecord{Key: s.Public(), Identity: publisher, Authority: authority, Use: UseEnvelope}
}

func trustIn(records ...KeyRecord) keyring {
	ring := keyring{}
	for _, r := range records {
		ring[r.Key.ID()] = r
	}
	return ring
}

// jcsOf is the canonical form of d, of whatever d holds.
func jcsOf(t testing.TB, d any) []byte {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = jcs.Transform(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func docOf(t testing.TB, raw []byte) doc {
	t.Helper()
	var d doc
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// without is a copy of d that lacks some members.
func without(d doc, names ...string) doc {
	d = maps.Clone(d)
	for _, name := range names {
		delete(d, name)
	}
	return d
}

// forge is a good grant after edit, named and signed anew, as one writes it
// who holds the keys and obeys nobody. Numbers in it stay as they are.
func forge(t testing.TB, edit func(d doc), signers ...*Signer) []byte {
	t.Helper()
	d := docOf(t, goodGrant(t))
	edit(d)
	return seal(t, d, signers...)
}

// coreOf is what is signed of o.
func coreOf(o *Object) []byte {
	before, behind := o.parts()
	return slices.Concat(before, behind)
}

// seal gives d the object_id and signatures that are its due.
func seal(t testing.TB, d doc, signers ...*Signer) []byte {
	t.Helper()
	d["object_id"] = objectID(jcsOf(t, without(d, "object_id", "signatures"))).String()
	core := jcsOf(t, without(d, "signatures"))
	slices.SortFunc(signers, func(a, b *Signer) int {
		x, y := a.Public().ID(), b.Public().ID()
		return bytes.Compare(x[:], y[:])
	})
	list := []any{}
	for _, s := range signers {
		list = append(list, signatureOver(s, signatureInput(s.Public().ID(), core)))
	}
	d["signatures"] = list
	return jcsOf(t, d)
}

// signatureOver is an element of "signatures" that covers message.
func signatureOver(s *Signer, message []byte) doc {
	sig := base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.key, message))
	return doc{"alg": Ed25519, "key_id": s.Public().ID().String(), "sig": sig}
}

// tamper is raw after edit, with the object_id and signatures that it had.
func tamper(t testing.TB, raw []byte, edit func(d doc)) []byte {
	t.Helper()
	d := docOf(t, raw)
	edit(d)
	return jcsOf(t, d)
}

// swap replaces the one place of old in raw.
func swap(t testing.TB, raw []byte, old, new string) []byte {
	t.Helper()
	if n := bytes.Count(raw, []byte(old)); n != 1 {
		t.Fatalf("%q stands %d times in %s", old, n, raw)
	}
	return bytes.Replace(raw, []byte(old), []byte(new), 1)
}

// A refusal is a row of the tables of bad input.
type refusal struct {
	name   string
	raw    []byte
	kind   error // nil for what must be accepted
	member string
}

// checkRefusals opens each row as a note signed by the first RFC 8032 key.
func checkRefusals(t *testing.T, rows []refusal) {
	t.Helper()
	ring := trustIn(record(rfcSigner(t, 0)))
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			var body note
			o, err := Open(tt.raw, &body, Expecting(DiscoveryGrant, ring, noon))
			wantRefused(t, o, err, tt.kind, tt.member)
		})
	}
}

// wantRefused checks that an object is refused by kind, at member, or accepted
// if there is no kind.
func wantRefused(t *testing.T, o *Object, err, kind error, member string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error = %v, want %v", err, kind)
	}
	if (kind != nil) != (o == nil) {
		t.Errorf("object = %v beside error %v", o, err)
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.Member != member {
		t.Errorf("member = %q in %q, want %q", e.Member, err, member)
	}
}
