package envelope

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzOpen opens any octets under a trust of two keys, as they are and with the
// object_id that is their due: whatever opens is one object that its parts encode
// to, and whose body its own fields encode to.
func FuzzOpen(f *testing.F) {
	raw := goodGrant(f)
	f.Add(raw)
	f.Add(forge(f, func(d doc) {
		d["extensions"] = doc{"a.example/x": doc{"critical": false, "data": []any{1, "y"}}}
		d["not_before"] = "2026-03-17T00:00:00Z"
	}, rfcSigner(f, 0), rfcSigner(f, 1), newSigner(f, 0)))
	f.Add(bytes.Replace(raw, []byte(`"count":3`), []byte(`"count":3,"hint":""`), 1))
	f.Add(bytes.Replace(raw, []byte(`"alg":"Ed25519"`), []byte(`"alg":"none"`), 1))
	v := Expecting(DiscoveryGrant, trustIn(record(rfcSigner(f, 0)), record(rfcSigner(f, 1))), noon)
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkOpened(t, raw, v)
		if mended, ok := mend(raw); ok {
			checkOpened(t, mended, v)
		}
	})
}

func checkOpened(t *testing.T, raw []byte, v Verifier) {
	before := bytes.Clone(raw)
	var body note
	o, err := Open(raw, &body, v)
	if !bytes.Equal(raw, before) {
		t.Fatalf("opening changed what was opened: %s", before)
	}
	if err != nil {
		if e := (*Error)(nil); o != nil || !errors.As(err, &e) {
			t.Fatalf("refused with an object, or without a kind: %v", err)
		}
		return
	}
	again, err := Canonical(wire{
		Audience: o.Audience, Body: o.Body, Version: Version, Epoch: o.Epoch, ExpiresAt: At(o.ExpiresAt), Extensions: o.Extensions,
		IssuedAt: At(o.IssuedAt), Authority: o.Authority, NotBefore: At(o.NotBefore), ID: o.ID, Type: o.Type,
		Sequence: o.Sequence, Signatures: o.Signatures, Subject: o.Subject,
	})
	if err != nil || !bytes.Equal(again, raw) {
		t.Fatalf("opened\n%s\nencodes as\n%s, %v", raw, again, err)
	}
	if inner, err := Canonical(&body); err != nil || !bytes.Equal(inner, o.Body) {
		t.Fatalf("body\n%s\nencodes as\n%s, %v", o.Body, inner, err)
	}
	if body.Issuer != o.Signer || o.Signer != publisher {
		t.Fatalf("opened in the name of %s, by %s", body.Issuer, o.Signer)
	}
}

// FuzzFlippedBit signs what the fuzzer makes up, flips one bit of it, and finds
// that it opens no more.
func FuzzFlippedBit(f *testing.F) {
	f.Add(uint64(3), "", "rag search", uint64(7), "", uint32(0))
	f.Add(uint64(0), "é\x00\"\\", "", uint64(MaxInteger), `{"k":[1,true]}`, uint32(4711))
	f.Add(uint64(1000), strings.Repeat("x", 900), "a b c", uint64(0), `"y"`, uint32(1<<31))
	s := rfcSigner(f, 0)
	v := Expecting(DiscoveryGrant, trustIn(record(s)), noon)
	f.Fuzz(func(t *testing.T, count uint64, hint, tags string, sequence uint64, data string, bit uint32) {
		h := goodHeader()
		h.Sequence = sequence
		if data != "" {
			h.Extensions = map[string]Extension{"a.example/x": {Data: jsontext.Value(data)}}
		}
		o, err := Sign(h, note{Count: count, Hint: hint, Issuer: publisher, Tags: strings.Fields(tags)}, s)
		if err != nil {
			return // what was made up is not signed; nothing is then to be opened
		}
		if _, err := Open(o.Raw, new(note), v); err != nil {
			t.Fatalf("signed, and does not open: %v: %s", err, o.Raw)
		}
		flipped := bytes.Clone(o.Raw)
		at := int(bit) % (8 * len(flipped))
		flipped[at/8] ^= 1 << (at % 8)
		if o, err := Open(flipped, new(note), v); err == nil || o != nil {
			t.Fatalf("with bit %d of octet %d flipped it opens: %s", at%8, at/8, flipped)
		}
	})
}

// FuzzDecode holds decoding and encoding against one another, and the encoder
// against RFC 8785 as another wrote it.
func FuzzDecode(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"count":3,"issuer":"urn:example:publisher:p1","tags":["rag"]}`))
	f.Add([]byte(`{"count":3,"hint":"x","issuer":"spiffe://a","tags":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var n note
		if DecodeCanonical(raw, &n) == nil {
			if again, err := Canonical(&n); err != nil || !bytes.Equal(again, raw) {
				t.Fatalf("%s was read as %+v, which is written as %s, %v", raw, n, again, err)
			}
		}
		var any jsontext.Value
		if err := DecodeCanonicalWithin(raw, &any, narrow); (err == nil) != (checkCanonical(raw, narrow) == nil) {
			t.Fatalf("%s: %v, and %v", raw, err, checkCanonical(raw, narrow))
		}
		written, err := Canonical(jsontext.Value(raw))
		if err != nil {
			return
		}
		other := jsontext.Value(bytes.Clone(raw))
		if err := other.Canonicalize(); err != nil || !bytes.Equal(other, written) {
			t.Fatalf("%s is written as %s; by jsontext, %s, %v", raw, written, other, err)
		}
		if again, err := Canonical(jsontext.Value(written)); err != nil || !bytes.Equal(again, written) {
			t.Fatalf("%s is written as %s when it is written again, %v", written, again, err)
		}
	})
}
