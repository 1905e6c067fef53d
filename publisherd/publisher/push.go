package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
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
	Patched      int             `json:"patched"` // of those sent: as a difference to what is held
	Deleted      int             `json:"deleted"`
	Unchanged    uint64          `json:"unchanged"`
	OutOfScope   int             `json:"out_of_scope"`
	Withheld     int             `json:"withheld"`      // by what the pages themselves deny
	Signalled    int             `json:"signalled"`     // told of, without their content
	Asked        int             `json:"asked"`         // asked for by the indexer
	Waiting      uint64          `json:"waiting"`       // that it means to ask for later
	Refused      []RefusedItem   `json:"refused"`       // the first 10,000 of them
	RefusedCount int             `json:"refused_count"` // all of them
	Undelivered  int             `json:"undelivered"`   // those that were refused by now, by this push or one before
	Skipped      []SkippedItem   `json:"skipped"`       // the first 10,000 of them
	SkippedCount int             `json:"skipped_count"` // all of them
	Receipts     []envelope.Hash `json:"receipts"`
	Probes       int             `json:"probes"`            // pages that the indexer was asked to show
	Unshown      []RefusedItem   `json:"unshown,omitempty"` // those that it could not
	TreeSize     uint64          `json:"tree_size"`
	WireOut      int64           `json:"wire_bytes_out"`
	WireIn       int64           `json:"wire_bytes_in"`
	Handshake    int64           `json:"handshake_bytes"` // of WireOut and WireIn together, the TLS handshake's
	RoundTrips   int64           `json:"round_trips"`     // behind the handshake: how often an answer was waited for
	Seconds      float64         `json:"seconds"`

	acked func() // when set, called for each batch that was acknowledged
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

// maxRefused bounds how many refused pages a result names.
const maxRefused = 10_000

// refuse notes a page that was left out.
func (r *Result) refuse(url, reason string) {
	if r.RefusedCount++; len(r.Refused) < maxRefused {
		r.Refused = append(r.Refused, RefusedItem{url, reason})
	}
}

// add counts what a receipt acknowledged.
func (r *Result) add(a *evaluate.Accepted, items []offered, all []decided) {
	r.Receipts = append(r.Receipts, a.Receipt.ID)
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
	if r.acked != nil {
		r.acked()
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

// Push scans every collection that a grant in force names, brings the indexers
// up to date, side by side, and returns one result for each indexer and collection. A
// relationship that fails does not hold up the others; the errors are joined.
func (p *Publisher) Push(ctx context.Context, o PushOptions) ([]Result, error) {
	defer p.followFiles(ctx, nil)()
	// Withdrawn consent goes before anything else.
	waiting, late := p.DeliverPending(ctx, o.Indexer)
	byIndexer, err := p.live(o.Indexer)
	if errors.Is(err, ErrNothingToPush) && waiting > 0 {
		return nil, late
	}
	if err != nil {
		return nil, err
	}
	scans, err := p.scanAll(ctx, byIndexer, o.AllowMassDelete)
	if err != nil {
		return nil, err
	}
	all, errs := p.pushAll(ctx, byIndexer, scans)
	for _, sc := range scans {
		errs = append(errs, sc.end())
	}
	return all, errors.Join(append([]error{late}, errs...)...)
}

// pushesAtOnce is how many indexers a push brings up to date side by side. Each
// takes a connection and two batches; see also frameTurns.
const pushesAtOnce = 4

// pushAll pushes to all indexers, and gives their results by name.
func (p *Publisher) pushAll(ctx context.Context, byIndexer map[envelope.Name][]*Relationship, scans map[string]*scanned) (all []Result, errs []error) {
	names := sortedNames(byIndexer)
	results, failed := make([][]Result, len(names)), make([]error, len(names))
	ctx = sideBySide(ctx)
	var pushes errgroup.Group
	pushes.SetLimit(pushesAtOnce)
	for i, name := range names {
		pushes.Go(func() error {
			results[i], failed[i] = p.pushTo(ctx, byIndexer[name], scans)
			return nil
		})
	}
	pushes.Wait() // no push ends another: what went wrong is in failed
	for i, name := range names {
		all = append(all, results[i]...)
		if failed[i] != nil {
			p.log.Error("push", "indexer", name, "error", failed[i])
			errs = append(errs, failed[i])
		}
	}
	return all, errs
}

// live groups the series whose grant is in force by indexer.
func (p *Publisher) live(only envelope.Name) (map[envelope.Name][]*Relationship, error) {
	byIndexer, err := p.inForce(only, func(r *Relationship, err error) {
		p.log.Warn("grant not in force", "series", r.Series, "error", err)
	})
	if err == nil && len(byIndexer) == 0 {
		err = ErrNothingToPush
	}
	return byIndexer, err
}

// inForce reads all series and groups those in force by indexer; the others
// go to ended.
func (p *Publisher) inForce(only envelope.Name, ended func(*Relationship, error)) (map[envelope.Name][]*Relationship, error) {
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	byIndexer := make(map[envelope.Name][]*Relationship)
	for _, r := range rels {
		if only != "" && r.Indexer != only {
			continue
		}
		err := r.Pair.Grant.Object.Fresh(p.now())
		if r.Revoked() {
			err = grants.ErrRevoked
		}
		if err != nil {
			ended(r, err)
			continue
		}
		byIndexer[r.Indexer] = append(byIndexer[r.Indexer], r)
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

// scanAll scans each collection once, however many indexers want it. Where there is one
// alone, and nothing of it is known yet, what has been read of it can be pushed while the
// scan goes on; see growing.
func (p *Publisher) scanAll(ctx context.Context, byIndexer map[envelope.Name][]*Relationship, massDelete bool) (map[string]*scanned, error) {
	var names []string
	for _, name := range sortedNames(byIndexer) {
		for _, r := range byIndexer[name] {
			if !slices.Contains(names, r.Collection) {
				names = append(names, r.Collection)
			}
		}
	}
	scans := make(map[string]*scanned)
	if len(names) == 1 {
		sc, err := p.scanBeside(ctx, names[0], massDelete)
		if err != nil {
			return nil, err
		}
		scans[names[0]] = sc
		return scans, nil
	}
	for _, name := range names {
		sc, err := p.scanOne(ctx, name, massDelete)
		if err != nil {
			return nil, err
		}
		p.logSkipped(name, sc, nil)
		scans[name] = sc
	}
	return scans, nil
}

// scanOne brings the journal of one collection up to its source. After
// ErrMassDelete all else that changed is in the journal.
func (p *Publisher) scanOne(ctx context.Context, name string, massDelete bool) (*scanned, error) {
	c, err := p.collection(name)
	if err != nil {
		return nil, err
	}
	report, err := p.scanned(ctx, c, massDelete, nil)
	return &scanned{col: c, report: report}, err
}

// scanned scans, and takes note of it.
func (p *Publisher) scanned(ctx context.Context, c *collection, massDelete bool, grown func()) (ScanReport, error) {
	began := time.Now()
	_, span := p.trace.Start(ctx, "scan", "collection", c.name)
	report, err := p.scan(ctx, c, massDelete, grown)
	span.Count("pages", report.Pages)
	span.Count("changed", report.Changed)
	span.Count("deleted", report.Deleted)
	span.End(outcome(err))
	if ctx.Err() == nil {
		p.noteScan(c.name, began, err)
	}
	return report, err
}

// maxLogged is how many files that give no page are logged by name each time.
const maxLogged = 100

// logSkipped logs what gave no page, but for what is told in before as well.
func (p *Publisher) logSkipped(collection string, sc, before *scanned) {
	type place struct{ location, reason string }
	known := make(map[place]bool)
	named, more := 0, sc.report.SkippedCount-len(sc.report.Skipped)
	if before != nil {
		more -= before.report.SkippedCount - len(before.report.Skipped)
		for _, k := range before.report.Skipped {
			known[place{k.Location, k.Reason}] = true
		}
	}
	for _, k := range sc.report.Skipped {
		switch {
		case known[place{k.Location, k.Reason}]:
		case named == maxLogged:
			more++
		default:
			named++
			p.log.Warn("page skipped", "collection", collection, "location", k.Location, "reason", k.Reason)
		}
	}
	if more > 0 {
		p.log.Warn("more pages skipped", "collection", collection, "files", more)
	}
}

// maxAnew bounds how often one push begins a new session because certificate or
// card have changed: it ends then, and what is left is for the next push.
const maxAnew = 100

// pushTo brings one indexer up to date in all its series: in one session, unless
// another has to take its place between two batches.
func (p *Publisher) pushTo(ctx context.Context, rels []*Relationship, scans map[string]*scanned) ([]Result, error) {
	var all []Result
	var errs []error
	for range maxAnew {
		results, failed, cut := p.pushOnce(ctx, rels, scans)
		errs = append(errs, failed...)
		if n := len(all); n > 0 && len(results) > 0 { // the series that was cut goes on
			results[0] = all[n-1].plus(results[0])
			all = all[:n-1]
		}
		all = append(all, results...)
		if !cut {
			return all, errors.Join(errs...)
		}
		rels = rels[len(results)-1:]
		p.log.Info("session ended", "indexer", rels[0].Indexer, "reason", errAnew)
	}
	return all, errors.Join(append(errs, fmt.Errorf("%s: %w", rels[0].Indexer, errAnew))...)
}

// pushOnce runs one session. When it is cut the last result is of a series that
// is not at its head, and what else was to be brought is left.
func (p *Publisher) pushOnce(ctx context.Context, rels []*Relationship, scans map[string]*scanned) (all []Result, errs []error, cut bool) {
	start := time.Now()
	s, err := p.dial(ctx, rels)
	if err != nil {
		return nil, []error{fmt.Errorf("%s: %w", rels[0].Indexer, err)}, false
	}
	defer s.close()
	dialled := time.Since(start)
	defer func() {
		if len(errs) == 0 && !cut {
			errs = s.attend(ctx, rels, scans, all)
		}
	}()
	for i, r := range rels {
		result, err := s.bringGrowing(ctx, s.outdated(), r, scans[r.Collection])
		if i == 0 {
			result.Seconds += dialled.Seconds()
		}
		all = append(all, result)
		if errors.Is(err, ErrStopping) {
			return all, errs, true
		}
		if err != nil {
			errs = append(errs, err)
		}
		var refused *Refused
		if err != nil && (!errors.As(err, &refused) || s.lost.Load() != nil) {
			return all, errs, false // not of this series alone
		}
	}
	if err := p.judged(rels, s.agreedLog()); err != nil {
		errs = append(errs, err)
	}
	return all, errs, false
}

// plus is r and what next did behind it, for the same series.
func (r Result) plus(next Result) Result {
	next.Sent += r.Sent
	next.Patched += r.Patched
	next.Deleted += r.Deleted
	next.OutOfScope += r.OutOfScope
	next.Withheld += r.Withheld
	next.Signalled += r.Signalled
	next.Asked += r.Asked
	next.Refused = append(r.Refused, next.Refused...)
	next.Refused, next.RefusedCount = next.Refused[:min(len(next.Refused), maxRefused)], r.RefusedCount+next.RefusedCount
	next.Receipts = append(r.Receipts, next.Receipts...)
	next.Unchanged -= min(next.Unchanged, uint64(r.Sent)) // sent by this push, if not by this session
	next.WireOut, next.WireIn = r.WireOut+next.WireOut, r.WireIn+next.WireIn
	next.Handshake += r.Handshake
	next.RoundTrips += r.RoundTrips
	next.Seconds += r.Seconds
	next.Probes += r.Probes
	next.Unshown = append(r.Unshown, next.Unshown...)
	return next
}
