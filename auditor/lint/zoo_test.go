package lint_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// options are those of a lint of an indexer's log.
func options(indexer *identity.Local) lint.Options {
	return lint.Options{Card: indexer.Card, Now: now, Workers: 2}
}

// judge lints a log over HTTP.
func judge(t testing.TB, l *zoo.Log, o lint.Options) *lint.Report {
	t.Helper()
	r, err := lintOnce(t, l, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lintOnce(t testing.TB, l *zoo.Log, o lint.Options) (*lint.Report, error) {
	t.Helper()
	server := httptest.NewServer(l.Handler())
	defer server.Close()
	c, err := remote.New(server.URL, o.Card.Log.VKey, remote.Options{Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return lint.Remote(t.Context(), c, o)
}

func TestAnHonestLogIsClean(t *testing.T) {
	s := stage.New(t, 1)
	r := judge(t, zoo.Honest(t, s.Indexer, now, zoo.Lie{}), options(s.Indexer))
	if !r.OK() || r.EntriesChecked != 25 || r.Grants != 7 || r.Collections != 5 || r.Checkpoints != 7 {
		t.Errorf("%d entries, %d grants, %d collections, %d checkpoints:\n%s", r.EntriesChecked, r.Grants, r.Collections, r.Checkpoints, r)
	}
}

// TestAGrantEndsWithItsLastSecond takes pages in a second before a grant's end, at
// it, and after it.
func TestAGrantEndsWithItsLastSecond(t *testing.T) {
	s, began := stage.New(t, 1), now.Add(-time.Minute)
	for left, want := range map[time.Duration]lint.Rule{time.Second: "", 0: lint.Expired, -time.Second: lint.Expired} {
		g := zoo.Grant{Series: "a", Name: "a", Life: 30*time.Second + left}
		script := zoo.NewScript(s.Indexer, began)
		script.Now = began.Add(30 * time.Second)
		script.Journal(g, 7)
		script.Batch(g, 1, zoo.Part{Decision: translog.Include, Pages: 1})
		r := judge(t, zoo.New(t, s.Indexer, script.Drafts, []uint64{0, 1}, now, zoo.Lie{}), options(s.Indexer))
		if want == "" && !r.OK() || want != "" && (len(r.Violations) != 1 || r.Violations[0].Rule != want) {
			t.Errorf("%s before the end, want %q:\n%s", left, want, r)
		}
	}
}

// TestWhatWasDeletedIsHeldByNoGrant has another grant go on in the same journal
// epoch: without a rebind only after a revocation that left nothing.
func TestWhatWasDeletedIsHeldByNoGrant(t *testing.T) {
	s := stage.New(t, 1)
	grant := func(name string) zoo.Grant { return zoo.Grant{Series: "a", Name: name, Life: 1000 * time.Hour} }
	first, second, third := grant("a1"), grant("a2"), grant("a3")
	for _, tt := range []struct {
		name   string
		gone   func(*zoo.Script)
		broken bool
	}{
		{"all of it was deleted", func(s *zoo.Script) { s.Stop(first, "r", "", 3); s.Delete(first, "r", "", 3) }, false},
		{"all of it was deleted, as the newer grant says", func(s *zoo.Script) { s.Stop(second, "r", "", 3); s.Delete(second, "r", "", 3) }, false},
		{"a part of it was deleted", func(s *zoo.Script) { s.Stop(first, "r", "a part", 3); s.Delete(first, "r", "a part", 3) }, true},
		{"all of it was stopped", func(s *zoo.Script) { s.Stop(first, "r", "", 3) }, true},
		{"nothing was", func(*zoo.Script) {}, true},
	} {
		script := zoo.NewScript(s.Indexer, now.Add(-time.Hour))
		script.Journal(first, 7)
		script.Batch(first, 3, zoo.Part{Decision: translog.Include, Pages: 3})
		tt.gone(script)
		script.Batch(third, 1, zoo.Part{Decision: translog.Include, Pages: 1})
		r := judge(t, zoo.New(t, s.Indexer, script.Drafts, []uint64{0, 0}, now, zoo.Lie{}), options(s.Indexer))
		if broken := len(r.Violations) == 1 && r.Violations[0].Rule == lint.Rebind; broken != tt.broken || !broken && !r.OK() {
			t.Errorf("%s:\n%s", tt.name, r)
		}
	}
}

// TestEachDishonestLogIsFound serves one log for each kind of lie.
func TestEachDishonestLogIsFound(t *testing.T) {
	s, stranger := stage.New(t, 1), stage.New(t, 2).Indexer
	for _, k := range zoo.Dishonest(stranger) {
		t.Run(k.Name, func(t *testing.T) {
			r := judge(t, zoo.Honest(t, s.Indexer, now, k.Lie), options(s.Indexer))
			for _, v := range r.Violations {
				if v.Rule == k.Rule {
					return
				}
			}
			t.Errorf("%s is not found:\n%s", k.Rule, r)
		})
	}
}
