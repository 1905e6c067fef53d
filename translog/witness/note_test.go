package witness_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/translog/witness"
	"github.com/uzpif-oi/uzpif-oi/translog/witness/witnesstest"
)

var noon = time.Unix(1_800_000_000, 0)

func cosign(t failing, n int, text string, at time.Time) string {
	t.Helper()
	k, private := keyOf(t, n)
	line, err := witness.Cosign(k.Name(), private, text, at)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestOnlyCosignaturesOfThisNoteCount(t *testing.T) {
	l := witnesstest.NewLog(t, 20, "leaf")
	raw := string(l.Submission(12).Note)
	text := l.Text(12)
	p := policyOf(t, someWitnesses(t, 3)+"group G 2 W1 W2 W3\nquorum G\n")
	k1, _ := keyOf(t, 1)
	_, stolen := keyOf(t, 4)
	plain := "— w1.example " // a plain signature under the cosigner's name and hash
	forged, err := witness.Cosign(k1.Name(), stolen, text, noon)
	if err != nil {
		t.Fatal(err)
	}
	swapped := forgeLine(t, k1, stolen, text)
	for _, tt := range []struct {
		name, note string
		counted    int
		met, bad   bool
	}{
		{"no line but the log's own", raw, 0, false, false},
		{"one of the policy", raw + cosign(t, 1, text, noon), 1, false, false},
		{"two of the policy", raw + cosign(t, 1, text, noon) + cosign(t, 3, text, noon.Add(-time.Hour)), 2, true, false},
		{"one twice", raw + cosign(t, 1, text, noon) + cosign(t, 1, text, noon.Add(-time.Second)), 1, false, false},
		{"one and a stranger", raw + cosign(t, 1, text, noon) + cosign(t, 5, text, noon), 1, false, false},
		{"one, and its name over another key", raw + cosign(t, 1, text, noon) + forged, 1, false, false},
		{"name and hash of one, signed by another", raw + swapped, 0, false, true},
		{"of another size", raw + cosign(t, 1, l.Text(13), noon), 0, false, true},
		{"of another root", raw + cosign(t, 1, witnesstest.NewLog(t, 20, "other").Text(12), noon), 0, false, true},
		{"of the future", raw + cosign(t, 1, text, noon.Add(witness.Skew+time.Second)), 0, false, true},
		{"of a clock a little ahead", raw + cosign(t, 1, text, noon.Add(witness.Skew)), 1, false, false},
		{"a line that is cut short", raw + strings.TrimSuffix(cosign(t, 1, text, noon), "=\n") + "\n", 0, false, true},
		{"a line without base64", raw + plain + "\n", 0, false, true},
		{"a note that is too long", raw + strings.Repeat(cosign(t, 5, text, noon), 1000), 0, false, true},
		{"no note", "hello\n", 0, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, err := p.Cosignatures([]byte(tt.note), noon)
			if (err != nil) != tt.bad || len(all) != tt.counted || p.Met(all) != tt.met {
				t.Errorf("%d cosignatures, met %v, %v; want %d, %v, an error %v", len(all), p.Met(all), err, tt.counted, tt.met, tt.bad)
			}
		})
	}
}

// forgeLine is a line under k's name and hash, signed by another key.
func forgeLine(t *testing.T, k witness.Key, by ed25519.PrivateKey, text string) string {
	t.Helper()
	line, err := witness.Cosign(k.Name(), by, text, noon)
	if err != nil {
		t.Fatal(err)
	}
	_, b64, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "— "), " ")
	sig, err := base64.StdEncoding.DecodeString(b64)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(sig, k.KeyHash())
	return "— " + k.Name() + " " + base64.StdEncoding.EncodeToString(sig) + "\n"
}

func TestOneFlippedBitSpoilsACosignature(t *testing.T) {
	l := witnesstest.NewLog(t, 5, "leaf")
	p := policyOf(t, someWitnesses(t, 1)+"quorum W1\n")
	raw := string(l.Submission(5).Note)
	good := []byte(raw + cosign(t, 1, l.Text(5), noon))
	if all, err := p.Cosignatures(good, noon); err != nil || !p.Met(all) {
		t.Fatal(err)
	}
	for i := range 8 * len(good) {
		if i/8 >= len(l.Text(5))+1 && i/8 < len(raw) {
			continue // the log's own line, which others verify
		}
		good[i/8] ^= 1 << (i % 8)
		if all, err := p.Cosignatures(good, noon); err == nil && p.Met(all) {
			t.Errorf("with bit %d flipped, %q counts", i, good)
		}
		good[i/8] ^= 1 << (i % 8)
	}
}

func TestCosignaturesOfTheFutureAreCalledSo(t *testing.T) {
	l := witnesstest.NewLog(t, 5, "leaf")
	p := policyOf(t, someWitnesses(t, 1)+"quorum W1\n")
	note := string(l.Submission(5).Note) + cosign(t, 1, l.Text(5), noon.Add(time.Hour))
	if _, err := p.Cosignatures([]byte(note), noon); !errors.Is(err, witness.ErrCosignature) || !strings.Contains(err.Error(), "future") {
		t.Errorf("Cosignatures = %v", err)
	}
}
