package envelope

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"time"
)

// A Signer holds one private key.
type Signer struct {
	key    ed25519.PrivateKey
	public PublicKey
}

// NewSigner checks the key's public half.
func NewSigner(key ed25519.PrivateKey) (*Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, refuse(ErrKey, "", "%d octets, want %d", len(key), ed25519.PrivateKeySize)
	}
	public, err := NewPublicKey(key[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
	if err != nil {
		return nil, err
	}
	return &Signer{key, public}, nil
}

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

// Sign encodes h and body, signs them with every signer, and parses the result
// again, so that nothing leaves that another would refuse.
func Sign(h Header, body any, signers ...*Signer) (*Object, error) {
	b, err := Canonical(body)
	if err != nil {
		return nil, refuse(ErrSchema, "body", "%v", err)
	}
	w := wire{
		Audience: h.Audience, Body: b, Version: Version, Epoch: h.Epoch, ExpiresAt: At(h.ExpiresAt),
		Extensions: h.Extensions, IssuedAt: At(h.IssuedAt), Authority: h.Authority, NotBefore: At(h.NotBefore),
		Type: h.Type, Sequence: h.Sequence, Subject: h.Subject,
	}
	bare, err := w.encode()
	if err != nil {
		return nil, refuse(ErrSchema, "", "%v", err)
	}
	w.ID = objectID(bare)
	core, err := w.encode()
	if err != nil {
		return nil, refuse(ErrSchema, "", "%v", err)
	}
	for _, s := range signers {
		id := s.public.ID()
		sig := ed25519.Sign(s.key, signatureInput(id, core))
		w.Signatures = append(w.Signatures, Signature{Alg: Ed25519, KeyID: id, Sig: base64.RawURLEncoding.EncodeToString(sig)})
	}
	slices.SortFunc(w.Signatures, func(a, b Signature) int { return bytes.Compare(a.KeyID[:], b.KeyID[:]) })
	raw, err := w.encode()
	if err != nil {
		return nil, refuse(ErrSchema, "", "%v", err)
	}
	return Parse(raw)
}
