package envelope

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"filippo.io/edwards25519"
)

// Ed25519 is the one signature algorithm of the profile, by its RFC 9864 name.
const Ed25519 = "Ed25519"

// A PublicKey is an Ed25519 key that was checked when it was loaded: 32
// octets, a canonical point, and not of small order.
type PublicKey struct {
	b  [ed25519.PublicKeySize]byte
	id Hash
}

// NewPublicKey checks b. A key of small order is refused because one fixed
// signature verifies under it for every message.
func NewPublicKey(b []byte) (PublicKey, error) {
	if len(b) != ed25519.PublicKeySize {
		return PublicKey{}, refuse(ErrKey, "", "%d octets, want %d", len(b), ed25519.PublicKeySize)
	}
	p, err := new(edwards25519.Point).SetBytes(b)
	if err != nil || !bytes.Equal(p.Bytes(), b) {
		return PublicKey{}, refuse(ErrKey, "", "not a canonical point")
	}
	if new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return PublicKey{}, refuse(ErrKey, "", "of small order")
	}
	k := PublicKey{id: TaggedHash("uzpif-oi/key-id/v1", []byte(Ed25519), []byte{0}, b)}
	copy(k.b[:], b)
	return k, nil
}

// ID is the key_id: SHA-256("uzpif-oi/key-id/v1" 00 alg 00 public_key).
func (k PublicKey) ID() Hash { return k.id }

// Bytes returns the 32 octets of the key.
func (k PublicKey) Bytes() []byte { return bytes.Clone(k.b[:]) }

// IsZero reports whether k is no key.
func (k PublicKey) IsZero() bool { return k == PublicKey{} }

// MarshalText writes the key in 43 characters of base64url, without padding.
func (k PublicKey) MarshalText() ([]byte, error) {
	if k.IsZero() {
		return nil, refuse(ErrKey, "", "no key")
	}
	return base64.RawURLEncoding.AppendEncode(nil, k.b[:]), nil
}

// UnmarshalText accepts what MarshalText writes, and checks the key.
func (k *PublicKey) UnmarshalText(text []byte) error {
	b, err := decodeBase64(string(text), ed25519.PublicKeySize)
	if err != nil {
		return refuse(ErrKey, "", "%v", err)
	}
	v, err := NewPublicKey(b)
	if err != nil {
		return err
	}
	*k = v
	return nil
}

// strictBase64 refuses bits behind the last octet that are not zero.
var strictBase64 = base64.RawURLEncoding.Strict()

// decodeBase64 decodes n octets of unpadded base64url and accepts only what
// encoding them again would print.
func decodeBase64(s string, n int) ([]byte, error) {
	if len(s) != base64.RawURLEncoding.EncodedLen(n) {
		return nil, fmt.Errorf("%d characters of base64url, want %d", len(s), base64.RawURLEncoding.EncodedLen(n))
	}
	// A line break is passed over, and so leaves less than n octets.
	b, err := strictBase64.DecodeString(s)
	if err != nil || len(b) != n {
		return nil, errors.New("not canonical base64url")
	}
	return b, nil
}

// A Use is what a key may sign.
type Use string

// The uses of a key; each key has exactly one.
const (
	UseEnvelope Use = "envelope" // artefacts
	UseLog      Use = "log"      // checkpoint notes
	UseTLS      Use = "tls"      // the session's handshake
	UseCard     Use = "card"     // the identity card itself
)

// A KeyRecord is what a verifier knows of a key: whose it is, for what, and
// for which epochs and times a signature by it counts.
type KeyRecord struct {
	Key                 PublicKey
	Identity            Name
	Authority           Name
	Use                 Use
	FirstEpoch          uint64
	LastEpoch           uint64    // 0: no end
	NotBefore, NotAfter time.Time // zero: no bound; NotAfter itself is too late
	// Lost says that the key may be in other hands. What it signed before is
	// still told by it; a KeySource for what is new leaves it out.
	Lost bool
}

// A KeySource finds a key by its id. It answers from the verifier's own trust,
// never from the object that is being verified.
type KeySource interface {
	LookupKey(id Hash) (KeyRecord, bool)
}

// verifies reports whether sig is k's signature of message.
func (k PublicKey) verifies(message, sig []byte) bool {
	return !k.IsZero() && ed25519.Verify(k.b[:], message, sig)
}

// counts reports whether a signature under r counts for an object of o's
// authority, type, epoch and time of issue. Validity is judged at issued_at, so
// that what a key signed outlives it; a key that is Lost is to be left out of the
// KeySource for what is new, since who holds it can set issued_at back.
func (r KeyRecord) counts(o *Object) bool {
	use := r.Use == UseEnvelope || (r.Use == UseCard && o.Type == IdentityCard)
	return use && r.Authority == o.Authority &&
		o.Epoch >= r.FirstEpoch && (r.LastEpoch == 0 || o.Epoch <= r.LastEpoch) &&
		(r.NotBefore.IsZero() || !o.IssuedAt.Before(r.NotBefore)) &&
		(r.NotAfter.IsZero() || o.IssuedAt.Before(r.NotAfter))
}
