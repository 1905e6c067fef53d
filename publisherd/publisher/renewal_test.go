package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

const oneDay = 24 * time.Hour

// A keeper is the part of a daemon that looks after grants, with a clock of its
// own and a log that can be read.
type keeper struct {
	t   testing.TB
	p   *Publisher
	now time.Time
	log bytes.Buffer
}

func newKeeper(t testing.TB, dir string) *keeper {
	k := &keeper{t: t, now: noon}
	k.p = &Publisher{
		pulse: newPulse(),
		dir:   dir, clock: func() time.Time { return k.now }, edits: make(map[string]*sync.Mutex),
		log: slog.New(slog.NewTextHandler(&k.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	}
	k.open()
	t.Cleanup(func() { check(t, k.p.store.Close()) })
	return k
}

func (k *keeper) open() {
	k.t.Helper()
	store, err := durable.Open(filepath.Join(k.p.dir, "store"), durable.Options{})
	check(k.t, err)
	k.p.store = store
}

// keeps looks after the grants at a time, and returns what was logged.
func (k *keeper) keeps(at time.Time) string {
	k.t.Helper()
	k.now = at
	k.log.Reset()
	_, err := k.p.keepGrants(time.Minute)
	check(k.t, err)
	return k.log.String()
}

func TestAGrantRenewsItselfInTime(t *testing.T) {
	dir := newFolder(t)
	r, _, err := IssueGrant(dir, GrantRequest{Indexer: peerName, Source: "docs", Scope: scopeOf(t, "https://example.com/docs/"), Purposes: grants.Purposes{grants.SearchIndex}}, noon)
	check(t, err)
	if _, err := SetRenewal(dir, r.Series, 14*oneDay, 60*oneDay, noon); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(t, dir)
	find := func() *Relationship {
		t.Helper()
		r, err := FindGrant(dir, r.Series)
		check(t, err)
		return r
	}
	if said := k.keeps(noon.Add(16*oneDay - time.Second)); said != "" || find().Pair.Grant.Object.Sequence != 1 {
		t.Errorf("a second too early: %s", said)
	}
	if said := find().Expiry(k.now); said != "expires in 14 days; the daemon renews it at 2025-11-19T12:00:00Z, and goes on until 2026-01-02T12:00:00Z" {
		t.Error(said)
	}
	if said := k.keeps(noon.Add(16 * oneDay)); !strings.Contains(said, `level=INFO msg=renewed`) || find().Pair.Grant.Object.Sequence != 2 {
		t.Errorf("at its time: %s", said)
	}
	if end := find().Pair.ExpiresAt(); !end.Equal(noon.Add(46 * oneDay)) {
		t.Errorf("until %s", end)
	}
	if said := k.keeps(noon.Add(16 * oneDay)); said != "" || find().Pair.Grant.Object.Sequence != 2 {
		t.Errorf("again at once: %s", said)
	}
	k.keeps(noon.Add(32 * oneDay))
	// 60 days after it was wished nothing is renewed any more.
	if said := k.keeps(noon.Add(61 * oneDay)); !strings.Contains(said, "level=WARN msg=\"grant expires soon\"") || find().Pair.Grant.Object.Sequence != 3 {
		t.Errorf("behind the end of the wish: %s", said)
	}
	if r := find(); !r.Alert(k.now) || !strings.Contains(r.Expiry(k.now), "it renews itself no more") {
		t.Errorf("told as %q", r.Expiry(k.now))
	}
	if said := k.keeps(noon.Add(90 * oneDay)); !strings.Contains(said, "grant expired") || find().Pair.Grant.Object.Sequence != 3 {
		t.Errorf("behind its end: %s", said)
	}
}

func TestARenewalThatIsRefusedStops(t *testing.T) {
	for _, tt := range []struct {
		name string
		deny func(t *testing.T, dir, file string)
		why  string
	}{
		{"the source denies", func(t *testing.T, dir, _ string) {
			var p content.Preferences
			p.State(content.PurposeSearchIndex, content.No, "allow_search_indexing in the policy")
			check(t, keepPreferences(dir, "docs", p))
		}, "allow_search_indexing in the policy"},
		{"a statement denies", func(t *testing.T, _, file string) {
			check(t, os.WriteFile(file, []byte("Content-Usage: search=n\n"), 0o644))
		}, "f line 1: Content-Usage search=n"},
		{"a statement says nothing any more", func(t *testing.T, _, file string) {
			check(t, os.WriteFile(file, []byte("Content-Usage: train-ai=n\n"), 0o644))
		}, "no statement allows it"},
		{"a statement allows one purpose less", func(t *testing.T, _, file string) {
			check(t, os.WriteFile(file, []byte("Content-Signal: search=yes\n"), 0o644))
		}, "the statements on which the grant rests allow [search.index] now"},
		{"a statement is gone", func(t *testing.T, _, file string) { check(t, os.Remove(file)) }, "cannot be read"},
		{"the source is gone", func(t *testing.T, dir, _ string) { check(t, RemoveSource(dir, "docs")) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := newFolder(t)
			s := statement(t, "f", "Content-Signal: search=yes, ai-input=yes\n")
			r, _, err := IssueGrant(dir, GrantRequest{
				Indexer: peerName, Source: "docs", Scope: scopeOf(t, "https://example.com/docs/"), Statements: []*Statement{s},
				Purposes: grants.Purposes{grants.RAGRetrieve, grants.SearchIndex},
			}, noon)
			check(t, err)
			_, err = SetRenewal(dir, r.Series, 14*oneDay, 0, noon)
			check(t, err)
			k := newKeeper(t, dir)
			tt.deny(t, dir, s.File)
			k.now = noon.Add(17 * oneDay)
			_, err = k.p.keepGrants(time.Minute)
			after, ferr := FindGrant(dir, r.Series)
			check(t, ferr)
			if after.Pair.Grant.Object.ID != r.Pair.Grant.Object.ID {
				t.Fatal("it was renewed")
			}
			if tt.why == "" { // no refusal: it is tried again
				if err == nil || after.Renewal.Stopped != "" {
					t.Errorf("%v, stopped by %q", err, after.Renewal.Stopped)
				}
				return
			}
			check(t, err)
			if !strings.Contains(after.Renewal.Stopped, tt.why) || !strings.Contains(k.log.String(), "level=ERROR msg=\"renewal stopped\"") || !after.Alert(k.now) {
				t.Errorf("stopped by %q, logged %s", after.Renewal.Stopped, k.log.String())
			}
			if said := k.keeps(k.now.Add(time.Hour)); said != "" {
				t.Errorf("told again: %s", said)
			}
		})
	}
}

func TestAWishIsWithinItsBounds(t *testing.T) {
	dir := newFolder(t)
	r := mustIssue(t, dir, scopeOf(t, "https://example.com/docs/")) // lives a day
	for _, tt := range []struct {
		name           string
		within, during time.Duration
		at             time.Time
		ok             bool
	}{
		{"half its life", 12 * time.Hour, 0, noon, true},
		{"more than half its life", 12*time.Hour + time.Second, 0, noon, false},
		{"less than a second", time.Millisecond, 0, noon, false},
		{"before nothing", -time.Hour, 0, noon, false},
		{"a year", time.Hour, MaxRenewal, noon, true},
		{"more than a year", time.Hour, MaxRenewal + time.Second, noon, false},
		{"when it has expired", time.Hour, 0, noon.Add(oneDay), false},
		{"taken back", 0, 0, noon.Add(oneDay), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := SetRenewal(dir, r.Series, tt.within, tt.during, tt.at); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrRenewal) {
				t.Errorf("SetRenewal = %v", err)
			}
		})
	}
}

// TestARenewalByItselfNeverWidens draws grants and compares what their renewal
// says, for machines and for people.
func TestARenewalByItselfNeverWidens(t *testing.T) {
	dir := newFolder(t)
	permission := rapid.SampledFrom([]grants.Permission{"", grants.Allowed, grants.Denied})
	n := 0
	rapid.Check(t, func(d *rapid.T) {
		n++
		common := grants.CommonPurposes()
		purposes := grants.Purposes(rapid.SliceOfNDistinct(rapid.SampledFrom(common), 1, 4, func(p grants.Purpose) grants.Purpose { return p }).Draw(d, "purposes"))
		slices.Sort(purposes)
		days := rapid.Uint64Range(0, 50).Draw(d, "days")
		q := GrantRequest{
			Indexer: peerName, Source: "docs", Scope: scopeOf(t, fmt.Sprintf("https://example.com/%d/", n)), Purposes: purposes, Lifetime: time.Duration(1+days) * oneDay,
			Listing: rapid.SampledFrom([]grants.Listing{grants.ListingBlinded, grants.ListingPublic}).Draw(d, "listing"),
			Terms: grants.PolicyTerms{
				Redistribution: permission.Draw(d, "redistribution"), Derivatives: grants.Derivatives{Other: permission.Draw(d, "other")},
				Retention: &grants.RetentionTerms{CachedCopyDays: &days}, Attribution: &grants.Attribution{LinkBack: days%2 == 0},
			},
			Constraints: grants.Constraints{RetentionDays: days, MaxBytesPerDay: days * 1000},
		}
		r, _, err := IssueGrant(dir, q, noon)
		if err != nil {
			d.Fatal(err)
		}
		later := noon.Add(time.Hour)
		renewed, _, err := RenewGrant(dir, r.Series, RenewRequest{Of: r.Pair.Grant.Object.ID}, later)
		if err != nil {
			d.Fatal(err)
		}
		if renewed.life() != r.life() {
			d.Fatalf("a life of %s, after %s", renewed.life(), r.life())
		}
		was, is := grants.Describe(r.Pair), grants.Describe(renewed.Pair)
		if !slices.Equal(was[:len(was)-1], is[:len(is)-1]) {
			d.Fatalf("described as\n%s\nafter\n%s", strings.Join(is, "\n"), strings.Join(was, "\n"))
		}
		if _, _, err := RenewGrant(dir, r.Series, RenewRequest{Of: r.Pair.Grant.Object.ID}, later); !errors.Is(err, errOvertaken) {
			d.Fatalf("renewed twice: %v", err)
		}
		check(t, os.Remove(filepath.Join(dir, "grants", r.Series+".json"))) // the next draw need not read it
	})
}

func TestEachAlertComesOnce(t *testing.T) {
	dir := newFolder(t)
	r, _, err := IssueGrant(dir, GrantRequest{Indexer: peerName, Source: "docs", Scope: scopeOf(t, "https://example.com/docs/"), Purposes: grants.Purposes{grants.SearchIndex}}, noon)
	check(t, err)
	k := newKeeper(t, dir)
	end := r.Pair.ExpiresAt()
	for _, tt := range []struct {
		name   string
		before time.Duration
		level  string // "" for no alert
	}{
		{"before the first", 14*oneDay + time.Second, ""},
		{"14 days before", 14 * oneDay, "WARN"},
		{"once", 14*oneDay - time.Hour, ""},
		{"7 days before", 7*oneDay - time.Second, "WARN"},
		{"the last day, of two alerts the more urgent", oneDay, "WARN"},
		{"once again", time.Second, ""},
		{"at the end", 0, "ERROR"},
		{"and never again", -100 * oneDay, ""},
	} {
		for round := range 2 { // the second behind a restart
			want := tt.level
			if round == 1 {
				want = ""
				check(t, k.p.store.Close())
				k.open()
			}
			said := k.keeps(end.Add(-tt.before))
			if strings.Count(said, "\n") != len(want)/4 || !strings.Contains(said, "level="+want) && want != "" {
				t.Errorf("%s, round %d: %q, want %q", tt.name, round, said, want)
			}
		}
		r, err := FindGrant(dir, r.Series)
		check(t, err)
		if alert := r.Alert(k.now); alert != (tt.before <= 14*oneDay) {
			t.Errorf("%s: status shows an alert: %v", tt.name, alert)
		}
	}
	// A renewal begins anew.
	r, _, err = RenewGrant(dir, r.Series, RenewRequest{Lifetime: 3 * oneDay}, k.now)
	check(t, err)
	if said := k.keeps(k.now); said != "" {
		t.Errorf("a life of 3 days has no alert 14 days before its end: %s", said)
	}
	if said := k.keeps(r.Pair.ExpiresAt().Add(-oneDay)); !strings.Contains(said, "expires in 1 day; nothing renews it by itself") {
		t.Errorf("on its last day: %s", said)
	}
}

func TestTheDaemonWakesWhenAGrantIsDue(t *testing.T) {
	dir := newFolder(t)
	r := mustIssue(t, dir, scopeOf(t, "https://example.com/docs/"))
	k := newKeeper(t, dir)
	k.now = r.Pair.ExpiresAt().Add(-20 * time.Second)
	if next, err := k.p.keepGrants(time.Minute); err != nil || next != 20*time.Second {
		t.Errorf("next in %s, %v", next, err)
	}
	k.now = r.Pair.ExpiresAt().Add(time.Hour)
	if next, err := k.p.keepGrants(time.Minute); err != nil || next != time.Minute {
		t.Errorf("next in %s, %v", next, err)
	}
}

func TestOneSignsAtATime(t *testing.T) {
	dir := newFolder(t)
	r := mustIssue(t, dir, scopeOf(t, "https://example.com/docs/"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, _, err := RenewGrant(dir, r.Series, RenewRequest{}, noon.Add(time.Hour)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	sequences := make(map[uint64]envelope.Hash)
	files, err := filepath.Glob(filepath.Join(dir, "grants", "objects", "*.json"))
	check(t, err)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		check(t, err)
		g, err := grants.ReadGrant(raw)
		if err != nil {
			continue // a policy
		}
		if other, twice := sequences[g.Object.Sequence]; twice {
			t.Errorf("%s and %s both have sequence %d", other, g.Object.ID, g.Object.Sequence)
		}
		sequences[g.Object.Sequence] = g.Object.ID
	}
	if len(sequences) != 9 {
		t.Errorf("%d grants", len(sequences))
	}
}
