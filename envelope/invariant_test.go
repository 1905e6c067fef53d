package envelope

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOneFlippedBitNeverOpens(t *testing.T) {
	raw := goodGrant(t)
	v := Expecting(DiscoveryGrant, trustIn(record(rfcSigner(t, 0))), noon)
	if _, err := Open(raw, new(note), v); err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		raw[i/8] ^= 1 << (i % 8)
		if o, err := Open(raw, new(note), v); err == nil || o != nil {
			t.Errorf("bit %d of octet %d flipped, and it opens: %s", i%8, i/8, raw)
		}
		raw[i/8] ^= 1 << (i % 8)
	}
}

// FuzzParse shows that whatever parses is what its parts encode to.
func FuzzParse(f *testing.F) {
	f.Add(goodGrant(f))
	f.Add(forge(f, func(d doc) {
		d["object_type"], d["body"] = IdentityCard, doc{"identity": publisher, "x": []any{}}
		d["extensions"] = doc{"a.example/x": doc{"critical": true, "data": doc{}}}
		d["not_before"] = "2026-03-17T00:00:00Z"
		delete(d, "audience")
		delete(d, "expires_at")
	}, rfcSigner(f, 0), rfcSigner(f, 1)))
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := Parse(raw)
		if err != nil {
			// Most of what a fuzzer changes ends at object_id. Mend it, and
			// go on behind it.
			mended, ok := mend(raw)
			if !ok {
				return
			}
			if o, err = Parse(mended); err != nil {
				return
			}
			raw = mended
		}
		again, err := Canonical(wire{
			Audience: o.Audience, Body: o.Body, Version: Version, Epoch: o.Epoch, ExpiresAt: At(o.ExpiresAt), Extensions: o.Extensions,
			IssuedAt: At(o.IssuedAt), Authority: o.Authority, NotBefore: At(o.NotBefore), ID: o.ID, Type: o.Type,
			Sequence: o.Sequence, Signatures: o.Signatures, Subject: o.Subject,
		})
		if err != nil || !bytes.Equal(again, raw) || !bytes.Equal(o.Raw, raw) {
			t.Errorf("parsed\n%s\nencodes as\n%s, %v", raw, again, err)
		}
		// The generic decoder must read the same.
		var slow wire
		fast, _, err := readWire(raw)
		if slowErr := decodeClosed(raw, &slow, ""); err != nil || slowErr != nil || !reflect.DeepEqual(fast, slow) {
			t.Errorf("%s was read as\n%+v, %v, and\n%+v, %v", raw, fast, err, slow, slowErr)
		}
	})
}

// mend gives raw the object_id that is its due.
func mend(raw []byte) ([]byte, bool) {
	if checkCanonical(raw, artefactLimits) != nil {
		return nil, false
	}
	var id, sigs member
	for m := range members(raw) {
		switch string(m.name) {
		case "object_id":
			id = m
		case "signatures":
			sigs = m
		}
	}
	if id.start < 2 || sigs.start < 2 {
		return nil, false
	}
	h := objectID(raw[:id.start-1], raw[id.end:sigs.start-1], raw[sigs.end:])
	return []byte(string(raw[:id.start]) + `"object_id":"` + h.String() + `"` + string(raw[id.end:])), true
}

func TestWhateverIsSignedOpens(t *testing.T) {
	signers := []*Signer{rfcSigner(t, 0), rfcSigner(t, 1), newSigner(t, 0)}
	rapid.Check(t, func(rt *rapid.T) {
		seconds := func(from, to int64, label string) time.Time {
			return time.Unix(rapid.Int64Range(from, to).Draw(rt, label), 0).UTC()
		}
		name := rapid.Custom(func(rt *rapid.T) Name {
			return Name(rapid.StringMatching(`(spiffe://[a-z0-9][a-z0-9_-]{0,9}(/[a-z0-9_-]{1,5}){0,3}|urn:[a-z0-9]{2,9}:[a-z0-9:._/-]{0,20}x)`).
				Filter(func(s string) bool { _, err := ParseName(s); return err == nil }).Draw(rt, "name"))
		})
		issuedAt := seconds(0, 1<<32, "issued")
		h := Header{Type: DiscoveryGrant, Authority: name.Draw(rt, "authority"), Subject: name.Draw(rt, "subject"), Audience: name.Draw(rt, "audience"),
			Epoch: rapid.Uint64Range(0, MaxInteger).Draw(rt, "epoch"), Sequence: rapid.Uint64Range(0, MaxInteger).Draw(rt, "sequence"),
			IssuedAt: issuedAt, ExpiresAt: seconds(1<<33, 1<<34, "expires")}
		body := note{Count: rapid.Uint64Range(0, 1000).Draw(rt, "count"), Hint: rapid.StringN(0, 40, 160).Draw(rt, "hint"),
			Issuer: name.Draw(rt, "issuer"), Tags: rapid.SliceOf(rapid.StringN(0, 9, 40)).Draw(rt, "tags")}
		o, err := Sign(h, body, signers[:rapid.IntRange(1, 3).Draw(rt, "signers")]...)
		if err != nil {
			rt.Fatal(err)
		}
		var ring []KeyRecord
		for _, s := range signers {
			ring = append(ring, KeyRecord{Key: s.Public(), Identity: body.Issuer, Authority: h.Authority, Use: UseEnvelope})
		}
		var got note
		again, err := Open(o.Raw, &got, Expecting(h.Type, trustIn(ring...), issuedAt))
		if err != nil {
			rt.Fatalf("%s: %v", o.Raw, err)
		}
		if again.ID != o.ID || again.Signer != body.Issuer || again.Epoch != h.Epoch || !again.IssuedAt.Equal(issuedAt) || again.Subject != h.Subject ||
			got.Count != body.Count || got.Hint != body.Hint || strings.Join(got.Tags, "\x00") != strings.Join(body.Tags, "\x00") {
			rt.Fatalf("signed %+v and %+v, opened %+v and %+v", h, body, again, got)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	raw := goodGrant(b)
	v := Expecting(DiscoveryGrant, trustIn(record(rfcSigner(b, 0))), noon)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(raw, new(note), v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenAgainstVerify opens and bare ed25519.Verify by turns, and
// reports how many times the one takes of the other: the shortest of each, so
// that what else runs on the machine stays out.
func BenchmarkOpenAgainstVerify(b *testing.B) {
	raw := goodGrant(b)
	v := Expecting(DiscoveryGrant, trustIn(record(rfcSigner(b, 0))), noon)
	o, err := Parse(raw)
	if err != nil {
		b.Fatal(err)
	}
	key := rfcSigner(b, 0).Public()
	message, public := signatureInput(key.ID(), coreOf(o)), key.Bytes()
	sig, err := base64.RawURLEncoding.DecodeString(o.Signatures[0].Sig)
	if err != nil {
		b.Fatal(err)
	}
	open, verify := time.Hour, time.Hour
	for b.Loop() {
		start := time.Now()
		if _, err := Open(raw, new(note), v); err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		if !ed25519.Verify(public, message, sig) {
			b.Fatal("refused")
		}
		open, verify = min(open, opened.Sub(start)), min(verify, time.Since(opened))
	}
	b.ReportMetric(float64(open)/float64(verify), "open/verify")
}

func BenchmarkParse(b *testing.B) {
	raw := goodGrant(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(raw); err != nil {
			b.Fatal(err)
		}
	}
}
