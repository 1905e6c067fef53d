// Package equivocation is the proof that somebody signed two objects where only
// one may be: two grants of one series with the same epoch and sequence, two
// identity cards, two entries at one index of a log, two trees of one size. It
// judges whether two objects are such a pair, makes a file of them that convinces
// others, verifies such a file, and keeps those that were met with.
//
// The invariants, and the tests that show them:
//
//   - The exact replay of an object is no equivocation, and neither are two
//     objects of a set, which order never invalidates
//     (TestOnlyTwoObjectsOfOnePlaceEquivocate).
//   - A file says nothing that the two signatures in it do not
//     (TestAForgedPairProvesNothing, FuzzParse).
//   - However much somebody equivocates, what is kept has a bound, and no signer
//     takes the place of another (TestWhatIsKeptHasABound).
package equivocation

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// Version is the edition of the file that is read and written.
const Version = "uzpif-oi-equivocation/1"

// MaxFile bounds a file, in octets: two objects, and a few words about them.
const MaxFile = 2*envelope.MaxSize + 4096

// limits are those of an artefact, two of which stand one level down.
var limits = envelope.Limits{
	Size: MaxFile, Depth: envelope.MaxDepth + 1, Items: envelope.MaxItems, Members: envelope.MaxMembers, String: envelope.MaxString,
}

// ErrNone: two objects that contradict each other in nothing that their order
// decides.
var ErrNone = errors.New("no equivocation")

// A Pair is two signed objects of one place. Fields stand in canonical order.
type Pair struct {
	ID      envelope.Hash  `json:"equivocation_id,omitzero"`
	Version string         `json:"equivocation_version"`
	First   jsontext.Value `json:"first"` // the one with the lower object_id
	Second  jsontext.Value `json:"second"`

	place   Place
	objects [2]*envelope.Object
}

// A Place is where only one object may be.
type Place struct {
	Type      envelope.Type `json:"object_type"`
	Signer    envelope.Name `json:"signer"`
	Subject   envelope.Name `json:"subject,omitempty"`
	Audience  envelope.Name `json:"audience,omitempty"`
	Series    string        `json:"series,omitempty"`
	LogOrigin string        `json:"log_origin,omitempty"`
	Epoch     uint64        `json:"epoch,omitzero"`
	Sequence  uint64        `json:"sequence"` // index of an entry, size of a checkpoint's tree
}

// PlaceOf is the place of an object; false for types whose objects never exclude
// one another. Entries and checkpoints have theirs in a log, whatever key signed
// them: its epoch has no part in it.
func PlaceOf(o *envelope.Object) (Place, bool) {
	p := Place{Type: o.Type, Signer: o.Signer, Sequence: o.Sequence}
	var body struct {
		Series    string `json:"series"`
		LogOrigin string `json:"log_origin"`
		TreeSize  uint64 `json:"tree_size"`
	}
	if err := json.Unmarshal(o.Body, &body); err != nil {
		return Place{}, false
	}
	switch o.Type {
	case envelope.IdentityCard, envelope.Policy, envelope.DiscoveryGrant, envelope.Feed:
		p.Subject, p.Audience, p.Series, p.Epoch = o.Subject, o.Audience, body.Series, o.Epoch
	case envelope.Entry:
		p.LogOrigin = body.LogOrigin
	case envelope.Checkpoint:
		p.LogOrigin, p.Sequence = body.LogOrigin, body.TreeSize
	default:
		return Place{}, false
	}
	return p, true
}

// New makes the pair of two objects, in either order, or returns ErrNone. Their
// signatures are not looked at.
func New(a, b *envelope.Object) (*Pair, error) {
	at, ok := PlaceOf(a)
	if other, _ := PlaceOf(b); !ok || other != at {
		return nil, fmt.Errorf("%s and %s: %w: they are not of one place", a.ID, b.ID, ErrNone)
	}
	if a.ID == b.ID {
		return nil, fmt.Errorf("%s twice: %w", a.ID, ErrNone)
	}
	if a.Type == envelope.Checkpoint && sameTree(a, b) {
		return nil, fmt.Errorf("%s and %s: %w: they are of one tree", a.ID, b.ID, ErrNone)
	}
	if bytes.Compare(a.ID[:], b.ID[:]) > 0 {
		a, b = b, a
	}
	p := &Pair{Version: Version, First: a.Raw, Second: b.Raw, place: at, objects: [2]*envelope.Object{a, b}}
	id, err := p.name()
	p.ID = id
	return p, err
}

// sameTree reports whether two checkpoints are of one root: the log signs the
// same tree again every hour.
func sameTree(a, b *envelope.Object) bool {
	var x, y struct {
		Root envelope.Hash `json:"root"`
	}
	return json.Unmarshal(a.Body, &x) == nil && json.Unmarshal(b.Body, &y) == nil && x == y
}

// Place is where both objects are.
func (p *Pair) Place() Place { return p.place }

// Objects are the two, by ascending object_id.
func (p *Pair) Objects() [2]*envelope.Object { return p.objects }

// Encode gives the file.
func (p *Pair) Encode() ([]byte, error) { return envelope.Canonical(p) }

// name computes the equivocation_id.
func (p *Pair) name() (envelope.Hash, error) {
	bare := Pair{Version: p.Version, First: p.First, Second: p.Second}
	b, err := envelope.Canonical(&bare)
	return envelope.TaggedHash("uzpif-oi/equivocation/v1", b), err
}

// IsPair reports whether a file says that it is one of these.
func IsPair(raw []byte) bool {
	return bytes.Contains(raw, []byte(`"equivocation_version":"`+Version+`"`))
}

// Parse reads a file and makes every check that needs no key: size, syntax,
// canonical form, schema, that equivocation_id names it, and that the two objects
// are a pair.
func Parse(raw []byte) (*Pair, error) {
	var read Pair
	if err := envelope.DecodeCanonicalWithin(raw, &read, limits); err != nil {
		return nil, fmt.Errorf("equivocation: %w", err)
	}
	if read.Version != Version {
		return nil, fmt.Errorf("equivocation: equivocation_version %.40q, want %q", read.Version, Version)
	}
	var objects [2]*envelope.Object
	for i, v := range []jsontext.Value{read.First, read.Second} {
		o, err := envelope.Parse(v)
		if err != nil {
			return nil, fmt.Errorf("equivocation: object %d: %w", i+1, err)
		}
		objects[i] = o
	}
	p, err := New(objects[0], objects[1])
	switch {
	case err != nil:
		return nil, fmt.Errorf("equivocation: %w", err)
	case p.ID != read.ID || !bytes.Equal(p.First, read.First):
		return nil, errors.New("equivocation: equivocation_id does not name this file: it was changed after it was made")
	}
	return p, nil
}
