package witnesses

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"filippo.io/torchwood"
	formatnote "github.com/transparency-dev/formats/note"
	formatwitness "github.com/transparency-dev/formats/witness"
	"github.com/transparency-dev/witness/persistence/inmemory"
	theirs "github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"

	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// aWitness is that of transparency-dev, with torchwood's signer, over HTTP. It
// knows the logs with these keys.
func aWitness(t *testing.T, name string, seed byte, logs ...string) (url string, v *torchwood.CosignatureVerifier) {
	t.Helper()
	signer, err := torchwood.NewCosignatureSigner(name, ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), seed)))
	if err != nil {
		t.Fatal(err)
	}
	w, err := theirs.New(t.Context(), theirs.Opts{
		Persistence: inmemory.New(), Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			for _, vkey := range logs {
				if v, err := note.NewVerifier(vkey); err != nil || v.Name() == origin {
					return v, err == nil, err
				}
			}
			return nil, false, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", theirs.NewHTTPHandler(w).AddCheckpoint)
	return serve(t, mux), signer.Verifier()
}

func groupOf(t *testing.T, policy string) *witness.Group {
	t.Helper()
	p, err := witness.ParsePolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	g, err := witness.NewGroup(p, witness.Options{Rest: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func closedBy(g *witness.Group) func(*translog.Config) {
	return func(c *translog.Config) { c.Witnesses, c.FailClosed = g, true }
}

// TestWitnessesOfOthersCosignTheLog brings a log through growth and a restart,
// and has its notes verified by those who wrote the witnesses.
func TestWitnessesOfOthersCosignTheLog(t *testing.T) {
	dir := t.TempDir()
	vkey := logVKey(t)
	urlA, a := aWitness(t, "a.example/witness", 1, vkey)
	urlB, b := aWitness(t, "b.example/witness", 2, vkey)
	policy := fmt.Sprintf("witness A %s %s\nwitness B %s %s\ngroup G all A B\nquorum G\n", a, urlA, b, urlB)
	r := runIn(t, dir, closedBy(groupOf(t, policy)))
	for i, size := range sizes {
		if i == 2 { // the sizes that the witnesses know are learnt again
			r.stop()
			r = runIn(t, dir, closedBy(groupOf(t, policy)))
		}
		r.growTo(t, size)
		raw := r.log.Published().Note
		if n, err := note.Open(raw, note.VerifierList(a, b)); err != nil || len(n.Sigs) != 2 {
			t.Errorf("torchwood at %d: %v", size, err)
		}
		group, err := formatwitness.ParsePolicy([]byte(policy))
		if err != nil || !group.Satisfied(raw) {
			t.Errorf("formats at %d: the policy is not met, %v", size, err)
		}
		v, err := formatnote.NewVerifierForCosignatureV1(a.String())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := note.Open(raw, note.VerifierList(v)); err != nil || len(n.Sigs) != 1 {
			t.Errorf("formats at %d: %v", size, err)
		}
	}
}

func TestAWitnessOfOthersStopsARollback(t *testing.T) {
	url, w := aWitness(t, "a.example/witness", 1, logVKey(t))
	policy := fmt.Sprintf("witness A %s %s\nquorum A\n", w, url)
	r := runIn(t, t.TempDir(), closedBy(groupOf(t, policy)))
	r.growTo(t, 300)
	r.stop()
	fork := t.TempDir()
	r = runIn(t, fork, nil)
	if err := r.log.Commit(t.Context(), &proposal{n: 301, word: "another"}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for name, dir := range map[string]string{"an empty store": t.TempDir(), "another store": fork} {
		if _, err := tryRun(t, dir, closedBy(groupOf(t, policy))); !errors.Is(err, translog.ErrRollback) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWitnessThatDoesNotKnowTheLogIsCalledSo(t *testing.T) {
	url, w := aWitness(t, "a.example/witness", 1)
	g := groupOf(t, fmt.Sprintf("witness A %s %s\nquorum A\n", w, url))
	r := runIn(t, t.TempDir(), closedBy(g))
	if err := r.log.Commit(t.Context(), &proposal{n: 1}); err != nil {
		t.Fatal(err)
	}
	if err := r.log.Publish(t.Context()); !errors.Is(err, translog.ErrHeld) {
		t.Errorf("Publish = %v", err)
	}
	if s := g.States()[0]; s.Failures[witness.UnknownLog] == 0 {
		t.Errorf("%+v", s.Failures)
	}
}
