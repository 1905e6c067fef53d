package envelope

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/c2sp/wycheproof"
)

func TestWycheproofEd25519(t *testing.T) {
	raw, err := fs.ReadFile(wycheproof.TestVectors, "ed25519_test.json")
	if err != nil {
		t.Fatal(err)
	}
	type hexText string
	var file struct {
		NumberOfTests int
		TestGroups    []struct {
			PublicKey struct{ Pk hexText }
			Tests     []struct {
				TcID     int
				Comment  string
				Msg, Sig hexText
				Result   string
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	octets := func(s hexText) []byte {
		b, err := hex.DecodeString(string(s))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seen := map[string]int{}
	for _, group := range file.TestGroups {
		key, err := NewPublicKey(octets(group.PublicKey.Pk))
		if err != nil {
			t.Fatalf("key %s: %v", group.PublicKey.Pk, err)
		}
		for _, v := range group.Tests {
			// As a signature comes: in base64url, of the length that it has.
			sig, err := decodeBase64(base64.RawURLEncoding.EncodeToString(octets(v.Sig)), ed25519.SignatureSize)
			accepted := err == nil && key.verifies(octets(v.Msg), sig)
			if accepted != (v.Result == "valid") {
				t.Errorf("test %d (%s): accepted = %t, want %s", v.TcID, v.Comment, accepted, v.Result)
			}
			seen[v.Result]++
		}
	}
	if seen["valid"] == 0 || seen["invalid"] == 0 || seen["valid"]+seen["invalid"] != file.NumberOfTests {
		t.Errorf("%v seen, of %d", seen, file.NumberOfTests)
	}
}
