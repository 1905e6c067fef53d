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
	// What follows is put in where it belongs, and nothing is encoded again:
	// Parse finds whatever would be out of place.
	id := objectID(bare)
	core := insert(bare, "object_type", `"object_id":"`+id.String()+`",`)
	var sigs []Signature
	for _, s := range signers {
		key := s.public.ID()
		sig := ed25519.Sign(s.key, signatureInput(key, core))
		sigs = append(sigs, Signature{Alg: Ed25519, KeyID: key, Sig: base64.RawURLEncoding.EncodeToString(sig)})
	}
	slices.SortFunc(sigs, func(a, b Signature) int { return bytes.Compare(a.KeyID[:], b.KeyID[:]) })
	list := []byte(`"signatures":[`)
	for i, s := range sigs {
		if i > 0 {
			list = append(list, ',')
		}
		list = fmt.Appendf(list, `{"alg":"%s","key_id":"%s","sig":"%s"}`, s.Alg, s.KeyID, s.Sig)
	}
	raw := insert(core, "subject", string(append(list, "],"...)))
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

// insert copies the object in canonical with text in front of its member before,
// which it has.
func insert(canonical []byte, before, text string) []byte {
	at := len(canonical)
	for m := range members(canonical) {
		if string(m.name) == before {
			at = m.start
		}
	}
	b := make([]byte, 0, len(canonical)+len(text))
	return append(append(append(b, canonical[:at]...), text...), canonical[at:]...)
}
