package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// cardFile is the card of a stage's indexer, in a file.
func cardFile(t *testing.T, s *stage.Stage) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "indexer.json")
	if err := os.WriteFile(path, s.Indexer.Card.Object.Raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lintOf runs the command on a log, and gives the rules that it names.
func lintOf(t *testing.T, l *zoo.Log, f lintFlags) (rules []lint.Rule, code cli.Code) {
	t.Helper()
	server := httptest.NewServer(l.Handler())
	defer server.Close()
	var out, progress bytes.Buffer
	f.json = true
	err := runLint(t.Context(), &out, &progress, server.URL, f)
	var report struct{ Violations []lint.Violation }
	if bad := json.Unmarshal(out.Bytes(), &report); bad != nil || progress.Len() > 0 {
		t.Fatalf("%v, printed %q, and %q", bad, &out, &progress)
	}
	for _, v := range report.Violations {
		rules = append(rules, v.Rule)
	}
	if err == nil {
		return rules, cli.OK
	}
	return rules, cli.CodeOf(err)
}

// TestTheCommandNamesEachLieAndFails runs lint over the whole zoo: the honest log
// ends with 0, every other one with 1, and the rule is named.
func TestTheCommandNamesEachLieAndFails(t *testing.T) {
	s, stranger := stage.New(t, 1), stage.New(t, 2).Indexer
	f := lintFlags{key: cardFile(t, s)}
	now := time.Now()
	if rules, code := lintOf(t, zoo.Honest(t, s.Indexer, now, zoo.Lie{}), f); code != cli.OK || len(rules) > 0 {
		t.Errorf("the honest log ends with %d: %q", code, rules)
	}
	all := zoo.Dishonest(stranger)
	if len(all) < 30 {
		t.Errorf("only %d kinds", len(all))
	}
	for _, k := range all {
		t.Run(k.Name, func(t *testing.T) {
			rules, code := lintOf(t, zoo.Honest(t, s.Indexer, now, k.Lie), f)
			if code != cli.Failed || !slices.Contains(rules, k.Rule) {
				t.Errorf("it ends with %d and %q, want %q", code, rules, k.Rule)
			}
		})
	}
}

// TestAFrozenCheckpointIsRightForALogThatHasEnded asks for nothing new then.
func TestAFrozenCheckpointIsRightForALogThatHasEnded(t *testing.T) {
	s := stage.New(t, 1)
	log := zoo.Honest(t, s.Indexer, time.Now().Add(-24*time.Hour), zoo.Lie{})
	f := lintFlags{key: cardFile(t, s)}
	if rules, code := lintOf(t, log, f); code != cli.Failed || !slices.Equal(rules, []lint.Rule{lint.Frozen}) {
		t.Errorf("it ends with %d: %q", code, rules)
	}
	f.ended = true
	if rules, code := lintOf(t, log, f); code != cli.OK || len(rules) > 0 {
		t.Errorf("that has ended: %d, %q", code, rules)
	}
}

// TestLyingReceiptsAndProofsFail shows what no log shows, and verify finds: a
// receipt, or a proof, that is not of what is in the log.
func TestLyingReceiptsAndProofsFail(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule evaluate.Rule
		lie  stage.Lie
		file func(t *testing.T, s *stage.Stage, ev *evaluate.Evidence)
	}{
		{"a receipt for a set that was not logged", evaluate.RuleEntries, stage.Lie{
			Receipt: func(_ *envelope.Header, r *translog.Receipt) { r.Entries[0].Root = zoo.Hash("another") },
		}, nil},
		{"a receipt for an entry that is another", evaluate.RuleEntries, stage.Lie{
			Receipt: func(_ *envelope.Header, r *translog.Receipt) { r.Entries[0].ObjectID = zoo.Hash("another") },
		}, nil},
		{"a receipt for another batch", evaluate.RuleBatch, stage.Lie{
			Receipt: func(_ *envelope.Header, r *translog.Receipt) { r.BatchID = zoo.Hash("another") },
		}, nil},
		{"a receipt under another checkpoint", evaluate.RuleCheckpoint, stage.Lie{
			Receipt: func(_ *envelope.Header, r *translog.Receipt) { r.Checkpoint.Root = zoo.Hash("another") },
		}, nil},
		{"a checkpoint of another log", evaluate.RuleSequence, stage.Lie{
			Checkpoint: func(_ *envelope.Header, c *translog.Checkpoint) { c.LogOrigin = "log.search.example/9" },
		}, nil},
		{"a proof of the wrong size", evaluate.RuleInclusion, stage.Lie{}, func(_ *testing.T, _ *stage.Stage, ev *evaluate.Evidence) { ev.Inclusion.Size-- }},
		{"a proof of another entry", evaluate.RuleInclusion, stage.Lie{}, func(_ *testing.T, s *stage.Stage, ev *evaluate.Evidence) {
			ev.Inclusion.Hashes = translog.Hashes(s.Log.Inclusion(3, ev.Inclusion.Size))
		}},
		{"a note of a fork", evaluate.RuleConsistency, stage.Lie{}, func(t *testing.T, s *stage.Stage, ev *evaluate.Evidence) {
			fork := slices.Clone(s.Log)
			fork[1] = [32]byte{1}
			ev.Note = string(s.SignNote(t, fork.At(s.Origin(), s.Size())))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stage.New(t, 1)
			b := s.Offer(t, stage.Pages()...)
			ev := s.Evidence(t, b, s.Answer(t, b, 5, tt.lie), 0, s.Size())
			if tt.file != nil {
				tt.file(t, s, ev)
			}
			raw, err := evaluate.Seal(ev)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "evidence.json")
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = verify(t.Context(), &out, path, verifyFlags{keys: []string{cardFile(t, s)}, require: "included", json: true})
			var report evaluate.Report
			if bad := json.Unmarshal(out.Bytes(), &report); bad != nil || len(report.Checks) == 0 {
				t.Fatalf("%v: %s", bad, &out)
			}
			last := report.Checks[len(report.Checks)-1]
			if err == nil || cli.CodeOf(err) != cli.Failed || report.Verdict != evaluate.Invalid || last.Rule != tt.rule {
				t.Errorf("%v; %s by %s: %s, want %s", err, report.Verdict, last.Rule, last.Detail, tt.rule)
			}
		})
	}
}

// TestTheCommandRemembersAndNamesForkAndRollback shows a log twice: what it showed
// first is in the state folder.
func TestTheCommandRemembersAndNamesForkAndRollback(t *testing.T) {
	s := stage.New(t, 1)
	now := time.Now()
	for _, tt := range []struct {
		name string
		rule lint.Rule
		then zoo.Lie
	}{
		{"a fork", lint.Fork, zoo.Lie{Drafts: func(all []zoo.Draft) []zoo.Draft { all[3].State = zoo.Hash("another"); return all }}},
		{"a fork that has grown", lint.Fork, zoo.Lie{
			Drafts: func(all []zoo.Draft) []zoo.Draft { all[3].State = zoo.Hash("another"); return all },
			Script: func(s *zoo.Script) {
				s.Batch(zoo.Grant{Series: "a", Name: "a3", Life: 1000 * time.Hour}, 1, zoo.Part{Decision: translog.Update, Pages: 1})
			},
		}},
		{"a rollback", lint.Rollback, zoo.Lie{
			Drafts:  func(all []zoo.Draft) []zoo.Draft { return all[:21] },
			Publish: func([]uint64) []uint64 { return []uint64{0, 2, 5, 9, 14, 21} },
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := lintFlags{key: cardFile(t, s), state: t.TempDir()}
			if rules, code := lintOf(t, zoo.Honest(t, s.Indexer, now, zoo.Lie{}), f); code != cli.OK {
				t.Fatalf("at first: %d, %q", code, rules)
			}
			if rules, code := lintOf(t, zoo.Honest(t, s.Indexer, now, tt.then), f); code != cli.Failed || !slices.Contains(rules, tt.rule) {
				t.Errorf("it ends with %d and %q, want %q", code, rules, tt.rule)
			}
		})
	}
}
