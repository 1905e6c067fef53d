package envelope

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"time"
)

// A Signer holds one private key.
type Signer struct {
	key    ed25519.PrivateKey
	public PublicKey
}

// NewSigner copies key. A key whose public half is not that of its seed is
// refused: a signature by it would give the seed away.
func NewSigner(key ed25519.PrivateKey) (*Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, refuse(ErrKey, "", "%d octets, want %d", len(key), ed25519.PrivateKeySize)
	}
	derived := ed25519.NewKeyFromSeed(key.Seed())
	if subtle.ConstantTimeCompare(derived, key) != 1 {
		return nil, refuse(ErrKey, "", "public half of another seed")
	}
	public, err := NewPublicKey(derived[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
	if err != nil {
		return nil, err
	}
	return &Signer{derived, public}, nil
}

// Format prints the key_id, whatever the verb, and so never the private key.
func (s Signer) Format(f fmt.State, _ rune) { io.WriteString(f, s.public.ID().String()) }

// Public is the key that verifies what s signs.
func (s *Signer) Public() PublicKey { return s.public }

// A Header is what an envelope holds beside body and signatures.
type Header struct {
	Type                           Type
	Authority, Subject, Audience   Name
	Epoch, Sequence                uint64
	IssuedAt, NotBefore, ExpiresAt time.Time // whole seconds are kept
	Extensions                     map[string]Extension
}

// Sign encodes h and body, signs them with every signer, parses the result, and
// decodes the body again into a value of its own type, so that nothing leaves
// that another would refuse for its form. Whether the signers are those who
// must sign is not its business.
func Sign(h Header, body any, signers ...*Signer) (*Object, error) {
	b, err := Canonical(body)
	if err != nil {
		return nil, within("body", err)
	}
	d, err := sign(h, b, signers)
	if err != nil {
		return nil, err
	}
	o, err := Parse(d.raw)
	if err != nil {
		return nil, err
	}
	again := reflect.New(reflect.Indirect(reflect.ValueOf(body)).Type())
	if err := o.DecodeBody(again.Interface()); err != nil {
		return nil, err
	}
	return o, nil
}

// SignBody is Sign for a body that an Encoder wrote, and names signer as the one
// who signs. It reads nothing again, which halves the time: that Parse would
// return the same is held by TestSignBodyIsSign, and that the body can be
// decoded is for the caller to hold. There are no extensions. The body is copied.
func SignBody(h Header, body []byte, signer Name, s *Signer) (*Object, error) {
	r, known := ruleOf(h.Type)
	switch {
	case !known:
		return nil, refuse(ErrType, "object_type", "%.40q", string(h.Type))
	case len(h.Extensions) > 0:
		return nil, refuse(ErrSchema, "extensions", "not written here")
	}
	for _, n := range []Name{h.Authority, h.Subject, signer, cmp.Or(h.Audience, signer)} {
		if _, err := ParseName(string(n)); err != nil {
			return nil, refuse(ErrSchema, "", "%v", err)
		}
	}
	d, err := sign(h, body, []*Signer{s})
	if err != nil {
		return nil, err
	}
	if len(d.raw) > MaxSize {
		return nil, refuse(ErrSize, "", "%d octets, at most %d", len(d.raw), MaxSize)
	}
	o := &Object{
		Type: h.Type, ID: d.id, Authority: h.Authority, Subject: h.Subject, Audience: h.Audience, Signer: signer,
		Epoch: h.Epoch, Sequence: h.Sequence,
		IssuedAt: At(h.IssuedAt).Time, NotBefore: At(h.NotBefore).Time, ExpiresAt: At(h.ExpiresAt).Time,
		Body: d.body, Signatures: d.signatures, Raw: d.raw, signed: d.cut,
	}
	if err := o.checkHead(r); err != nil {
		return nil, err
	}
	return o, nil
}

// signed is an envelope as sign makes it.
type signed struct {
	id         Hash
	signatures []Signature
	raw        []byte
	cut        [2]int // where they stand in raw, with the comma before them
	body       []byte // in raw
}

// sign writes h and body, and signs. Each octet is written once, and copied to
// where it is hashed and to where it stays.
func sign(h Header, body []byte, signers []*Signer) (signed, error) {
	w := wire{
		Audience: h.Audience, Body: body, Version: Version, Epoch: h.Epoch, ExpiresAt: At(h.ExpiresAt),
		Extensions: h.Extensions, IssuedAt: At(h.IssuedAt), Authority: h.Authority, NotBefore: At(h.NotBefore),
		Type: h.Type, Sequence: h.Sequence, Subject: h.Subject,
	}
	m := workspaces.Get().(*workspace)
	defer m.giveBack()
	o, err := w.encode(&m.encoder)
	if err != nil {
		return signed{}, err
	}
	d := signed{id: objectID(o.b)}
	core := append(append(m.core[:0], o.b[:o.id]...), `,"object_id":"`...)
	core, _ = d.id.AppendText(core)
	core = append(append(core, '"'), o.b[o.id:]...)
	for _, s := range signers {
		key := s.public.ID()
		m.input = appendSignatureInput(m.input[:0], key, core)
		sig := ed25519.Sign(s.key, m.input)
		d.signatures = append(d.signatures, Signature{Alg: Ed25519, KeyID: key, Sig: base64.RawURLEncoding.EncodeToString(sig)})
	}
	slices.SortFunc(d.signatures, func(a, b Signature) int { return bytes.Compare(a.KeyID[:], b.KeyID[:]) })
	at := len(core) - (len(o.b) - o.signatures)
	d.raw = make([]byte, 0, len(core)+len(`,"signatures":[]`)+256*len(d.signatures))
	d.raw = appendSignatures(append(d.raw, core[:at]...), d.signatures)
	d.cut = [2]int{at, len(d.raw)}
	d.raw = append(d.raw, core[at:]...)
	d.body = d.raw[o.body : o.body+len(body) : o.body+len(body)]
	m.core = core
	return d, nil
}

// A workspace is the memory in which an envelope is put together and hashed: a log signs
// tens of thousands a second.
type workspace struct {
	encoder     Encoder
	core, input []byte
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// giveBack lends m to the next, unless a large envelope made it large.
func (m *workspace) giveBack() {
	if len(m.core) <= 16<<10 {
		workspaces.Put(m)
	}
}
