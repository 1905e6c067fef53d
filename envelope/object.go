package envelope

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"slices"
	"strconv"
	"time"
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
	Export          Type = "export-manifest"            // UZPIF-OI 11
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
	case Export:
		return rule{"indexer", forbidden, true}, true
	case Receipt, Acknowledgement:
		return rule{"indexer", required, false}, true
	}
	return rule{}, false
}

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
	Raw                            []byte // the exact octets, in memory of their own but for AuthenticateInPlace

	signed [2]int // Raw without the octets between these is what is signed
}

// parts are what is signed, in two pieces.
func (o *Object) parts() (before, behind []byte) { return o.Raw[:o.signed[0]], o.Raw[o.signed[1]:] }

// Parse reads one envelope and makes every check that needs no key: size,
// syntax and canonical form, version, type, the envelope's schema, object_id,
// and the form and order of the signatures.
func Parse(raw []byte) (*Object, error) {
	if len(raw) > MaxSize { // told before they are copied
		return parse(raw)
	}
	return parse(bytes.Clone(raw))
}

// parse is Parse in place.
func parse(raw []byte) (*Object, error) {
	if err := checkCanonical(raw, artefactLimits); err != nil {
		return nil, err
	}
	if raw[0] != '{' {
		return nil, refuse(ErrSyntax, "", "not an object")
	}
	w, at, err := readWire(raw)
	// Version and type come before the schema, so that a later edition is
	// refused by its name and not by its members.
	if w.Version != Version {
		return nil, refuse(ErrVersion, "envelope_version", "%.40q", w.Version)
	}
	r, ok := ruleOf(w.Type)
	if !ok {
		return nil, refuse(ErrType, "object_type", "%.40q", string(w.Type))
	}
	if err != nil {
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
	if err := o.checkID(at); err != nil {
		return nil, err
	}
	if err := checkSignatureList(o.Signatures); err != nil {
		return nil, err
	}
	return o, nil
}

// checkSchema makes the checks of the envelope's schema that the decoding
// leaves open.
func (o *Object) checkSchema(r rule) error {
	if err := o.checkHead(r); err != nil {
		return err
	}
	return o.checkBodyNames(r)
}

// checkHead is checkSchema but for what stands in the body.
func (o *Object) checkHead(r rule) error {
	switch {
	case r.audience == required && o.Audience == "":
		return refuse(ErrSchema, "audience", "required for %s", o.Type)
	case r.audience == forbidden && o.Audience != "":
		return refuse(ErrSchema, "audience", "forbidden for %s", o.Type)
	case r.expires && o.ExpiresAt.IsZero():
		return refuse(ErrSchema, "expires_at", "required for %s", o.Type)
	case o.Body[0] != '{':
		return refuse(ErrSchema, "body", "not an object")
	}
	if !o.ExpiresAt.IsZero() && !o.start().Before(o.ExpiresAt) {
		return refuse(ErrSchema, "expires_at", "not after the beginning of validity")
	}
	return nil
}

// start is when o begins to be valid.
func (o *Object) start() time.Time {
	if o.NotBefore.IsZero() {
		return o.IssuedAt
	}
	return o.NotBefore
}

// checkBodyNames finds the signer that the body names, and refuses a body that
// uses a member name of the envelope.
func (o *Object) checkBodyNames(r rule) error {
	for m := range members(o.Body) {
		if isEnvelopeMember(string(m.name)) {
			return refuse(ErrSchema, "body."+string(m.name), "a member name of the envelope")
		}
		if string(m.name) != r.signer {
			continue
		}
		signer, err := ParseName(unquote(m.value))
		if err != nil {
			return refuse(ErrSchema, "body."+r.signer, "%v", err)
		}
		o.Signer = signer
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

// checkID recomputes object_id and notes which octets are signed. What is
// canonical stays so when a member is cut out, with the comma before it; the
// schema has put at least the body before these.
func (o *Object) checkID(at spans) error {
	upToID, between := o.Raw[:at.id.start-1], o.Raw[at.id.end:at.signatures.start-1]
	rest := o.Raw[at.signatures.end:]
	if objectID(upToID, between, rest) != o.ID {
		return refuse(ErrObjectID, "object_id", "")
	}
	o.signed = [2]int{at.signatures.start - 1, at.signatures.end}
	return nil
}

// objectID names the object whose canonical octets, without object_id and
// signatures, are parts put together.
func objectID(parts ...[]byte) Hash { return TaggedHash("uzpif-oi/object-id/v1", parts...) }

// checkSignatureList checks count, algorithm, form and order. Of one key there
// is one signature at most, since there is one algorithm.
func checkSignatureList(sigs []Signature) error {
	if len(sigs) == 0 || len(sigs) > MaxSignatures {
		return refuse(ErrSignatures, "signatures", "%d signatures, want 1 to %d", len(sigs), MaxSignatures)
	}
	for i, s := range sigs {
		at := "signatures." + strconv.Itoa(i)
		if s.Alg != Ed25519 {
			return refuse(ErrAlgorithm, at+".alg", "%.20q", s.Alg)
		}
		if s.KeyID.IsZero() {
			return refuse(ErrSignatures, at+".key_id", "names no key")
		}
		if _, err := decodeBase64(s.Sig, ed25519.SignatureSize); err != nil {
			return refuse(ErrSignatures, at+".sig", "%v", err)
		}
		if i > 0 && bytes.Compare(sigs[i-1].KeyID[:], s.KeyID[:]) >= 0 {
			return refuse(ErrSignatures, at+".key_id", "not strictly ascending")
		}
	}
	return nil
}

// signatureInput is what a signature covers; core, put together of its parts,
// includes object_id.
func signatureInput(key Hash, core ...[]byte) []byte {
	return appendSignatureInput(nil, key, core...)
}

// appendSignatureInput appends it to b, which is empty.
func appendSignatureInput(b []byte, key Hash, core ...[]byte) []byte {
	size := 0
	for _, part := range core {
		size += len(part)
	}
	b = appendSignatureHead(slices.Grow(b, signatureHead+size), key, size)
	for _, part := range core {
		b = append(b, part...)
	}
	return b
}

const signatureTag = "uzpif-oi/signature/v1"

// signatureHead is how many octets a signature covers before the core.
const signatureHead = len(signatureTag) + 1 + 2 + len(Ed25519) + 2 + hashText + 8

// appendSignatureHead appends them to b: tag, algorithm, key, and the size of the core.
func appendSignatureHead(b []byte, key Hash, size int) []byte {
	b = append(b, signatureTag...)
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(Ed25519)))
	b = append(b, Ed25519...)
	b = binary.BigEndian.AppendUint16(b, uint16(hashText))
	b, _ = key.AppendText(b)
	return binary.BigEndian.AppendUint64(b, uint64(size))
}

// DecodeBody decodes the body into dst, a pointer to a zero value, as
// DecodeCanonical does, then calls dst.Validate if it has one. After an error
// dst is not to be used.
//
// dst encoded again must give the very octets of the body. That closes the
// schema of every type that is built of structs, slices, arrays, pointers,
// strings, integers, booleans and the types of this package. The author of a
// body is left to
//
//   - give every member a field: a map, an interface or a jsontext.Value takes
//     any members (open maps travel as arrays of key and value);
//   - mark a member that may be absent omitzero or omitempty, which refuses it
//     when it is present although empty, and not to mark one that must be
//     present: an empty or nil slice is written as [], and [] is read back,
//     while a nil pointer is written as null, which no artefact holds;
//   - check in Validate what a type does not say: closed sets of words, ranges
//     of numbers, lengths and order of arrays, a zero Hash, what may stand
//     beside what. Only the Validate of dst itself is called, not those of its
//     fields.
//
// Fields need not stand in the order of their names; they are faster if they
// do. A dst with a method ReadBody is faster still: it may read a body by hand,
// with a Reader, and returns false, having changed nothing, for any that it does
// not read, which is then decoded as any other. It must not read a body in
// another way than that (FuzzReadEntry).
func (o *Object) DecodeBody(dst any) error {
	read := false
	if r, ok := dst.(interface{ ReadBody([]byte) bool }); ok {
		read = r.ReadBody(o.Body)
	}
	if !read {
		if err := decodeClosed(o.Body, dst, "body"); err != nil {
			return err
		}
	}
	if v, ok := dst.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return refuse(ErrSchema, "body", "%v", err)
		}
	}
	return nil
}
