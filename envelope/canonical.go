package envelope

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

// Structural limits of an artefact, checked while it is read and before any
// value of it is built.
const (
	MaxSize    = 256 << 10 // octets
	MaxDepth   = 16        // nested objects and arrays
	MaxItems   = 4096      // elements of one array
	MaxMembers = 256       // members of one object
	MaxString  = 8 << 10   // octets of one string, as written
	MaxInteger = 1<<53 - 1 // magnitude of a number
)

// Limits bounds a canonical document. Artefact is what envelopes obey;
// evidence files, which hold several artefacts, have wider ones.
type Limits struct {
	Size, Depth, Items, Members, String int
}

// Artefact is the set of limits of one envelope.
var artefactLimits = Limits{Size: MaxSize, Depth: MaxDepth, Items: MaxItems, Members: MaxMembers, String: MaxString}

// Canonical returns the RFC 8785 form of v. Structs whose fields stand in the
// order of their names are encoded once and not sorted again.
func Canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return jcs.Transform(b)
}

// DecodeCanonical decodes the canonical JSON in raw into dst, with exact keys
// and a closed schema: unknown, missing and null members are refused, since
// dst encoded again must give the same octets.
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

// checkCanonical walks raw within its limits and compares it with its own
// canonical form.
func checkCanonical(raw []byte, l Limits) error {
	if len(raw) > l.Size {
		return refuse(ErrSize, "", "%d octets, at most %d", len(raw), l.Size)
	}
	if err := walk(raw, l); err != nil {
		return err
	}
	c, err := jcs.Transform(raw)
	if err != nil {
		return refuse(ErrSyntax, "", "%v", err)
	}
	if !bytes.Equal(c, raw) {
		return refuse(ErrCanonical, "", "the octets differ from their RFC 8785 form")
	}
	return nil
}

// decodeClosed decodes canonical octets into dst and requires that dst encodes
// to the same octets again.
func decodeClosed(raw []byte, dst any, member string) error {
	if err := json.Unmarshal(raw, dst, json.RejectUnknownMembers(true)); err != nil {
		var se *json.SemanticError
		if errors.As(err, &se) && se.JSONPointer != "" {
			member = strings.TrimPrefix(member+strings.ReplaceAll(string(se.JSONPointer), "/", "."), ".")
		}
		return refuse(ErrSchema, member, "%v", err)
	}
	b, err := json.Marshal(dst, json.Deterministic(true))
	if err != nil {
		return refuse(ErrSchema, member, "%v", err)
	}
	if bytes.Equal(b, raw) {
		return nil
	}
	if b, err = jcs.Transform(b); err != nil || !bytes.Equal(b, raw) {
		return refuse(ErrSchema, member, "a member is missing, empty or written in another form")
	}
	return nil
}

// frame counts what one open object or array holds.
type frame struct {
	object bool
	n      int
}

// walk refuses what no artefact may hold: null, numbers that are not plain
// integers, keys outside [a-z0-9_]{1,64}, and anything over the limits. It
// does not recurse, and it allocates no values.
func walk(raw []byte, l Limits) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	var stack []frame
	path := make([]string, 0, l.Depth)
	for {
		kind := d.PeekKind()
		if kind == '{' || kind == '[' {
			if len(stack) == l.Depth {
				return refuse(ErrLimit, strings.Join(path, "."), "nested deeper than %d", l.Depth)
			}
		} else if len(stack) == 0 && d.InputOffset() == 0 {
			return refuse(ErrSyntax, "", "not an object")
		}
		before := d.InputOffset()
		tok, err := d.ReadToken()
		if err == io.EOF && len(stack) == 0 && before > 0 {
			return nil
		}
		if err != nil {
			return refuse(ErrSyntax, strings.Join(path, "."), "%v", err)
		}
		if len(stack) == 0 && before > 0 {
			return refuse(ErrSyntax, "", "a second value")
		}
		if stack, path, err = step(stack, path, tok, int(d.InputOffset()-before), l); err != nil {
			return err
		}
	}
}

// step takes one token into the walk.
func step(stack []frame, path []string, tok jsontext.Token, size int, l Limits) ([]frame, []string, error) {
	at := func() string { return strings.Join(path, ".") }
	kind := tok.Kind()
	if kind == '}' || kind == ']' {
		stack = stack[:len(stack)-1]
		if len(path) > len(stack) {
			path = path[:len(stack)]
		}
		return stack, path, nil
	}
	isName := false
	if n := len(stack); n > 0 {
		top := &stack[n-1]
		top.n++
		switch {
		case top.object && top.n > 2*l.Members:
			return nil, nil, refuse(ErrLimit, at(), "more than %d members", l.Members)
		case !top.object && top.n > l.Items:
			return nil, nil, refuse(ErrLimit, at(), "more than %d items", l.Items)
		}
		isName = top.object && top.n%2 == 1
	}
	switch kind {
	case 'n':
		return nil, nil, refuse(ErrSyntax, at(), "null is not allowed")
	case '"':
		if size > l.String+4 { // quotes, comma or colon
			return nil, nil, refuse(ErrLimit, at(), "a string over %d octets", l.String)
		}
		if isName {
			name := tok.String()
			path = append(path[:len(stack)-1], name)
			if !validKey(name, path, stack) {
				return nil, nil, refuse(ErrSyntax, at(), "member name not allowed")
			}
		}
	case '0':
		if !plainInteger(tok.String()) {
			return nil, nil, refuse(ErrSyntax, at(), "not a plain integer of at most 2^53-1")
		}
	case '{', '[':
		stack = append(stack, frame{object: kind == '{'})
		if len(path) < len(stack)-1 {
			path = append(path, "[]")
		}
	}
	return stack, path, nil
}

// validKey reports whether name may name a member. The members of the
// envelope's own "extensions" are named by domain and label instead.
func validKey(name string, path []string, stack []frame) bool {
	if len(stack) == 2 && len(path) == 2 && path[0] == "extensions" {
		return validExtension(name)
	}
	if len(name) == 0 || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// plainInteger reports whether s is written without fraction, exponent,
// leading zero or minus zero, and is at most MaxInteger in magnitude.
func plainInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if len(digits) == 0 || len(digits) > 16 || (digits[0] == '0' && (len(digits) > 1 || len(s) > 1)) {
		return false
	}
	var n uint64
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
		n = n*10 + uint64(digits[i]-'0')
	}
	return n <= MaxInteger
}
