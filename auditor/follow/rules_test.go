package follow

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// judged is one round over a log of the zoo, by its rules.
func judged(t *testing.T, s *stage.Stage, l *zoo.Log, dir string, now time.Time, change func(*Log)) *Report {
	t.Helper()
	server := httptest.NewServer(l.Handler())
	defer server.Close()
	o := (&liar{t: t, now: now}).options(dir)
	log := Log{URL: server.URL, Card: s.Indexer.Card, Rules: true}
	if change != nil {
		change(&log)
	}
	set, err := Open(o, []Log{log})
	check(t, err)
	defer func() { check(t, set.Close()) }()
	return set.Once(t.Context())[0]
}

func TestEntriesThatBreakARuleAreAlertedOf(t *testing.T) {
	s, stranger := stage.New(t, 1), stage.New(t, 2).Indexer
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	if r := judged(t, s, zoo.Honest(t, s.Indexer, now, zoo.Lie{}), t.TempDir(), now, nil); !r.OK() || r.Verified != 25 {
		t.Fatalf("the honest log: %+v", r)
	}
	seen := 0
	for _, k := range zoo.Dishonest(stranger) {
		if k.Rule.OfCheckpoint() || k.Lie.Octets != nil || k.Lie.Log != nil || k.Lie.Serve != nil || k.Lie.Publish != nil {
			continue // found in other ways
		}
		dir := t.TempDir()
		r := judged(t, s, zoo.Honest(t, s.Indexer, now, k.Lie), dir, now, nil)
		if r.OK() {
			t.Errorf("%s: nothing is found", k.Name)
		}
		for _, v := range r.Violations {
			if v.Rule == BrokenRule && strings.Contains(v.Detail, "the rule "+string(k.Rule)+":") {
				seen++
				if r.Verified < 20 || len(alertFile(t, dir, v, "entry.json")) == 0 {
					t.Errorf("%s: %d entries are verified, and the log is not followed on", k.Name, r.Verified)
				}
				break
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d lies are found by their rule", seen)
	}
}

// TestRulesHoldAcrossRounds stops between the two entries that contradict one
// another, and loses what was judged, or the state of the log, in between.
func TestRulesHoldAcrossRounds(t *testing.T) {
	s := stage.New(t, 1)
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	lie := zoo.Lie{Script: func(s *zoo.Script) {
		s.Batch(zoo.Grant{Series: "b", Name: "b1", Life: 1000 * time.Hour}, 1, zoo.Part{Decision: translog.Include, Pages: 1})
	}}
	half := zoo.Lie{Drafts: func(all []zoo.Draft) []zoo.Draft { return all[:17] }, Publish: func([]uint64) []uint64 { return []uint64{0, 17} }}
	for _, tt := range []struct {
		name   string
		spoil  func(dir string)
		broken bool
		err    bool
	}{
		{"nothing", func(string) {}, true, false},
		{"what was judged", func(dir string) { check(t, os.Remove(rulesPath(dir, s.Origin()))) }, false, false},
		{"an octet of it", func(dir string) {
			raw, err := os.ReadFile(rulesPath(dir, s.Origin()))
			check(t, err)
			raw[10] ^= 1
			check(t, os.WriteFile(rulesPath(dir, s.Origin()), raw, 0o600))
		}, false, true},
	} {
		dir := t.TempDir()
		if r := judged(t, s, zoo.Honest(t, s.Indexer, now, half), dir, now, nil); !r.OK() || r.Verified != 17 {
			t.Fatalf("%s: the first half: %+v", tt.name, r)
		}
		tt.spoil(dir)
		if tt.err {
			o := (&liar{t: t, now: now}).options(dir)
			if set, err := Open(o, []Log{{URL: "http://127.0.0.1:1", Card: s.Indexer.Card, Rules: true}}); err == nil {
				t.Errorf("%s: it is used", tt.name)
				set.Close()
			}
			continue
		}
		r := judged(t, s, zoo.Honest(t, s.Indexer, now, lie), dir, now, nil)
		broken := slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Rule == BrokenRule && strings.Contains(v.Detail, "revoked") })
		if broken != tt.broken || r.Verified != 26 {
			t.Errorf("without %s: %+v", tt.name, r)
		}
	}
}

// TestAnEntryDatedBackIsAlertedOf signs an entry as of a time at which the log had
// signed that it is not there.
func TestAnEntryDatedBackIsAlertedOf(t *testing.T) {
	s := stage.New(t, 1)
	now, dir := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), t.TempDir()
	if r := judged(t, s, zoo.Honest(t, s.Indexer, now, zoo.Lie{}), dir, now, nil); !r.OK() {
		t.Fatalf("before it: %+v", r)
	}
	script := zoo.Course(s.Indexer, now.Add(-time.Hour))
	for i := range 2 {
		script.Batch(zoo.Grant{Series: "a", Name: "a3", Life: 1000 * time.Hour}, 1, zoo.Part{Decision: translog.Update, Pages: 1})
		now = now.Add(time.Minute)
		r := judged(t, s, zoo.New(t, s.Indexer, script.Drafts, zoo.Sizes(), now, zoo.Lie{}), dir, now, nil)
		if r.Verified != uint64(26+i) || len(r.Violations) != 1 || !strings.Contains(r.Violations[0].Detail, "breaks the rule time") {
			t.Errorf("round %d: %d entries, %+v", i+2, r.Verified, r.Violations)
		}
		script.Now = now.Add(30 * time.Second) // what comes next tells its time
	}
}

func TestANewCardCountsInTheNextRound(t *testing.T) {
	s, other := stage.New(t, 1), stage.New(t, 2)
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	l := zoo.Honest(t, s.Indexer, now, zoo.Lie{})
	newer := *s.Indexer.Card
	o := *newer.Object
	o.ID = envelope.Hash{1}
	newer.Object = &o
	for _, tt := range []struct {
		name string
		card *identity.Card
		ok   bool
	}{
		{"the same", s.Indexer.Card, true},
		{"a newer one of the same log", &newer, true},
		{"one of another log", other.Indexer.Card, false},
	} {
		asked := 0
		r := judged(t, s, l, filepath.Join(t.TempDir(), "state"), now, func(log *Log) {
			log.Reload = func() (*identity.Card, error) { asked++; return tt.card, nil }
		})
		if r.OK() != tt.ok || asked != 1 {
			t.Errorf("%s: %+v, asked %d times", tt.name, r, asked)
		}
	}
}

func TestALogThatGoesOnFromAnotherIsNotJudgedByWhatStandsThere(t *testing.T) {
	for _, tt := range []struct {
		name  string
		goes  *translog.Continues
		clean bool
	}{
		{"a log that begins", nil, false},
		{"a log that goes on", &translog.Continues{Origin: "log.search.example/0", Root: zoo.Hash("its end"), Size: 5}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, dir := newLiar(t, 1), t.TempDir()
			l.continues = tt.goes
			l.grow(1, nil) // moves three pages, of which this log has not told
			r := l.follow(dir, func(_ *Options, log *Log) { log.Rules = true })
			if r.Err != nil || r.Verified != 1 || r.OK() != tt.clean {
				t.Fatalf("%+v", r)
			}
			l.grow(1, func(d *draft) { d.body.GrantExpiresAt = envelope.At(l.now.Add(-time.Hour)) })
			if r := l.follow(dir, func(_ *Options, log *Log) { log.Rules = true }); r.OK() {
				t.Error("what its own entries contradict is not judged in the next round")
			}
		})
	}
}
