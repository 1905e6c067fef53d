package envelope

import (
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A Signature is one element of "signatures".
type Signature struct {
	Alg   string `json:"alg"`
	KeyID Hash   `json:"key_id"`
	Sig   string `json:"sig"`
}

// MaxSignatures is the most signatures that one envelope carries.
const MaxSignatures = 16

// wire is the envelope as written: what Sign encodes, and readWire reads. Its
// fields stand in canonical order.
type wire struct {
	Audience   Name                 `json:"audience,omitempty"`
	Body       jsontext.Value       `json:"body"`
	Version    string               `json:"envelope_version"`
	Epoch      uint64               `json:"epoch"`
	ExpiresAt  Time                 `json:"expires_at,omitzero"`
	Extensions map[string]Extension `json:"extensions,omitempty"`
	IssuedAt   Time                 `json:"issued_at"`
	Authority  Name                 `json:"issuer_authority"`
	NotBefore  Time                 `json:"not_before,omitzero"`
	ID         Hash                 `json:"object_id,omitzero"`
	Type       Type                 `json:"object_type"`
	Sequence   uint64               `json:"sequence"`
	Signatures []Signature          `json:"signatures,omitzero"`
	Subject    Name                 `json:"subject"`
}

// spans are where two members of an envelope stand.
type spans struct{ id, signatures member }

// always are the members that every envelope has, in canonical order.
func always() []string {
	return []string{"body", "envelope_version", "epoch", "issued_at", "issuer_authority", "object_id", "object_type", "sequence", "signatures", "subject"}
}

// readWire reads an envelope from canonical octets, which it refers to. Each
// value is accepted only as it would be written, so the schema is as closed as
// that of decodeClosed, which reads the same (FuzzParse), and slower. Beside an
// error it returns what it could read.
func readWire(raw []byte) (w wire, at spans, err error) {
	missing := always()
	for m := range members(raw) {
		if fault := w.read(m.name, m.value); fault != nil && err == nil {
			err = within(string(m.name), asRefusal(fault))
		}
		switch string(m.name) {
		case "object_id":
			at.id = m
		case "signatures":
			at.signatures = m
		}
		if len(missing) > 0 && string(m.name) == missing[0] {
			missing = missing[1:]
		}
	}
	if len(missing) > 0 && err == nil {
		kind := ErrSchema
		if missing[0] == "signatures" {
			kind = ErrSignatures
		}
		err = refuse(kind, missing[0], "missing")
	}
	return w, at, err
}

// asRefusal is err as a refusal of the schema, if it is none yet.
func asRefusal(err error) error {
	if _, ok := err.(*Error); ok {
		return err
	}
	return refuse(ErrSchema, "", "%v", err)
}

// read reads one member.
func (w *wire) read(name []byte, value jsontext.Value) (err error) {
	switch string(name) {
	case "audience":
		w.Audience, err = ParseName(unquote(value))
	case "body":
		w.Body = value
	case "envelope_version":
		if w.Version = Version; string(inside(value)) != Version {
			w.Version = unquote(value)
		}
	case "epoch":
		w.Epoch, err = strconv.ParseUint(string(value), 10, 64)
	case "expires_at":
		w.ExpiresAt, err = timeIn(value)
	case "extensions":
		w.Extensions, err = readExtensions(value)
	case "issued_at":
		w.IssuedAt, err = timeIn(value)
	case "issuer_authority":
		w.Authority, err = ParseName(unquote(value))
	case "not_before":
		w.NotBefore, err = timeIn(value)
	case "object_id":
		if w.ID, err = hashIn(value); err == nil && w.ID.IsZero() {
			err = errors.New("names no object")
		}
	case "object_type":
		w.Type = Type(unquote(value))
	case "sequence":
		w.Sequence, err = strconv.ParseUint(string(value), 10, 64)
	case "signatures":
		w.Signatures, err = readSignatures(value)
	case "subject":
		w.Subject, err = ParseName(unquote(value))
	default:
		err = errors.New("unknown")
	}
	return err
}

// hashIn is the hash that the string v is.
func hashIn(v jsontext.Value) (Hash, error) {
	if h, ok := readHash(inside(v)); ok {
		return h, nil
	}
	return ParseHash(unquote(v))
}

// timeIn is the time that the string v is.
func timeIn(v jsontext.Value) (Time, error) {
	if t, ok := readTime(inside(v)); ok {
		return t, nil
	}
	return ParseTime(unquote(v))
}

func readExtensions(value jsontext.Value) (map[string]Extension, error) {
	extensions := make(map[string]Extension)
	for m := range members(value) {
		var x Extension
		if err := decodeClosed(m.value, &x, ""); err != nil {
			return nil, within(string(m.name), err)
		}
		extensions[string(m.name)] = x
	}
	if len(extensions) == 0 {
		return nil, errors.New("no extensions, or no object")
	}
	return extensions, nil
}

// readSignatures reads the members of each signature; checkSignatureList looks
// at their values.
func readSignatures(value jsontext.Value) ([]Signature, error) {
	if value[0] != '[' {
		return nil, errors.New("not an array")
	}
	var list []Signature
	for item := range items(value) {
		var s Signature
		err := s.read(item)
		if err != nil {
			return nil, within(strconv.Itoa(len(list)), asRefusal(err))
		}
		list = append(list, s)
	}
	return list, nil
}

func (s *Signature) read(value []byte) (err error) {
	n := 0
	for m := range members(value) {
		switch string(m.name) {
		case "alg":
			if s.Alg = Ed25519; string(inside(m.value)) != Ed25519 {
				s.Alg = unquote(m.value)
			}
		case "key_id":
			s.KeyID, err = hashIn(m.value)
		case "sig":
			s.Sig = unquote(m.value)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return within(string(m.name), asRefusal(err))
		}
		n++
	}
	if n != 3 {
		return errors.New("not exactly alg, key_id and sig")
	}
	return nil
}
