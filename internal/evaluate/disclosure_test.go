package evaluate_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// holds reports whether a file has octets in any form in which one is written.
func holds(file, octets []byte) bool {
	return bytes.Contains(file, octets) || bytes.Contains(file, []byte(hex.EncodeToString(octets))) ||
		bytes.Contains(file, []byte(base64.RawURLEncoding.EncodeToString(octets)))
}

// TestEvidenceDisclosesNoOtherPage looks for whatever opens another page of the
// batch, or lets one who guesses at it be sure: its URL, digest and payload, its
// salts, and what is hashed into its leaf. The hash of a neighbour's leaf may
// stand in the path. It is no help: no leaf that can be made of a guess and what
// the file holds has it.
func TestEvidenceDisclosesNoOtherPage(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	for name, k := range kinds(t) {
		ev, err := evaluate.Parse(k.raw)
		if err != nil {
			t.Fatal(err)
		}
		if holds(k.raw, s.LeafKey[:]) {
			t.Errorf("%s: it discloses the leaf key", name)
		}
		shown := 0
		for i, p := range s.batch.Pages {
			su, sc := s.LeafKey.Salts(s.JournalEpoch, s.batch.Revision(i), sha256.Sum256([]byte(p.URL)))
			digest := sha256.Sum256([]byte(p.Payload))
			if p.URL == ev.URL {
				shown++
				if !holds(k.raw, []byte(p.URL)) || !holds(k.raw, su[:]) {
					t.Errorf("%s: its own page is not disclosed", name)
				}
				continue
			}
			leaf := s.batch.Leaves[i]
			secret := map[string][]byte{
				"URL": []byte(p.URL), "hash of the URL": sum([]byte(p.URL)), "salt of the URL": su[:],
				"salt of the content": sc[:], "blinded URL": leaf.Object[:], "leaf": leaf.Bytes(),
			}
			if p.Op == translog.OpPut {
				secret["payload"], secret["digest"], secret["blinded content"] = []byte(p.Payload), digest[:], leaf.Content[:]
			}
			for what, octets := range secret {
				if holds(k.raw, octets) {
					t.Errorf("%s: it holds the %s of %s", name, what, p.URL)
				}
			}
			if guess, ok := confirms(ev, p.Op, p.URL, digest); ok {
				t.Errorf("%s: who guesses %s finds it, as revision %d", name, p.URL, guess.Revision)
			}
		}
		if want := min(1, len(ev.URL)); shown != want {
			t.Errorf("%s: %d pages of the batch are shown, want %d", name, shown, want)
		}
	}
}

func sum(b []byte) []byte { h := sha256.Sum256(b); return h[:] }

// confirms tries to find the leaf of a page in the path of another: with every
// salt that the file holds, or none, at every revision of the batch.
func confirms(ev *evaluate.Evidence, op translog.Op, url string, digest [32]byte) (translog.Leaf, bool) {
	salts := [][32]byte{{}, ev.Leaf.SaltURL, ev.Leaf.SaltContent, ev.R}
	for revision := range ev.Leaf.Revision + 20 {
		for _, su := range salts {
			for _, sc := range salts {
				leaf := translog.Leaf{Op: op, Revision: revision, Object: translog.ObjectPart(su, url)}
				if op == translog.OpPut {
					leaf.Content = translog.ContentPart(sc, digest)
				}
				if slices.Contains(ev.Set.Path, envelope.Hash(leaf.Hash())) {
					return leaf, true
				}
			}
		}
	}
	return translog.Leaf{}, false
}

// What confirms finds nothing of can be found, where the salts are known.
func TestAPageWhoseSaltsAreKnownIsFoundInAPath(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	ev := s.evidence(t, 0)
	for i, p := range s.batch.Pages {
		if i == 0 || p.Decision != s.batch.Pages[0].Decision {
			continue
		}
		su, sc := s.LeafKey.Salts(s.JournalEpoch, s.batch.Revision(i), sha256.Sum256([]byte(p.URL)))
		known := *ev
		known.Leaf.SaltURL, known.Leaf.SaltContent = su, sc
		if leaf, ok := confirms(&known, p.Op, p.URL, sha256.Sum256([]byte(p.Payload))); ok && leaf.Revision == s.batch.Revision(i) {
			return
		}
	}
	t.Error("no neighbour's leaf is in the path")
}
