package envelope

import (
	"bytes"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/expanded"
)

// A Signer holds one private key.
type Signer struct {
	key    ed25519.PrivateKey
	many   *expanded.PrivateKey // by the same key
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
	return &Signer{derived, expanded.NewPrivateKey(derived), public}, nil
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

// signed is an envelope as sign makes it.
type signed struct {
	id         Hash
	signatures []Signature
	raw        []byte
	cut        [2]int // where they stand in raw, with the comma before them
	body       []byte // in raw
}

// sign writes h and body, and signs.
func sign(h Header, body []byte, signers []*Signer) (signed, error) {
	if len(signers) == 0 {
		return signed{}, refuse(ErrSignatures, "signatures", "nobody signs")
	}
	m := workspaces.Get().(*workspace)
	defer m.giveBack()
	d := &m.drafts[0]
	if err := d.compose(&h, body, signers[0].public.ID(), &m.encoder); err != nil {
		return signed{}, err
	}
	signatures := make([]Signature, 0, len(signers))
	for _, s := range signers {
		key := s.public.ID()
		d.address(key)
		signatures = append(signatures, Signature{Ed25519, key, base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.key, d.input))})
	}
	slices.SortFunc(signatures, func(a, b Signature) int { return bytes.Compare(a.KeyID[:], b.KeyID[:]) })
	return d.finish(nil, signatures), nil
}

// A draft is an envelope without its signatures.
type draft struct {
	input    []byte // what one of the signers signs: a head, and the envelope
	id       Hash
	body, at int // where the body and the signatures are to begin, behind the head
	length   int // of the body
}

// compose writes h and body as the holder of key signs them, in d's memory. Each octet
// is written once, and copied to where it is hashed; finish copies it to where it
// stays.
func (d *draft) compose(h *Header, body []byte, key Hash, e *Encoder) error {
	w := wire{
		Audience: h.Audience, Body: body, Version: Version, Epoch: h.Epoch, ExpiresAt: At(h.ExpiresAt),
		Extensions: h.Extensions, IssuedAt: At(h.IssuedAt), Authority: h.Authority, NotBefore: At(h.NotBefore),
		Type: h.Type, Sequence: h.Sequence, Subject: h.Subject,
	}
	o, err := w.encode(e)
	if err != nil {
		return err
	}
	const id = len(`,"object_id":""`) + hashText
	d.id = objectID(o.b)
	b := appendSignatureHead(d.input[:0], key, len(o.b)+id)
	b = append(append(b, o.b[:o.id]...), `,"object_id":"`...)
	b, _ = d.id.AppendText(b)
	d.input = append(append(b, '"'), o.b[o.id:]...)
	d.body, d.at, d.length = o.body, o.signatures+id, len(body)
	return nil
}

// address makes another key than that of before the one that signs.
func (d *draft) address(key Hash) { appendSignatureHead(d.input[:0], key, len(d.input)-signatureHead) }

// size is how many octets the envelope has with n signatures.
func (d *draft) size(n int) int { return len(d.input) - signatureHead + signaturesSize(n) }

// finish puts the envelope together, with its signatures, and appends it to b.
func (d *draft) finish(b []byte, signatures []Signature) signed {
	core, start := d.input[signatureHead:], len(b)
	b = slices.Grow(b, d.size(len(signatures)))
	b = appendSignatures(append(b, core[:d.at]...), signatures)
	cut := [2]int{d.at, len(b) - start}
	b = append(b, core[d.at:]...)
	raw := b[start:len(b):len(b)]
	return signed{d.id, signatures, raw, cut, raw[d.body : d.body+d.length : d.body+d.length]}
}
