package envelope

import (
	"crypto/ed25519"
	"encoding/base64"
	"time"
)

// Skew is how far a clock may be ahead of ours: it is allowed on issued_at and
// not_before, and never on expiry.
const Skew = 120 * time.Second

// A Verifier is what the one who opens an object demands of it.
type Verifier struct {
	// Keys is the verifier's own trust. Keys of other identities than the
	// signer and Cosigners are checked but never counted.
	Keys KeySource
	// Now is the time at which validity is judged.
	Now time.Time
	// Type, when set, is the only type accepted.
	Type Type
	// Threshold is the number of distinct identities, the signer always among
	// them, that must have signed. One or more; more than 1 + len(Cosigners)
	// is a configuration error.
	Threshold int
	// Cosigners are the identities that count beside the signer.
	Cosigners []Name
	// Extensions are the critical extensions that the caller understands.
	Extensions []string
}

// Expecting is a Verifier for objects of type t that their signer alone signs.
func Expecting(t Type, keys KeySource, now time.Time) Verifier {
	return Verifier{Keys: keys, Now: now, Type: t, Threshold: 1}
}

// Open parses raw, decodes its body into body, and verifies who signed it and
// that it is valid at v.Now. It tells that the object is authentic and fresh;
// whether it is bound to this session, and eligible under scope and policy, is
// for the caller to check (UZPIF-OI 9.1.4).
func Open(raw []byte, body any, v Verifier) (*Object, error) {
	o, err := Authenticate(raw, body, v)
	if err != nil {
		return nil, err
	}
	return o, o.Fresh(v.Now)
}

// Authenticate is Open without the check of time: for what is judged as of
// another instant than now.
func Authenticate(raw []byte, body any, v Verifier) (*Object, error) {
	if v.Threshold < 1 || v.Threshold > 1+len(v.Cosigners) || v.Keys == nil {
		return nil, refuse(ErrConfig, "", "threshold %d of %d", v.Threshold, 1+len(v.Cosigners))
	}
	o, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	if v.Type != "" && o.Type != v.Type {
		return nil, refuse(ErrType, "object_type", "%s, want %s", o.Type, v.Type)
	}
	if err := o.DecodeBody(body); err != nil {
		return nil, err
	}
	for name, x := range o.Extensions {
		if x.Critical && !contains(v.Extensions, name) {
			return nil, refuse(ErrExtension, "extensions."+name, "critical and unknown")
		}
	}
	return o, o.verify(v)
}

// verify checks every signature by a known key, and counts those that count.
func (o *Object) verify(v Verifier) error {
	signed := make(map[Name]Hash)
	for _, s := range o.Signatures {
		rec, ok := v.Keys.LookupKey(s.KeyID)
		if !ok {
			continue // junk by an unknown key neither helps nor harms
		}
		if rec.Key.ID() != s.KeyID {
			return refuse(ErrConfig, "", "the key source answered with another key")
		}
		sig, err := base64.RawURLEncoding.DecodeString(s.Sig)
		if err != nil || !ed25519.Verify(rec.Key.b[:], signatureInput(s.KeyID, o.core), sig) {
			return refuse(ErrSignature, "signatures", "by key %s", s.KeyID)
		}
		if rec.counts(o) && (rec.Identity == o.Signer || contains(v.Cosigners, rec.Identity)) {
			signed[rec.Identity] = s.KeyID
		}
	}
	if _, ok := signed[o.Signer]; !ok {
		return refuse(ErrThreshold, "signatures", "no valid signature by %s", o.Signer)
	}
	if len(signed) < v.Threshold {
		return refuse(ErrThreshold, "signatures", "%d of %d identities", len(signed), v.Threshold)
	}
	return nil
}

// Fresh checks the object's times against now. At now == expires_at it has
// expired.
func (o *Object) Fresh(now time.Time) error {
	start := o.NotBefore
	if start.IsZero() {
		start = o.IssuedAt
	}
	switch {
	case o.IssuedAt.After(now.Add(Skew)):
		return refuse(ErrIssuedAhead, "issued_at", "%s, now %s", At(o.IssuedAt), At(now))
	case start.After(now.Add(Skew)):
		return refuse(ErrNotYetValid, "not_before", "%s, now %s", At(start), At(now))
	case !o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt):
		return refuse(ErrExpired, "expires_at", "%s, now %s", At(o.ExpiresAt), At(now))
	}
	return nil
}

func contains[T comparable](s []T, v T) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}
