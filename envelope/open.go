package envelope

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Skew is how far a clock may be ahead of ours: it is allowed on issued_at and
// not_before, and never on expiry.
const Skew = 120 * time.Second

// A Verifier is what the one who opens an object demands of it.
type Verifier struct {
	// Keys is the verifier's own trust. Signatures by keys of other identities
	// than the signer and Cosigners are checked but never counted.
	Keys KeySource
	// Now is the time at which validity is judged.
	Now time.Time
	// Type, when set, is the only type accepted.
	Type Type
	// Threshold is the number of distinct identities, the signer always among
	// them, that must have signed: from 1 to one more than there are distinct
	// Cosigners, and anything else is ErrConfig.
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
	if err := o.Fresh(v.Now); err != nil {
		return nil, err
	}
	return o, nil
}

// Authenticate is Open without the check of time: for what is judged as of
// another instant than now.
func Authenticate(raw []byte, body any, v Verifier) (*Object, error) {
	return authenticate(raw, body, v, Parse)
}

func authenticate(raw []byte, body any, v Verifier, parse func([]byte) (*Object, error)) (*Object, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	o, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if v.Type != "" && o.Type != v.Type {
		return nil, refuse(ErrType, "object_type", "%s, want %s", o.Type, v.Type)
	}
	if err := o.DecodeBody(body); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(o.Extensions)) {
		if o.Extensions[name].Critical && !slices.Contains(v.Extensions, name) {
			return nil, refuse(ErrExtension, "extensions."+name, "critical and unknown")
		}
	}
	if err := o.verify(v); err != nil {
		return nil, err
	}
	return o, nil
}

// AuthenticateInPlace is Authenticate for octets that nobody will change: the
// object refers to raw, and keeps all that raw is a part of in memory.
func AuthenticateInPlace(raw []byte, body any, v Verifier) (*Object, error) {
	return authenticate(raw, body, v, parse)
}

// check refuses a threshold that could be met by nobody, or by anybody.
func (v Verifier) check() error {
	most := 1
	for i, name := range v.Cosigners {
		if !slices.Contains(v.Cosigners[:i], name) {
			most++
		}
	}
	if v.Threshold < 1 || v.Threshold > most {
		return refuse(ErrConfig, "", "threshold %d of %d", v.Threshold, most)
	}
	if v.Keys == nil {
		return refuse(ErrConfig, "", "no keys")
	}
	return nil
}

// verify checks every signature by a known key, and counts the identities
// whose signatures count. The list holds each key once, and a key belongs to
// one identity, so each identity stands for a key of its own.
func (o *Object) verify(v Verifier) error {
	signed := make(map[Name]bool)
	before, behind := o.parts()
	var room [2048]byte // of most objects, which need no other
	input := room[:0]
	for i, s := range o.Signatures {
		rec, ok := v.Keys.LookupKey(s.KeyID)
		if !ok {
			continue // junk by an unknown key neither helps nor harms
		}
		if rec.Key.ID() != s.KeyID {
			return refuse(ErrConfig, "", "the key source answered with another key")
		}
		sig, err := decodeBase64(s.Sig, ed25519.SignatureSize)
		input = appendSignatureInput(input[:0], s.KeyID, before, behind)
		if err != nil || !rec.Key.verifies(input, sig) {
			return refuse(ErrSignature, "signatures."+strconv.Itoa(i), "by key %s", s.KeyID)
		}
		if rec.counts(o) && (rec.Identity == o.Signer || slices.Contains(v.Cosigners, rec.Identity)) {
			signed[rec.Identity] = true
		}
	}
	if !signed[o.Signer] {
		return refuse(ErrThreshold, "signatures", "no signature that counts by %s", o.Signer)
	}
	if len(signed) < v.Threshold {
		return refuse(ErrThreshold, "signatures", "%d of %d identities", len(signed), v.Threshold)
	}
	return nil
}

// Fresh checks the object's times against now. At now == expires_at it has
// expired.
func (o *Object) Fresh(now time.Time) error {
	switch start := o.start(); {
	case o.IssuedAt.After(now.Add(Skew)):
		return refuse(ErrIssuedAhead, "issued_at", "%s, now %s", At(o.IssuedAt), At(now))
	case start.After(now.Add(Skew)):
		return refuse(ErrNotYetValid, "not_before", "%s, now %s", At(start), At(now))
	case !o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt):
		return refuse(ErrExpired, "expires_at", "%s, now %s", At(o.ExpiresAt), At(now))
	}
	return nil
}
