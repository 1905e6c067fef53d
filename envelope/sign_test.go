package envelope

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestNothingIsSignedThatWouldNotOpen(t *testing.T) {
	s := rfcSigner(t, 0)
	head := func(edit func(h *Header)) Header {
		h := goodHeader()
		edit(&h)
		return h
	}
	type loose struct {
		Issuer Name  `json:"issuer"`
		When   *Time `json:"when"`
	}
	type timed struct {
		Issuer Name `json:"issuer"`
		When   Time `json:"when"`
	}
	ext := func(name string, data string) func(h *Header) {
		return func(h *Header) { h.Extensions = map[string]Extension{name: {Data: []byte(data)}} }
	}
	for _, tt := range []struct {
		name    string
		head    Header
		body    any
		signers []*Signer
		want    error
		member  string
	}{
		{"a note", goodHeader(), goodNote(), []*Signer{s}, nil, ""},
		{"a pointer to a note", goodHeader(), &note{Issuer: publisher}, []*Signer{s}, nil, ""},
		{"a body without a type of its own", goodHeader(), doc{"issuer": publisher, "n": 1}, []*Signer{s}, nil, ""},
		{"an extension", head(ext("a.example/x", `{"b":1,"a":[]}`)), goodNote(), []*Signer{s}, nil, ""},
		{"fractions of a second, which are dropped", head(func(h *Header) { h.IssuedAt = issued.Add(time.Millisecond) }), goodNote(), []*Signer{s}, nil, ""},
		{"no body", goodHeader(), nil, []*Signer{s}, ErrSyntax, "body"},
		{"a pointer to no body", goodHeader(), (*note)(nil), []*Signer{s}, ErrSyntax, "body"},
		{"a body that its own checks refuse", goodHeader(), note{Count: 1001, Issuer: publisher}, []*Signer{s}, ErrSchema, "body"},
		{"a body that cannot be written", goodHeader(), func() {}, []*Signer{s}, ErrSchema, "body"},
		{"a body without its signer", goodHeader(), note{}, []*Signer{s}, ErrSchema, "body.issuer"},
		{"a null inside the body", goodHeader(), loose{Issuer: publisher}, []*Signer{s}, ErrSyntax, "body.when"},
		{"an absent time that must be there", goodHeader(), timed{Issuer: publisher}, []*Signer{s}, ErrSchema, "body.when"},
		{"an integer that would be rounded", goodHeader(), doc{"issuer": publisher, "n": uint64(1<<53 + 1)}, []*Signer{s}, ErrSyntax, "body.n"},
		{"a fraction", goodHeader(), doc{"issuer": publisher, "n": 0.5}, []*Signer{s}, ErrSyntax, "body.n"},
		{"text that is not UTF-8", goodHeader(), note{Issuer: publisher, Hint: "\xff"}, []*Signer{s}, ErrSchema, "body.hint"},
		{"an epoch beyond 2^53-1", head(func(h *Header) { h.Epoch = MaxInteger + 1 }), goodNote(), []*Signer{s}, ErrSyntax, "epoch"},
		{"no type", head(func(h *Header) { h.Type = "" }), goodNote(), []*Signer{s}, ErrType, "object_type"},
		{"no subject", head(func(h *Header) { h.Subject = "" }), goodNote(), []*Signer{s}, ErrSchema, "subject"},
		{"a subject that is no name", head(func(h *Header) { h.Subject = "P1" }), goodNote(), []*Signer{s}, ErrSchema, "subject"},
		{"no time of issue", head(func(h *Header) { h.IssuedAt = time.Time{} }), goodNote(), []*Signer{s}, ErrSchema, "issued_at"},
		{"an expiry in the year 10000", head(func(h *Header) { h.ExpiresAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), goodNote(), []*Signer{s}, ErrSchema, "expires_at"},
		{"an extension under a plain name", head(ext("x", "1")), goodNote(), []*Signer{s}, ErrSyntax, "extensions"},
		{"an extension without data", head(ext("a.example/x", "")), goodNote(), []*Signer{s}, ErrSchema, "extensions.a.example/x.data"},
		{"an extension of broken data", head(ext("a.example/x", "{")), goodNote(), []*Signer{s}, ErrSchema, "extensions.a.example/x.data"},
		{"nobody's signature", goodHeader(), goodNote(), nil, ErrSignatures, "signatures"},
		{"one signer twice", goodHeader(), goodNote(), []*Signer{s, s}, ErrSignatures, "signatures.1.key_id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := Sign(tt.head, tt.body, tt.signers...)
			wantRefused(t, o, err, tt.want, tt.member)
		})
	}
}

func TestASignerKnowsItsOwnPublicKey(t *testing.T) {
	good, other := rfcSigner(t, 0).key, rfcSigner(t, 1).key
	for _, tt := range []struct {
		name string
		key  ed25519.PrivateKey
	}{
		{"31 octets of seed", good[:63]},
		{"no key", nil},
		{"the seed of one key and the public half of another", append(append(ed25519.PrivateKey{}, good[:32]...), other[32:]...)},
	} {
		if s, err := NewSigner(tt.key); s != nil || !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v, %v", tt.name, s, err)
		}
	}
	key := append(ed25519.PrivateKey{}, good...)
	s, err := NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	clear(key)
	if _, err := Sign(goodHeader(), goodNote(), s); err != nil {
		t.Errorf("after its owner wiped the key: %v", err)
	}
}

func TestASignerNeverPrintsItsKey(t *testing.T) {
	s := rfcSigner(t, 0)
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "signer", s, "value", *s)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "signer", s, "value", *s)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		fmt.Fprintf(&out, verb, s)
		fmt.Fprintf(&out, verb, *s)
		fmt.Fprintf(&out, verb, struct{ S *Signer }{s})
	}
	for _, secret := range []string{hex.EncodeToString(s.key[:4]), fmt.Sprint([]byte(s.key[:4]))[1:12]} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s stands in %s", secret, out.String())
		}
	}
}
