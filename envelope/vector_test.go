package envelope

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// rfc8032 are the secret keys of tests 1 and 2 in RFC 8032, section 7.1.
var rfc8032 = []string{
	"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
	"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
}

type keyring map[Hash]KeyRecord

func (k keyring) LookupKey(id Hash) (KeyRecord, bool) { r, ok := k[id]; return r, ok }

func rfcSigner(t testing.TB, i int) *Signer {
	seed, err := hex.DecodeString(rfc8032[i])
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type sketch struct {
	Constraints jsontext.Value `json:"constraints"`
	Issuer      Name           `json:"issuer"`
	Purposes    []string       `json:"purposes"`
	Scope       jsontext.Value `json:"scope"`
}

func TestVectorReencodes(t *testing.T) {
	raw, err := os.ReadFile("testdata/vector-grant-two-signers.json")
	if err != nil {
		t.Fatal(err)
	}
	a, b := rfcSigner(t, 0), rfcSigner(t, 1)
	ring := keyring{}
	for _, s := range []*Signer{a, b} {
		ring[s.Public().ID()] = KeyRecord{Key: s.Public(), Identity: "urn:example:publisher:p1", Authority: "urn:example:authority:a", Use: UseEnvelope}
	}
	now := time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC)
	var body sketch
	o, err := Open(raw, &body, Expecting(DiscoveryGrant, ring, now))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := o.ID.String(), "sha256:d714a51e27eaff210627e1b53736ea567a055e160b85b8e8b65aec07ece85d45"; got != want {
		t.Errorf("object_id = %s, want %s", got, want)
	}
	again, err := Sign(Header{Type: o.Type, Authority: o.Authority, Subject: o.Subject, Audience: o.Audience,
		Epoch: o.Epoch, Sequence: o.Sequence, IssuedAt: o.IssuedAt, ExpiresAt: o.ExpiresAt}, body, b, a)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Raw, raw) {
		t.Errorf("signed again:\n%s\nwant\n%s", again.Raw, raw)
	}
}
