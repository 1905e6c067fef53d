package lint_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// long is a course of about n entries, with the last of its grants.
func long(s *stage.Stage, n int) (*zoo.Script, zoo.Grant) {
	g := zoo.Grant{Series: "long", Name: "long", Life: 10000 * time.Hour}
	script := zoo.Course(s.Indexer, now.Add(-1000*time.Hour))
	script.Journal(g, 7)
	script.Batch(g, 1, zoo.Part{Decision: translog.Include, Pages: 1})
	for len(script.Drafts) < n {
		script.Batch(g, 1, zoo.Part{Decision: translog.Update, Pages: 1})
	}
	return script, g
}

// cut is the script's log as it was when it had n entries. It published a
// checkpoint at each of the sizes that tests cut it at.
func cut(t *testing.T, s *stage.Stage, script *zoo.Script, n int) *zoo.Log {
	var sizes []uint64
	for _, size := range []uint64{0, 21, 590, 600, 700, 720, 721, uint64(n)} {
		if size < uint64(n) {
			sizes = append(sizes, size)
		}
	}
	return zoo.New(t, s.Indexer, script.Drafts[:n], append(sizes, uint64(n)), script.Drafts[n-1].IssuedAt, zoo.Lie{})
}

// resumed are the options of a lint that asks for few checkpoints.
func resumed(s *stage.Stage, dir string) lint.Options {
	o := options(s.Indexer)
	o.State, o.Ask, o.MaxAge = dir, 40, 10000*time.Hour
	return o
}

func TestACheckGoesOnWhereItStopped(t *testing.T) {
	s := stage.New(t, 1)
	script, g := long(s, 800)
	// A lie in the part that is read first, one behind a full bundle, and one that
	// can only be told by who remembers the first part.
	script.Drafts[20].Profile = "another"
	script.Drafts[700].LogOrigin = "another"
	script.Batch(zoo.Grant{Series: "b", Name: "b1", Life: 10000 * time.Hour}, 1, zoo.Part{Decision: translog.Include, Pages: 1})
	script.Batch(g, 1, zoo.Part{Decision: translog.Update, Pages: 1})
	o := resumed(s, "")
	whole := judge(t, cut(t, s, script, len(script.Drafts)), o)
	if whole.Found() < 3 {
		t.Fatalf("without a break:\n%s", whole)
	}
	o = resumed(s, t.TempDir())
	var r *lint.Report
	for _, n := range []int{21, 600, 720, 721, len(script.Drafts), len(script.Drafts)} {
		r = judge(t, cut(t, s, script, n), o)
	}
	if r.ResumedAt != 768 { // the last full bundle
		t.Errorf("went on at %d", r.ResumedAt)
	}
	if got, want := words(r), words(whole); got != want {
		t.Errorf("with breaks:\n%s\nwithout:\n%s", got, want)
	}
}

// words are the violations of a report.
func words(r *lint.Report) string {
	var b strings.Builder
	for _, v := range r.Violations {
		b.WriteString(v.String() + "\n")
	}
	return b.String()
}

func TestACheckThatIsInterruptedGoesOn(t *testing.T) {
	s := stage.New(t, 1)
	script, _ := long(s, 16*translog.TileWidth+700)
	log := cut(t, s, script, len(script.Drafts))
	server := httptest.NewServer(log.Handler())
	defer server.Close()
	c, err := remote.New(server.URL, s.Indexer.Card.Log.VKey, remote.Options{Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	o := resumed(s, t.TempDir())
	o.Progress = func(done, _ uint64) {
		if done > 17*translog.TileWidth {
			cancel()
		}
	}
	if _, err := lint.Remote(ctx, c, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	o.Progress = nil
	r := judge(t, log, o)
	if !r.OK() || r.ResumedAt != 16*translog.TileWidth || r.EntriesChecked != uint64(len(script.Drafts)) || r.Grants != 8 {
		t.Errorf("went on at %d, %d entries, %d grants:\n%s", r.ResumedAt, r.EntriesChecked, r.Grants, r)
	}
}

func TestAChangedHistoryIsFound(t *testing.T) {
	s := stage.New(t, 1)
	script, _ := long(s, 700)
	changed, _ := long(s, 700)
	changed.Drafts[100].State = zoo.Hash("another")
	for _, tt := range []struct {
		name string
		log  *zoo.Log
		rule lint.Rule
	}{
		{"the same log, grown", cut(t, s, script, 700), ""},
		{"the same log as it was", cut(t, s, script, 600), ""},
		{"a log that is smaller", cut(t, s, script, 590), lint.Rollback},
		{"another log of the same size", cut(t, s, changed, 600), lint.Fork},
		{"another log that has grown", cut(t, s, changed, 700), lint.Fork},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := resumed(s, t.TempDir())
			if r := judge(t, cut(t, s, script, 600), o); !r.OK() {
				t.Fatal(r)
			}
			r := judge(t, tt.log, o)
			if (tt.rule == "") != r.OK() || tt.rule != "" && r.Violations[0].Rule != tt.rule {
				t.Errorf("want %q:\n%s", tt.rule, r)
			}
		})
	}
}

func TestAStateOfAnotherLogIsRefused(t *testing.T) {
	s, other := stage.New(t, 1), stage.New(t, 2)
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, path string)
	}{
		{"of another key", func(t *testing.T, path string) {
			o := options(other.Indexer)
			o.State = filepath.Dir(path)
			judge(t, zoo.Honest(t, other.Indexer, now, zoo.Lie{}), o)
		}},
		{"that is no state", func(t *testing.T, path string) { write(t, path, "{}") }},
		{"that is no JSON", func(t *testing.T, path string) { write(t, path, "\x00") }},
		{"with a frontier beyond its tree", func(t *testing.T, path string) {
			o := options(s.Indexer)
			o.State = filepath.Dir(path)
			judge(t, zoo.Honest(t, s.Indexer, now, zoo.Lie{}), o)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			hash := `"` + strings.Repeat("A", 43) + `="`
			write(t, path, strings.Replace(string(raw), `"frontier":[]`, `"frontier":["",`+hash+`]`, 1))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options(s.Indexer)
			o.State = t.TempDir()
			tt.change(t, filepath.Join(o.State, "lint.json"))
			c, err := remote.New("http://127.0.0.1:1", s.Indexer.Card.Log.VKey, remote.Options{Tries: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := lint.Remote(t.Context(), c, o); !errors.Is(err, lint.ErrState) {
				t.Errorf("%v, want %v", err, lint.ErrState)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestViolationsAreBounded serves a log in which every entry breaks a rule.
func TestViolationsAreBounded(t *testing.T) {
	s := stage.New(t, 1)
	script, _ := long(s, 300)
	for i := range script.Drafts {
		script.Drafts[i].Profile = "another"
	}
	o := resumed(s, "")
	o.Limit = 7
	if r := judge(t, cut(t, s, script, 300), o); len(r.Violations) != 7 || r.Found() != 300 {
		t.Errorf("%d listed, %d found", len(r.Violations), r.Found())
	}
}

// TestAnEntryDatedBackBetweenRunsIsFound has a log sign nothing but refreshes for
// five hours, and then an entry as of their beginning. Who saw a refresh knows
// better; who did not cannot tell.
func TestAnEntryDatedBackBetweenRunsIsFound(t *testing.T) {
	s := stage.New(t, 1)
	script, g := long(s, 300)
	o := resumed(s, t.TempDir())
	quiet := script.Drafts[299].IssuedAt.Add(5 * time.Hour)
	if r := judge(t, zoo.New(t, s.Indexer, script.Drafts, []uint64{0, 300}, quiet, zoo.Lie{}), o); !r.OK() {
		t.Fatalf("before it:\n%s", r)
	}
	script.Batch(g, 1, zoo.Part{Decision: translog.Update, Pages: 1})
	l := zoo.New(t, s.Indexer, script.Drafts, []uint64{0, 300, 301}, quiet.Add(time.Hour), zoo.Lie{})
	if r := judge(t, l, o); len(r.Violations) != 1 || r.Violations[0].Index != 300 || r.Violations[0].Rule != lint.Time {
		t.Errorf("by who saw a refresh:\n%s", r)
	}
	o.State = ""
	if r := judge(t, l, o); !r.OK() {
		t.Errorf("by who did not:\n%s", r)
	}
}
