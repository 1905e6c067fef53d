package main

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

func TestTheWitnessesOfTheConfigurationAreRead(t *testing.T) {
	key, err := witness.NewKey("w.example", ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good": "witness W " + key.String() + " https://w.example\nquorum W\n",
		"bare": "witness W " + key.String() + "\nquorum W\n",
		"none": "quorum none\n",
		"bad":  "hello\n",
		"long": "quorum none\n#" + string(make([]byte, witness.MaxPolicy)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, file string
		asked, ok  bool
	}{
		{"nobody is asked", "", false, true},
		{"a file in the folder", "good", true, true},
		{"a file by its whole path", filepath.Join(dir, "good"), true, true},
		{"a witness without a URL", "bare", false, false},
		{"a policy without witnesses", "none", false, false},
		{"a file that is none", "bad", false, false},
		{"a file that is too long", "long", false, false},
		{"a file that is not there", "absent", false, false},
	} {
		c := config{Witnesses: tt.file, WitnessTimeout: time.Second}
		g, err := c.openWitnesses(dir)
		if (err == nil) != tt.ok || (g != nil) != tt.asked {
			t.Errorf("%s: %v, %v", tt.name, g, err)
		}
		if g != nil {
			g.Close()
		}
	}
}
