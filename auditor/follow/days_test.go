package follow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// TestManyLogsOverManyHours follows six logs for 36 hours, with a round each hour and
// a new process now and then. One log forks, one rolls back and one falls silent,
// each at its hour; each is alerted of in that very round, with what proves it, and
// the alert outlives every restart. The other three are never accused.
func TestManyLogsOverManyHours(t *testing.T) {
	const forks, rolls, silent = 1, 3, 5
	random := rand.New(rand.NewPCG(7, 48))
	var all []*liar
	for i := range 6 {
		l := newLiar(t, byte(i+1))
		indexer, err := identity.Create(t.TempDir(), identity.Options{
			Identity: "spiffe://search.example/indexer", Role: identity.Indexer, Now: l.stage.Now.Add(-48 * time.Hour),
			Endpoint: "search.example:7443", LogURL: "https://log.search.example", LogOrigin: fmt.Sprintf("log%d.search.example/1", i),
		})
		check(t, err)
		l.stage.Indexer = indexer
		all = append(all, l)
	}
	dir := t.TempDir()
	open := func() *Set {
		o := all[0].options(dir) // all clocks are one
		var logs []Log
		for _, l := range all {
			logs = append(logs, Log{URL: l.url, Card: l.card()})
		}
		s, err := Open(o, logs)
		check(t, err)
		return s
	}
	set := open()
	defer func() { check(t, set.Close()) }()
	want := make([]Kind, len(all))
	for hour := range 36 {
		for i, l := range all {
			l.pass(time.Hour)
			switch {
			case i == silent && hour >= 8:
				continue
			case want[i] != "":
			case random.IntN(4) > 0:
				l.grow(1+random.IntN(12), nil)
			}
			l.refresh()
			if i == forks && hour == 15 {
				l.rewrite(int(l.size) / 2)
				want[i] = Fork
				l.grow(3, nil)
			}
			if i == rolls && hour == 25 {
				l.set(func() { l.size /= 2 })
				want[i] = Rollback
			}
		}
		if hour == 10 { // two hours and more after its last checkpoint
			want[silent] = Stale
		}
		if random.IntN(3) == 0 {
			check(t, set.Close())
			set = open()
		}
		for i, r := range set.Once(t.Context()) {
			all[i].judged(t, hour, r, want[i], dir)
		}
	}
}

// judged compares a round with what it should find.
func (l *liar) judged(t *testing.T, hour int, r *Report, want Kind, dir string) {
	t.Helper()
	switch {
	case want == "" && (!r.OK() || r.Verified != l.size):
		t.Errorf("hour %d, %s: %d of %d entries are verified, %+v, %v", hour, l.url, r.Verified, l.size, r.Violations, r.Err)
	case want == "":
	case len(r.Violations) != 1:
		t.Errorf("hour %d, %s: %d alerts, want %s: %+v, %v", hour, l.url, len(r.Violations), want, r.Violations, r.Err)
	case want == Fork || want == Rollback:
		v := r.Violations[0]
		if !slices.Contains([]Kind{want, Inconsistent}, v.Rule) {
			t.Errorf("hour %d: %s, want %s", hour, v.Rule, want)
		}
		before, err := translog.OpenNote(alertFile(t, dir, v, "old.note"), l.card().Log.VKey)
		check(t, err)
		now, err := translog.OpenNote(alertFile(t, dir, v, "new.note"), l.card().Log.VKey)
		check(t, err)
		if now.Size >= before.Size && l.leaves.At(now.Origin, before.Size) == before {
			t.Errorf("hour %d: notes of %d and %d entries contradict nothing", hour, before.Size, now.Size)
		}
	default:
		if r.Violations[0].Rule != want {
			t.Errorf("hour %d: %s, want %s", hour, r.Violations[0].Rule, want)
		}
	}
}
