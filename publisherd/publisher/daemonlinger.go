package publisher

import (
	"slices"
	"time"
)

// linger keeps rounds that asked for a push while the indexer still means to ask
// for pages, for attendMost at the most, and returns whether it does. The loop
// goes on meanwhile, so that nothing waits for them; what is asked for until then
// is added to their results.
func (l *indexerLoop) linger(rounds []*round, rels []*Relationship, results []Result) bool {
	waiting := func(r Result) bool { return r.Waiting > 0 }
	if len(rounds) == 0 || len(results) != len(rels) || !slices.ContainsFunc(results, waiting) {
		return false
	}
	now := time.Now()
	for _, r := range rounds {
		if r.until.IsZero() {
			r.until = now.Add(attendMost)
		}
		if !now.Before(r.until) {
			return false
		}
	}
	l.partial = make(map[string]Result, len(results))
	for i, r := range results {
		l.partial[rels[i].Series] = r
	}
	l.roundsMu.Lock()
	defer l.roundsMu.Unlock()
	l.lingering = append(rounds, l.lingering...)
	return true
}

// patience is how long the first of the lingering rounds still waits.
func (l *indexerLoop) patience() (left time.Duration, any bool) {
	l.roundsMu.Lock()
	defer l.roundsMu.Unlock()
	for _, r := range l.lingering {
		if d := time.Until(r.until); !any || d < left {
			left, any = d, true
		}
	}
	return left, any
}
