package evaluate_test

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// TestEveryChangedOctetIsInvalid changes each octet of a file, one at a time,
// once by its lowest bit and once by another that depends on the place.
func TestEveryChangedOctetIsInvalid(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	raw, o := seal(t, s.evidence(t, 0)), s.options()
	o.Checkpoints = [][]byte{s.Note(t, s.Size())}
	if r := evaluate.Verify(t.Context(), raw, o); r.Verdict != evaluate.Proven {
		t.Fatalf("unchanged: %s: %s", r.Verdict, last(r))
	}
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			changed := bytes.Clone(raw)
			for i := w; i < len(raw); i += workers {
				for _, mask := range []byte{1, 2 << (i % 7)} {
					changed[i] ^= mask
					if r := evaluate.Verify(t.Context(), changed, o); r.Verdict != evaluate.Invalid {
						t.Errorf("octet %d of %d changed from %q to %q: %s", i, len(raw), raw[i], changed[i], r.Verdict)
					}
				}
				changed[i] = raw[i]
			}
		})
	}
	wg.Wait()
}

// TestAResealedChangeIsInvalid changes a file as its maker could: the changed
// file gets its own evidence_id. What is signed, or leads to what is signed,
// still gives the change away.
func TestAResealedChangeIsInvalid(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	s.Grow(5)
	raw, o := seal(t, s.evidence(t, 0)), s.options()
	resealed := 0
	rapid.Check(t, func(rt *rapid.T) {
		changed := bytes.Clone(raw)
		i := rapid.IntRange(0, len(raw)-1).Draw(rt, "octet")
		changed[i] ^= rapid.ByteRange(1, 255).Draw(rt, "mask")
		var ev evaluate.Evidence
		if json.Unmarshal(changed, &ev, json.RejectUnknownMembers(true)) != nil || ev.Version != evaluate.EvidenceVersion {
			return
		}
		again, err := evaluate.Seal(&ev)
		if err != nil || bytes.Equal(again, raw) { // the change was one of form, or in evidence_id
			return
		}
		resealed++
		if r := evaluate.Verify(t.Context(), again, o); r.Verdict != evaluate.Invalid {
			rt.Fatalf("octet %d changed from %q to %q and sealed again: %s", i, raw[i], changed[i], r.Verdict)
		}
	})
	if resealed == 0 {
		t.Error("no change could be sealed again: nothing was shown")
	}
}

func TestSealedFileHoldsEachArtefactAsItIs(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	raw := seal(t, s.evidence(t, 0))
	for _, part := range [][]byte{s.answer.Receipt, s.answer.Entries[0], s.answer.Checkpoint, s.batch.Manifest.Raw,
		s.Pair.Grant.Object.Raw, s.Pair.Policy.Object.Raw, s.Indexer.Card.Object.Raw, s.Publisher.Card.Object.Raw} {
		if !bytes.Contains(raw, part) {
			t.Errorf("the file does not hold the octets of %.80s…", part)
		}
	}
	ev, err := evaluate.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if again := seal(t, ev); !bytes.Equal(again, raw) {
		t.Error("parsed and sealed again, the file differs")
	}
}

func TestAFileOfAnotherFormIsRefused(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	deep := jsontext.Value(strings.Repeat(`{"a":`, envelope.MaxDepth+2) + "1" + strings.Repeat("}", envelope.MaxDepth+2))
	for _, tt := range []struct {
		name   string
		change func(*evaluate.Evidence)
	}{
		{"a put with both forms of its content", func(ev *evaluate.Evidence) { ev.Leaf.ContentPart = envelope.Hash{1} }},
		{"a put with neither", func(ev *evaluate.Evidence) { ev.Leaf.SaltContent, ev.Digest = evaluate.Salt{}, envelope.Hash{} }},
		{"a salt without its digest", func(ev *evaluate.Evidence) { ev.Digest = envelope.Hash{} }},
		{"a tombstone with content", func(ev *evaluate.Evidence) { ev.Leaf.Op = translog.OpTombstone }},
		{"an operation that there is not", func(ev *evaluate.Evidence) { ev.Leaf.Op = 3 }},
		{"no salt of the URL", func(ev *evaluate.Evidence) { ev.Leaf.SaltURL = evaluate.Salt{} }},
		{"a receipt without a manifest", func(ev *evaluate.Evidence) { ev.Manifest = nil }},
		{"a revocation without an acknowledgement", func(ev *evaluate.Evidence) { ev.Revocation = ev.Grant }},
		{"no URL", func(ev *evaluate.Evidence) { ev.URL = "" }},
		{"a URL that would move the cursor", func(ev *evaluate.Evidence) { ev.URL = "https://example.com/\x1b[2J" }},
		{"a URL that reads the other way", func(ev *evaluate.Evidence) { ev.URL = "https://example.com/\u202e" }},
		{"no entry", func(ev *evaluate.Evidence) { ev.Entry = nil }},
		{"seventeen cards", func(ev *evaluate.Evidence) {
			for len(ev.Cards) <= evaluate.MaxCards {
				ev.Cards = append(ev.Cards, ev.Cards[0])
			}
		}},
		{"a path that is longer than any tree's", func(ev *evaluate.Evidence) { ev.Set.Path = make([]envelope.Hash, 65) }},
		{"nesting beyond an artefact's", func(ev *evaluate.Evidence) { ev.Entry = deep }},
		{"more than the greatest size", func(ev *evaluate.Evidence) {
			ev.Entry = jsontext.Value(`["` + strings.Repeat(`aaaaaaaaaaaaaaaa","`, evaluate.MaxEvidence/18) + `"]`)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ev := s.evidence(t, 0)
			tt.change(ev)
			if raw, err := evaluate.Seal(ev); err == nil {
				t.Errorf("sealed as %.200s…", raw)
			}
		})
	}
}

func TestSaltIsWrittenInOneForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[A-Za-z0-9_=+/\n-]{42,44}`).Draw(t, "text")
		var s evaluate.Salt
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		if again, err := s.MarshalText(); err != nil || string(again) != text {
			t.Fatalf("%q is read and written as %q, %v", text, again, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	s := newScene(f, stage.New(f, 1))
	for i := range s.batch.Pages {
		f.Add(seal(f, s.evidence(f, i)))
	}
	f.Add(seal(f, s.Deleted(f, s.batch, 0, nil)))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ev, err := evaluate.Parse(raw)
		if err == nil {
			if again, err := evaluate.Seal(ev); err != nil || !bytes.Equal(again, raw) {
				t.Errorf("parsed and sealed again: %v\n%s\nwant\n%s", err, again, raw)
			}
		} else {
			// What does not name itself is named, to get at what lies behind.
			ev = new(evaluate.Evidence)
			if json.Unmarshal(raw, ev) != nil {
				return
			}
			if raw, err = evaluate.Seal(ev); err != nil {
				return
			}
		}
		r := evaluate.Verify(t.Context(), raw, s.options())
		if r.Verdict == evaluate.Proven || len(r.Checks) == 0 || len(r.NotProven) == 0 {
			t.Errorf("%s without a checkpoint from elsewhere, checks or limits: %+v", r.Verdict, r)
		}
	})
}
