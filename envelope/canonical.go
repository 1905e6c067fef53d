package envelope

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

// Structural limits of an envelope, checked while it is read and before any
// value of it is built.
const (
	MaxSize    = 256 << 10 // octets
	MaxDepth   = 16        // nested objects and arrays
	MaxItems   = 4096      // elements of one array
	MaxMembers = 256       // members of one object
	MaxString  = 8 << 10   // octets of one string as written, without its quotes
	MaxInteger = 1<<53 - 1 // magnitude of a number
)

// Limits bounds a canonical document; what is exactly at a limit is inside it.
// Those of one envelope are the constants above; an evidence file, which holds
// several envelopes, has wider ones. Reading recurses up to Depth.
type Limits struct {
	Size, Depth, Items, Members, String int
}

var (
	artefactLimits = Limits{Size: MaxSize, Depth: MaxDepth, Items: MaxItems, Members: MaxMembers, String: MaxString}
	noLimits       = Limits{Size: math.MaxInt, Depth: math.MaxInt, Items: math.MaxInt, Members: math.MaxInt, String: math.MaxInt}
)

// Canonical returns the RFC 8785 form of v, which must be an object or array
// of what the profile allows: a null, a fraction, an integer beyond
// MaxInteger or a member name beyond [a-z0-9_]{1,64} is an error. Structs
// whose fields stand in the order of their names are not sorted again.
func Canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, refuse(ErrSchema, pointed("", err), "%v", err)
	}
	if checkCanonical(b, noLimits) == nil {
		return b, nil
	}
	if b, err = jcs.Transform(b); err != nil {
		return nil, refuse(ErrSyntax, "", "%v", err)
	}
	// Sorting reads numbers as floating point. An integer that this changes
	// is beyond MaxInteger, before and after.
	if err := checkCanonical(b, noLimits); err != nil {
		return nil, err
	}
	return b, nil
}

// DecodeCanonical decodes the canonical JSON in raw into dst, which must be a
// pointer to a zero value. Keys are exact and the schema is closed: dst is
// encoded again and must give the same octets, so an unknown, missing or null
// member is refused, and so is a second way to write a value. The limits are
// those of one envelope. After an error dst is not to be used.
func DecodeCanonical(raw []byte, dst any) error {
	return DecodeCanonicalWithin(raw, dst, artefactLimits)
}

// DecodeCanonicalWithin is DecodeCanonical under other limits.
func DecodeCanonicalWithin(raw []byte, dst any, l Limits) error {
	if err := checkCanonical(raw, l); err != nil {
		return err
	}
	return decodeClosed(raw, dst, "")
}

// decodeClosed decodes canonical octets into dst and requires that dst encodes
// to the same octets again. at is the member of which raw is the value.
func decodeClosed(raw []byte, dst any, at string) error {
	if err := json.Unmarshal(raw, dst, json.RejectUnknownMembers(true)); err != nil {
		return refuse(ErrSchema, pointed(at, err), "%v", err)
	}
	again, err := json.Marshal(dst, json.Deterministic(true))
	if err != nil {
		return refuse(ErrSchema, pointed(at, err), "%v", err)
	}
	if bytes.Equal(again, raw) {
		return nil
	}
	if again, err = jcs.Transform(again); err != nil {
		return refuse(ErrSchema, at, "%v", err)
	}
	if bytes.Equal(again, raw) {
		return nil
	}
	name, why := difference(raw, again, at)
	return refuse(ErrSchema, name, "%s", why)
}

// difference names the first member in which raw is not what its decoded value
// encodes to. Both are canonical.
func difference(raw, again []byte, at string) (name, why string) {
	got, want := slices.Collect(members(raw)), slices.Collect(members(again))
	for len(got) > 0 && len(want) > 0 {
		g, w := got[0], want[0]
		inner := join(at, string(g.name))
		switch order := bytes.Compare(g.name, w.name); {
		case order < 0:
			return inner, "present although empty"
		case order > 0:
			return join(at, string(w.name)), "missing"
		case bytes.Equal(g.value, w.value):
			got, want = got[1:], want[1:]
		default:
			return difference(g.value, w.value, inner)
		}
	}
	switch {
	case len(got) > 0:
		return join(at, string(got[0].name)), "present although empty"
	case len(want) > 0:
		return join(at, string(want[0].name)), "missing"
	}
	return at, "incomplete, or written in another form"
}

// pointed names the member below at that err, of package json, complains of.
func pointed(at string, err error) string {
	var pointer jsontext.Pointer
	if e := (*json.SemanticError)(nil); errors.As(err, &e) {
		pointer = e.JSONPointer
	} else if e := (*jsontext.SyntacticError)(nil); errors.As(err, &e) {
		pointer = e.JSONPointer
	}
	for name := range pointer.Tokens() {
		at = join(at, name)
	}
	return at
}

// inside is what the string v says, in place, or nil if v is none or holds an
// escape.
func inside(v jsontext.Value) []byte {
	if len(v) >= 2 && v[0] == '"' && bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	return nil
}

// unquote is inside as a string of its own.
func unquote(v jsontext.Value) string { return string(inside(v)) }
