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
	w := wire{
		Audience: h.Audience, Body: b, Version: Version, Epoch: h.Epoch, ExpiresAt: At(h.ExpiresAt),
		Extensions: h.Extensions, IssuedAt: At(h.IssuedAt), Authority: h.Authority, NotBefore: At(h.NotBefore),
		Type: h.Type, Sequence: h.Sequence, Subject: h.Subject,
	}
	bare, err := Canonical(w)
	if err != nil {
		return nil, err
	}
	w.ID = objectID(bare)
	core, err := Canonical(w)
	if err != nil {
		return nil, err
	}
	for _, s := range signers {
		id := s.public.ID()
		sig := ed25519.Sign(s.key, signatureInput(id, core))
		w.Signatures = append(w.Signatures, Signature{Alg: Ed25519, KeyID: id, Sig: base64.RawURLEncoding.EncodeToString(sig)})
	}
	slices.SortFunc(w.Signatures, func(a, b Signature) int { return bytes.Compare(a.KeyID[:], b.KeyID[:]) })
	raw, err := Canonical(w)
	if err != nil {
		return nil, err
	}
	o, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	again := reflect.New(reflect.Indirect(reflect.ValueOf(body)).Type())
	if err := o.DecodeBody(again.Interface()); err != nil {
		return nil, err
	}
	return o, nil
}
