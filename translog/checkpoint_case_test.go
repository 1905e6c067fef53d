package translog

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// signedCheckpoint signs a checkpoint as one does who obeys nobody: edit changes
// its members first.
func signedCheckpoint(t testing.TB, edit func(body map[string]any)) []byte {
	t.Helper()
	signer, err := envelope.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	body := map[string]any{
		"algorithm": RootAlgorithm, "indexer": "spiffe://search.test/indexer", "log_origin": "search.test/log",
		"profile": Profile, "root": envelope.Hash{1}.String(), "tree_size": uint64(3),
	}
	edit(body)
	h := envelope.Header{
		Type: envelope.Checkpoint, Authority: "spiffe://search.test", Subject: "spiffe://search.test/indexer", Epoch: 1, Sequence: 3,
		IssuedAt: time.Date(2026, 3, 16, 12, 0, 0, 0, time.UTC),
	}
	o, err := envelope.Sign(h, body, signer)
	if err != nil {
		t.Fatal(err)
	}
	return o.Raw
}

// TestACheckpointOfAnotherAlgorithmIsRefused shows that a root is never read by
// another rule than the one it was made by (UZPIF-OI 9.1.3): a checkpoint that
// names an algorithm which we do not know, or none, is not parsed by anybody.
func TestACheckpointOfAnotherAlgorithmIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(body map[string]any)
		want error
	}{
		{"the algorithm of the profile", func(map[string]any) {}, nil},
		{"an algorithm to come", func(b map[string]any) { b["algorithm"] = "rfc6962-sha3-256" }, envelope.ErrSchema},
		{"the algorithm in capitals", func(b map[string]any) { b["algorithm"] = "RFC6962-SHA256" }, envelope.ErrSchema},
		{"an empty algorithm", func(b map[string]any) { b["algorithm"] = "" }, envelope.ErrSchema},
		{"no algorithm", func(b map[string]any) { delete(b, "algorithm") }, envelope.ErrSchema},
		{"a list of algorithms", func(b map[string]any) { b["algorithm"] = []string{RootAlgorithm} }, envelope.ErrSchema},
		{"another profile of the log", func(b map[string]any) { b["profile"] = "uzpif-oi-log/2" }, envelope.ErrSchema},
		{"no log", func(b map[string]any) { b["log_origin"] = "" }, envelope.ErrSchema},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, body, err := ParseCheckpoint(signedCheckpoint(t, tt.edit)); !errors.Is(err, tt.want) {
				t.Errorf("ParseCheckpoint = %+v, %v, want %v", body, err, tt.want)
			}
		})
	}
}

// FuzzParseCheckpoint: a checkpoint that is read is of the one algorithm, and is
// the octets that its parts are written as.
func FuzzParseCheckpoint(f *testing.F) {
	f.Add(signedCheckpoint(f, func(map[string]any) {}))
	f.Add(signedCheckpoint(f, func(b map[string]any) {
		b["previous_hash"] = envelope.Hash{2}.String()
		b["continues"] = map[string]any{"origin": "search.test/older", "root": envelope.Hash{3}.String(), "size": 9}
	}))
	f.Add(signedCheckpoint(f, func(b map[string]any) { b["algorithm"] = "x" }))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, body, err := ParseCheckpoint(raw)
		if err != nil {
			return
		}
		again, err := envelope.Canonical(&body)
		if err != nil || !bytes.Equal(again, o.Body) || !bytes.Equal(o.Raw, raw) || body.Algorithm != RootAlgorithm || o.Type != envelope.Checkpoint {
			t.Errorf("%s is read as %s, %v", raw, again, err)
		}
	})
}
