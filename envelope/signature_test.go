package envelope

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// newSigner is one of any number of signers beside those of RFC 8032.
func newSigner(t testing.TB, n int) *Signer {
	seed := sha256.Sum256(fmt.Appendf(nil, "signer %d", n))
	s, err := NewSigner(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// firstSignature edits the first element of the signatures of raw.
func firstSignature(t testing.TB, raw []byte, edit func(sig doc)) []byte {
	return tamper(t, raw, func(d doc) { edit(d["signatures"].([]any)[0].(doc)) })
}

func TestObjectIDIsRecomputed(t *testing.T) {
	s := rfcSigner(t, 0)
	raw := goodGrant(t)
	id := func(edit func(id string) string) []byte {
		return tamper(t, raw, func(d doc) { d["object_id"] = edit(d["object_id"].(string)) })
	}
	checkRefusals(t, []refusal{
		{"the id of another object", id(func(string) string { return "sha256:" + strings.Repeat("0a", 32) }), ErrObjectID, "object_id"},
		{"upper case", id(strings.ToUpper), ErrSchema, "object_id"},
		{"upper-case digits", id(func(id string) string { return "sha256:" + strings.ToUpper(id[7:]) }), ErrSchema, "object_id"},
		{"truncated", id(func(id string) string { return id[:len(id)-2] }), ErrSchema, "object_id"},
		{"another algorithm", id(func(id string) string { return "sha512:" + id[7:] }), ErrSchema, "object_id"},
		{"a body changed under the old id", swap(t, raw, `"count":3`, `"count":4`), ErrObjectID, "object_id"},
		{"a body changed under a new id, with the old signature", tamper(t, forge(t, func(d doc) { d["body"].(doc)["count"] = 4 }, s), func(d doc) {
			d["signatures"] = docOf(t, raw)["signatures"]
		}), ErrSignature, "signatures.0"},
	})
}

func TestTheSignatureListHasOneForm(t *testing.T) {
	a, b := rfcSigner(t, 0), rfcSigner(t, 1)
	raw := goodGrant(t)
	var crowd []*Signer
	for i := range MaxSignatures {
		crowd = append(crowd, newSigner(t, i))
	}
	list := func(edit func(l []any) []any) []byte {
		return tamper(t, forge(t, func(doc) {}, a, b), func(d doc) { d["signatures"] = edit(d["signatures"].([]any)) })
	}
	first := func(name string, v any) []byte { return firstSignature(t, raw, func(sig doc) { sig[name] = v }) }
	text := docOf(t, raw)["signatures"].([]any)[0].(doc)["sig"].(string)
	octets, _ := base64.RawURLEncoding.DecodeString(text)
	encode := base64.RawURLEncoding.EncodeToString
	checkRefusals(t, []refusal{
		{"no signature", forge(t, func(doc) {}), ErrSignatures, "signatures"},
		{"no list of signatures, as if they stood in a file beside it", tamper(t, raw, func(d doc) { delete(d, "signatures") }), ErrSignatures, "signatures"},
		{"a string for the list", tamper(t, raw, func(d doc) { d["signatures"] = text }), ErrSchema, "signatures"},
		{"16 signatures are accepted", forge(t, func(doc) {}, append(crowd[1:], a)...), nil, ""},
		{"17 signatures", forge(t, func(doc) {}, append(crowd, a)...), ErrSignatures, "signatures"},
		{"two in the other order", list(func(l []any) []any { slices.Reverse(l); return l }), ErrSignatures, "signatures.1.key_id"},
		{"one twice", list(func(l []any) []any { return append(l, l[1]) }), ErrSignatures, "signatures.2.key_id"},
		{"one without key_id", firstSignature(t, raw, func(sig doc) { delete(sig, "key_id") }), ErrSchema, "signatures.0"},
		{"one with a fourth member", first("kid", "x"), ErrSchema, "signatures.0.kid"},
		{"a key_id of zeros", first("key_id", "sha256:"+strings.Repeat("0", 64)), ErrSignatures, "signatures.0.key_id"},
		{"a key_id in capitals", first("key_id", strings.ToUpper(a.Public().ID().String())), ErrSchema, "signatures.0.key_id"},
		{"the algorithm EdDSA", first("alg", "EdDSA"), ErrAlgorithm, "signatures.0.alg"},
		{"the algorithm in lower case", first("alg", "ed25519"), ErrAlgorithm, "signatures.0.alg"},
		{"the algorithm none", first("alg", "none"), ErrAlgorithm, "signatures.0.alg"},
		{"the algorithm HS256", first("alg", "HS256"), ErrAlgorithm, "signatures.0.alg"},
		{"no algorithm", first("alg", ""), ErrAlgorithm, "signatures.0.alg"},
		{"63 octets", first("sig", encode(octets[:63])), ErrSignatures, "signatures.0.sig"},
		{"65 octets", first("sig", encode(append(bytes.Clone(octets), 0))), ErrSignatures, "signatures.0.sig"},
		{"no octets", first("sig", ""), ErrSignatures, "signatures.0.sig"},
		{"padded", first("sig", text+"=="), ErrSignatures, "signatures.0.sig"},
		{"a line break behind", first("sig", text+"\n"), ErrSignatures, "signatures.0.sig"},
		{"a line break inside, at the right length", first("sig", text[:40]+"\n"+text[41:]), ErrSignatures, "signatures.0.sig"},
		{"bits behind the last octet", first("sig", text[:85]+string(text[85]+1)), ErrSignatures, "signatures.0.sig"},
		{"the standard alphabet", first("sig", "+/"+text[2:]), ErrSignatures, "signatures.0.sig"},
	})
}

func TestOnlySignaturesOverTheseOctetsVerify(t *testing.T) {
	a := rfcSigner(t, 0)
	raw := goodGrant(t)
	o, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	// over is the good grant with a signature by its own key over message.
	over := func(message []byte) []byte {
		return tamper(t, raw, func(d doc) { d["signatures"] = []any{signatureOver(a, message)} })
	}
	moved := func(name string, v any) []byte {
		return tamper(t, raw, func(d doc) { d["signatures"] = docOf(t, forge(t, func(d doc) { d[name] = v }, a))["signatures"] })
	}
	id := a.Public().ID()
	input := signatureInput(id, coreOf(o))
	checkRefusals(t, []refusal{
		{"the signature input itself is accepted", over(input), nil, ""},
		{"the core without a tag", over(coreOf(o)), ErrSignature, "signatures.0"},
		{"the input of object_id", over(append([]byte("uzpif-oi/object-id/v1\x00"), coreOf(o)...)), ErrSignature, "signatures.0"},
		{"the next version of the tag", over(bytes.Replace(input, []byte("/v1"), []byte("/v2"), 1)), ErrSignature, "signatures.0"},
		{"the input for another key", over(signatureInput(rfcSigner(t, 1).Public().ID(), coreOf(o))), ErrSignature, "signatures.0"},
		{"the digest of the input", over(func() []byte { d := sha256.Sum256(input); return d[:] }()), ErrSignature, "signatures.0"},
		{"the signature of another type", moved("object_type", "policy"), ErrSignature, "signatures.0"},
		{"the signature of another profile version", moved("envelope_version", "uzpif-oi-env/2"), ErrSignature, "signatures.0"},
		{"the signature for another audience", moved("audience", "urn:example:indexer:i2"), ErrSignature, "signatures.0"},
	})
}

func TestASignatureHasNoSecondForm(t *testing.T) {
	order, _ := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
	order.Add(order, new(big.Int).Lsh(big.NewInt(1), 252))
	raw := firstSignature(t, goodGrant(t), func(sig doc) {
		b, err := base64.RawURLEncoding.DecodeString(sig["sig"].(string))
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(b[32:])
		sum := new(big.Int).Add(new(big.Int).SetBytes(b[32:]), order)
		sum.FillBytes(b[32:])
		slices.Reverse(b[32:])
		sig["sig"] = base64.RawURLEncoding.EncodeToString(b)
	})
	checkRefusals(t, []refusal{{"S plus the group order", raw, ErrSignature, "signatures.0"}})
}

// known is what a verifier knows of the key of s, after edit.
func known(s *Signer, edit func(r *KeyRecord)) KeyRecord {
	r := record(s)
	edit(&r)
	return r
}

// spoil is raw with junk for the signature of s, and where that stands.
func spoil(t testing.TB, raw []byte, s *Signer) (spoilt []byte, member string) {
	spoilt = tamper(t, raw, func(d doc) {
		for i, sig := range d["signatures"].([]any) {
			if sig := sig.(doc); sig["key_id"] == s.Public().ID().String() {
				sig["sig"], member = strings.Repeat("A", 86), fmt.Sprintf("signatures.%d", i)
			}
		}
	})
	return spoilt, member
}

func TestOnlyTheSignersOwnKeyCounts(t *testing.T) {
	a, b := rfcSigner(t, 0), rfcSigner(t, 1)
	good := goodGrant(t)
	late := func(d time.Duration) time.Time { return issued.Add(d) }
	for _, tt := range []struct {
		name string
		raw  []byte
		key  KeyRecord
		want error
	}{
		{"the signer's key", good, record(a), nil},
		{"another key of the signer, which did not sign", good, record(b), ErrThreshold},
		{"a key of another identity", good, known(a, func(r *KeyRecord) { r.Identity = indexer }), ErrThreshold},
		{"a key of another authority", good, known(a, func(r *KeyRecord) { r.Authority = "urn:example:authority:b" }), ErrThreshold},
		{"a key for the log", good, known(a, func(r *KeyRecord) { r.Use = UseLog }), ErrThreshold},
		{"a key for TLS", good, known(a, func(r *KeyRecord) { r.Use = UseTLS }), ErrThreshold},
		{"a key for cards", good, known(a, func(r *KeyRecord) { r.Use = UseCard }), ErrThreshold},
		{"a key for nothing", good, known(a, func(r *KeyRecord) { r.Use = "" }), ErrThreshold},
		{"an epoch that the trust does not know yet", good, known(a, func(r *KeyRecord) { r.FirstEpoch = 2 }), ErrThreshold},
		{"an epoch behind the key's last", forge(t, func(d doc) { d["epoch"] = 6 }, a), known(a, func(r *KeyRecord) { r.LastEpoch = 5 }), ErrThreshold},
		{"the key's only epoch", good, known(a, func(r *KeyRecord) { r.FirstEpoch, r.LastEpoch = 1, 1 }), nil},
		{"issued before the key's validity", good, known(a, func(r *KeyRecord) { r.NotBefore = late(time.Second) }), ErrThreshold},
		{"issued at the end of the key's validity", good, known(a, func(r *KeyRecord) { r.NotAfter = late(0) }), ErrThreshold},
		{"issued in the key's only second", good, known(a, func(r *KeyRecord) { r.NotBefore, r.NotAfter = late(0), late(time.Second) }), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := Open(tt.raw, new(note), Expecting(DiscoveryGrant, trustIn(tt.key), noon))
			member := ""
			if tt.want != nil {
				member = "signatures"
			}
			wantRefused(t, o, err, tt.want, member)
		})
	}
}

func TestThresholdsCountIdentities(t *testing.T) {
	a, b, c := rfcSigner(t, 0), rfcSigner(t, 1), newSigner(t, 0)
	const board = Name("urn:example:publisher:board")
	cosigner := known(b, func(r *KeyRecord) { r.Identity = board })
	stranger := known(b, func(r *KeyRecord) { r.Identity = indexer })
	by := func(signers ...*Signer) []byte { return forge(t, func(doc) {}, signers...) }
	both := by(a, b)
	spoilt, at := spoil(t, both, b)
	renamed := firstSignature(t, by(a), func(sig doc) { sig["key_id"] = b.Public().ID().String() })
	for _, tt := range []struct {
		name      string
		raw       []byte
		ring      keyring
		threshold int
		want      error
		member    string
	}{
		{"only an unknown key", by(c), trustIn(record(a)), 1, ErrThreshold, "signatures"},
		{"the signer, and junk of an unknown key", spoilt, trustIn(record(a)), 1, nil, ""},
		{"the signer, and junk of a cosigner", spoilt, trustIn(record(a), cosigner), 1, ErrSignature, at},
		{"the signer, and junk of a known stranger", spoilt, trustIn(record(a), stranger), 1, ErrSignature, at},
		{"under the key_id of another trusted key", renamed, trustIn(record(a), record(b)), 1, ErrSignature, "signatures.0"},
		{"two identities of two", both, trustIn(record(a), cosigner), 2, nil, ""},
		{"one identity of two", by(a), trustIn(record(a), cosigner), 2, ErrThreshold, "signatures"},
		{"two keys of one identity for two", both, trustIn(record(a), record(b)), 2, ErrThreshold, "signatures"},
		{"a cosigner without the signer", by(b), trustIn(record(a), cosigner), 1, ErrThreshold, "signatures"},
		{"the signer and a stranger for two", both, trustIn(record(a), stranger), 2, ErrThreshold, "signatures"},
		{"a threshold of none", by(a), trustIn(record(a)), 0, ErrConfig, ""},
		{"a threshold beyond the identities, one of them named twice", by(a), trustIn(record(a)), 3, ErrConfig, ""},
		{"no keys at all", by(a), trustIn(), 1, ErrThreshold, "signatures"},
		{"a public key under the id of another", renamed, keyring{b.Public().ID(): record(a)}, 1, ErrConfig, ""},
		{"a record without a key", by(a), keyring{a.Public().ID(): known(a, func(r *KeyRecord) { r.Key = PublicKey{} })}, 1, ErrConfig, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := Open(tt.raw, new(note), Verifier{Keys: tt.ring, Now: noon, Threshold: tt.threshold, Cosigners: []Name{board, board}})
			wantRefused(t, o, err, tt.want, tt.member)
		})
	}
	if o, err := Open(both, new(note), Verifier{Now: noon, Threshold: 1}); true {
		wantRefused(t, o, err, ErrConfig, "")
	}
}

func TestACardMayBeSignedByItsCardKey(t *testing.T) {
	s := rfcSigner(t, 0)
	card := forge(t, func(d doc) {
		d["object_type"], d["body"] = IdentityCard, doc{"identity": publisher}
		delete(d, "audience")
	}, s)
	r := record(s)
	r.Use = UseCard
	var body struct {
		Identity Name `json:"identity"`
	}
	if _, err := Open(card, &body, Expecting(IdentityCard, trustIn(r), noon)); err != nil {
		t.Error(err)
	}
}

func TestWeakKeysDoNotLoad(t *testing.T) {
	tail := strings.Repeat("00", 30)
	good := rfcSigner(t, 0).Public()
	for _, tt := range []struct{ name, key string }{
		{"the neutral point", "01" + tail + "00"},
		{"the neutral point, in a second form", "01" + tail + "80"},
		{"the point of order two, in a second form", "ec" + strings.Repeat("ff", 31)},
		{"the point of order two", "ec" + strings.Repeat("ff", 30) + "7f"},
		{"a point of order four", "00" + tail + "00"},
		{"a point of order eight", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"},
		{"one above the field", "ee" + strings.Repeat("ff", 30) + "7f"},
		{"a point of large order, in a second form", "f0" + strings.Repeat("ff", 30) + "7f"},
		{"no point of the curve", "02" + tail + "00"},
		{"31 octets", hex.EncodeToString(good.Bytes()[:31])},
		{"33 octets", hex.EncodeToString(good.Bytes()) + "00"},
		{"no octets", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := hex.DecodeString(tt.key)
			if err != nil {
				t.Fatal(err)
			}
			if k, err := NewPublicKey(b); !errors.Is(err, ErrKey) || !k.IsZero() {
				t.Errorf("NewPublicKey = %x, %v", k.Bytes(), err)
			}
			text := base64.RawURLEncoding.EncodeToString(b)
			if k := (PublicKey{}); !errors.Is(k.UnmarshalText([]byte(text)), ErrKey) || !k.IsZero() {
				t.Errorf("%s was read as %x", text, k.Bytes())
			}
		})
	}
	// The zero key is a point of order four, under which a fixed signature
	// verifies for one message in four.
	for i := range 100 {
		if (PublicKey{}).verifies([]byte{byte(i)}, make([]byte, ed25519.SignatureSize)) {
			t.Fatalf("no key verifies message %d", i)
		}
	}
	if _, err := (PublicKey{}).MarshalText(); !errors.Is(err, ErrKey) {
		t.Errorf("no key is written: %v", err)
	}
}
