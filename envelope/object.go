package envelope

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the profile that this package reads and writes.
const Version = "uzpif-oi-env/1"

// A Type is an object_type.
type Type string

// The object types of the profile.
const (
	IdentityCard    Type = "identity-card"
	Policy          Type = "policy"
	DiscoveryGrant  Type = "discovery-grant"            // UZPIF-OI 10
	Feed            Type = "feed"                       // UZPIF-OI 10.2
	Announcement    Type = "announcement"               // UZPIF-OI 12.2
	BatchManifest   Type = "batch-manifest"             // UZPIF-OI 12.3
	Revocation      Type = "revocation"                 // UZPIF-OI 12.6
	Entry           Type = "index-transparency-entry"   // UZPIF-OI 9.1.2
	Checkpoint      Type = "signed-checkpoint"          // UZPIF-OI 9.1.3
	Receipt         Type = "indexer-receipt"            // UZPIF-OI 12.5.1
	Acknowledgement Type = "revocation-acknowledgement" // UZPIF-OI 12.6.1
)

// rule is what the envelope itself asks of a type.
type rule struct {
	signer   string // the body member that names the signer
	audience presence
	expires  bool // expires_at required
}

type presence int

const (
	forbidden presence = iota
	optional
	required
)

func ruleOf(t Type) (rule, bool) {
	switch t {
	case IdentityCard:
		return rule{"identity", forbidden, false}, true
	case Policy:
		return rule{"issuer", optional, false}, true
	case DiscoveryGrant:
		return rule{"issuer", required, true}, true
	case Feed:
		return rule{"issuer", forbidden, false}, true
	case Announcement:
		return rule{"publisher", required, true}, true
	case BatchManifest, Revocation:
		return rule{"publisher", required, false}, true
	case Entry, Checkpoint:
		return rule{"indexer", forbidden, false}, true
	case Receipt, Acknowledgement:
		return rule{"indexer", required, false}, true
	}
	return rule{}, false
}

// A Signature is one element of "signatures".
type Signature struct {
	Alg   string `json:"alg"`
	KeyID Hash   `json:"key_id"`
	Sig   string `json:"sig"`
}

// MaxSignatures is the most signatures that one envelope carries.
const MaxSignatures = 16

// An Object is an envelope whose form was checked. Only Open and Authenticate
// say anything about who signed it.
type Object struct {
	Type                           Type
	ID                             Hash
	Authority, Subject, Audience   Name // Audience is empty when absent
	Signer                         Name // the identity that the body names as signer
	Epoch, Sequence                uint64
	IssuedAt, NotBefore, ExpiresAt time.Time // zero when absent
	Body                           []byte    // canonical
	Extensions                     map[string]Extension
	Signatures                     []Signature
	Raw                            []byte // the exact octets
	core                           []byte // canonical, without signatures
}

// wire is the envelope as written. Its fields stand in canonical order.
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
	Signatures []Signature          `json:"signatures,omitempty"`
	Subject    Name                 `json:"subject"`
}

func (w *wire) encode() ([]byte, error) { return json.Marshal(w, json.Deterministic(true)) }

// Parse reads one envelope and makes every check that needs no key: size,
// syntax, canonical form, version, type, the envelope's schema, object_id, and
// the form and order of the signatures. raw must not be changed afterwards.
func Parse(raw []byte) (*Object, error) {
	if err := checkCanonical(raw, artefactLimits); err != nil {
		return nil, err
	}
	// Version and type come before the schema, so that a later edition is
	// refused by its name and not by its members.
	var head struct {
		Version string `json:"envelope_version"`
		Type    Type   `json:"object_type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, refuse(ErrSchema, "", "%v", err)
	}
	if head.Version != Version {
		return nil, refuse(ErrVersion, "envelope_version", "%.40q", head.Version)
	}
	r, ok := ruleOf(head.Type)
	if !ok {
		return nil, refuse(ErrType, "object_type", "%.40q", string(head.Type))
	}
	var w wire
	if err := decodeClosed(raw, &w, ""); err != nil {
		return nil, err
	}
	o := &Object{
		Type: w.Type, ID: w.ID, Authority: w.Authority, Subject: w.Subject, Audience: w.Audience,
		Epoch: w.Epoch, Sequence: w.Sequence,
		IssuedAt: w.IssuedAt.Time, NotBefore: w.NotBefore.Time, ExpiresAt: w.ExpiresAt.Time,
		Body: w.Body, Extensions: w.Extensions, Signatures: w.Signatures, Raw: raw,
	}
	if err := o.checkSchema(r); err != nil {
		return nil, err
	}
	if err := o.checkID(w); err != nil {
		return nil, err
	}
	return o, checkSignatureList(o.Signatures)
}

// checkSchema makes the checks of the envelope's schema that the decoding
// leaves open.
func (o *Object) checkSchema(r rule) error {
	switch {
	case r.audience == required && o.Audience == "":
		return refuse(ErrSchema, "audience", "required for %s", o.Type)
	case r.audience == forbidden && o.Audience != "":
		return refuse(ErrSchema, "audience", "forbidden for %s", o.Type)
	case r.expires && o.ExpiresAt.IsZero():
		return refuse(ErrSchema, "expires_at", "required for %s", o.Type)
	case o.Authority == "" || o.Subject == "":
		return refuse(ErrSchema, "", "issuer_authority and subject are required")
	case o.Epoch > MaxInteger || o.Sequence > MaxInteger:
		return refuse(ErrSchema, "epoch", "beyond 2^53-1")
	case len(o.Body) == 0 || o.Body[0] != '{':
		return refuse(ErrSchema, "body", "not an object")
	case o.ID.IsZero():
		return refuse(ErrSchema, "object_id", "missing")
	}
	start := o.IssuedAt
	if !o.NotBefore.IsZero() {
		start = o.NotBefore
	}
	if !o.ExpiresAt.IsZero() && !start.Before(o.ExpiresAt) {
		return refuse(ErrSchema, "expires_at", "not after the beginning of validity")
	}
	for name, x := range o.Extensions {
		if len(x.Data) == 0 {
			return refuse(ErrSchema, "extensions."+name, "no data")
		}
	}
	return o.checkBodyNames(r)
}

// checkBodyNames finds the signer that the body names, and refuses a body that
// uses a member name of the envelope.
func (o *Object) checkBodyNames(r rule) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(o.Body))
	if _, err := d.ReadToken(); err != nil {
		return refuse(ErrSchema, "body", "%v", err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return refuse(ErrSchema, "body", "%v", err)
		}
		key := name.String()
		if isEnvelopeMember(key) {
			return refuse(ErrSchema, "body."+key, "a member name of the envelope")
		}
		if key != r.signer {
			if err := d.SkipValue(); err != nil {
				return refuse(ErrSchema, "body."+key, "%v", err)
			}
			continue
		}
		v, err := d.ReadToken()
		if err != nil || v.Kind() != '"' {
			return refuse(ErrSchema, "body."+key, "not a name")
		}
		if o.Signer, err = ParseName(v.String()); err != nil {
			return refuse(ErrSchema, "body."+key, "%v", err)
		}
	}
	if o.Signer == "" {
		return refuse(ErrSchema, "body."+r.signer, "missing")
	}
	return nil
}

func isEnvelopeMember(s string) bool {
	switch s {
	case "audience", "body", "envelope_version", "epoch", "expires_at", "extensions", "issued_at",
		"issuer_authority", "not_before", "object_id", "object_type", "sequence", "signatures", "subject":
		return true
	}
	return false
}

// checkID recomputes object_id and keeps the octets that are signed.
func (o *Object) checkID(w wire) error {
	w.Signatures = nil
	core, err := w.encode()
	if err != nil {
		return refuse(ErrSchema, "", "%v", err)
	}
	w.ID = Hash{}
	bare, err := w.encode()
	if err != nil {
		return refuse(ErrSchema, "", "%v", err)
	}
	if objectID(bare) != o.ID {
		return refuse(ErrObjectID, "object_id", "")
	}
	o.core = core
	return nil
}

func objectID(bare []byte) Hash { return TaggedHash("uzpif-oi/object-id/v1", bare) }

// checkSignatureList checks count, algorithm, form and order.
func checkSignatureList(sigs []Signature) error {
	if len(sigs) == 0 || len(sigs) > MaxSignatures {
		return refuse(ErrSignatures, "signatures", "%d signatures, want 1 to %d", len(sigs), MaxSignatures)
	}
	for i, s := range sigs {
		if s.Alg != Ed25519 {
			return refuse(ErrAlgorithm, "signatures", "%.20q", s.Alg)
		}
		if _, err := decodeBase64(s.Sig, ed25519.SignatureSize); err != nil {
			return refuse(ErrSignatures, "signatures", "sig: %v", err)
		}
		if i > 0 && bytes.Compare(sigs[i-1].KeyID[:], s.KeyID[:]) >= 0 {
			return refuse(ErrSignatures, "signatures", "not strictly ascending by key_id")
		}
	}
	return nil
}

// signatureInput is what a signature covers; core includes object_id.
func signatureInput(key Hash, core []byte) []byte {
	const tag = "uzpif-oi/signature/v1"
	id := key.String()
	b := make([]byte, 0, len(tag)+1+2+len(Ed25519)+2+len(id)+8+len(core))
	b = append(b, tag...)
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(Ed25519)))
	b = append(b, Ed25519...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(id)))
	b = append(b, id...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(core)))
	return append(b, core...)
}

// DecodeBody decodes the body into dst under a closed schema (see
// DecodeCanonical), then calls dst.Validate if it has one.
func (o *Object) DecodeBody(dst any) error {
	if err := decodeClosed(o.Body, dst, "body"); err != nil {
		return err
	}
	if v, ok := dst.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return refuse(ErrSchema, "body", "%v", err)
		}
	}
	return nil
}
