package publisher

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Result is what one push did for one indexer and collection. Its JSON form
// is that of `publisherd push --json`.
type Result struct {
	Indexer      envelope.Name   `json:"indexer"`
	Collection   string          `json:"collection"`
	JournalEpoch uint64          `json:"journal_epoch"`
	Revision     uint64          `json:"revision"`
	Sent         int             `json:"sent"`
	Deleted      int             `json:"deleted"`
	Unchanged    uint64          `json:"unchanged"`
	OutOfScope   int             `json:"out_of_scope"`
	Refused      []RefusedItem   `json:"refused"`
	Skipped      []SkippedItem   `json:"skipped"`
	Receipts     []envelope.Hash `json:"receipts"`
	TreeSize     uint64          `json:"tree_size"`
	WireOut      int64           `json:"wire_bytes_out"`
	WireIn       int64           `json:"wire_bytes_in"`
	Seconds      float64         `json:"seconds"`
}

// A RefusedItem is a page that the indexer, or this publisher, left out.
type RefusedItem struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// A SkippedItem is a file that gave no page.
type SkippedItem struct {
	Location string `json:"location"`
	Reason   string `json:"reason"`
}

// refuse notes a page that will not be offered.
func (r *Result) refuse(url, reason string) {
	r.Refused = append(r.Refused, RefusedItem{url, reason})
}

// add counts what a receipt acknowledged.
func (r *Result) add(a *evaluate.Accepted, items []offered, all []decided) {
	r.Receipts = append(r.Receipts, a.Receipt.ID)
	r.TreeSize = a.Tree.Size
	for i, d := range all {
		switch {
		case d.decision == translog.Exclude && items[i].Op == translog.OpPut:
			r.refuse(items[i].URL, d.reason)
		case items[i].Op == translog.OpTombstone:
			r.Deleted++
		default:
			r.Sent++
		}
	}
}

// ErrNothingToPush is returned when no grant names a collection to push.
var ErrNothingToPush = errors.New("no grant to push under; issue one with grant issue")

// PushOptions narrows one push.
type PushOptions struct {
	// Indexer, when set, is the only indexer to push to.
	Indexer envelope.Name
	// AllowMassDelete lets a scan delete however many pages are gone.
	AllowMassDelete bool
}

// Push scans every collection that a grant in force names, brings each indexer
// up to date, and returns one result for each indexer and collection. A
// relationship that fails does not hold up the others; the errors are joined.
func (p *Publisher) Push(ctx context.Context, o PushOptions) ([]Result, error) {
	byIndexer, err := p.live(o.Indexer)
	if err != nil {
		return nil, err
	}
	cols, reports, err := p.scanAll(ctx, byIndexer, o.AllowMassDelete)
	if err != nil {
		return nil, err
	}
	var all []Result
	var errs []error
	for _, name := range sortedNames(byIndexer) {
		results, err := p.pushTo(ctx, byIndexer[name], cols, reports)
		all = append(all, results...)
		if err != nil {
			p.log.Error("push", "indexer", name, "error", err)
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// live groups the series whose grant is in force by indexer.
func (p *Publisher) live(only envelope.Name) (map[envelope.Name][]*Relationship, error) {
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	byIndexer := make(map[envelope.Name][]*Relationship)
	for _, r := range rels {
		if only != "" && r.Indexer != only {
			continue
		}
		if err := r.Pair.Grant.Object.Fresh(p.now()); err != nil {
			p.log.Warn("grant not in force", "series", r.Series, "error", err)
			continue
		}
		byIndexer[r.Indexer] = append(byIndexer[r.Indexer], r)
	}
	if len(byIndexer) == 0 {
		return nil, ErrNothingToPush
	}
	return byIndexer, nil
}

func sortedNames(m map[envelope.Name][]*Relationship) []envelope.Name {
	names := make([]envelope.Name, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
	return names
}

// scanAll scans each collection once, however many indexers want it.
func (p *Publisher) scanAll(ctx context.Context, byIndexer map[envelope.Name][]*Relationship, massDelete bool) (map[string]*collection, map[string]ScanReport, error) {
	cols := make(map[string]*collection)
	reports := make(map[string]ScanReport)
	for _, name := range sortedNames(byIndexer) {
		for _, r := range byIndexer[name] {
			if cols[r.Collection] != nil {
				continue
			}
			c, err := p.collection(r.Collection)
			if err != nil {
				return nil, nil, err
			}
			report, err := p.scan(ctx, c, massDelete)
			if err != nil {
				return nil, nil, err
			}
			cols[r.Collection], reports[r.Collection] = c, report
		}
	}
	return cols, reports, nil
}

// pushTo runs one session with one indexer over all its series.
func (p *Publisher) pushTo(ctx context.Context, rels []*Relationship, cols map[string]*collection, reports map[string]ScanReport) ([]Result, error) {
	start := time.Now()
	s, err := p.dial(ctx, rels)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rels[0].Indexer, err)
	}
	defer s.close()
	var all []Result
	for _, r := range rels {
		result := Result{Indexer: r.Indexer, Collection: r.Collection, Refused: []RefusedItem{}, Skipped: []SkippedItem{}, Receipts: []envelope.Hash{}, TreeSize: s.tree.Size}
		for _, k := range reports[r.Collection].Skipped {
			result.Skipped = append(result.Skipped, SkippedItem{k.Location, k.Reason})
		}
		err := s.push(ctx, r, cols[r.Collection], &result)
		if err == nil {
			err = p.countUnchanged(r, &result)
		}
		result.WireOut, result.WireIn = s.wire.out.Swap(0), s.wire.in.Swap(0)
		result.Seconds = time.Since(start).Seconds()
		start = time.Now()
		all = append(all, result)
		if err != nil {
			return all, fmt.Errorf("%s, collection %s: %w", r.Indexer, r.Collection, err)
		}
	}
	return all, nil
}

func (p *Publisher) countUnchanged(r *Relationship, result *Result) error {
	c, err := agreement{p.store, r}.cursor(p.store)
	if err != nil {
		return err
	}
	result.Unchanged = c.Pages - min(c.Pages, uint64(result.Sent))
	return nil
}
