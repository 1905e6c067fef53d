package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/fsck"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// Options of a lint. Card and Now must be set.
type Options struct {
	// Card is that of the log's indexer: its keys alone count.
	Card *identity.Card
	// Now is the time by which the future is told, and what is old.
	Now time.Time
	// State is a folder in which the lint remembers where it has come to, and
	// from which it goes on. Empty begins anew, and remembers nothing.
	State string
	// Limit is how many violations are listed; 0 means 1,000.
	Limit int
	// Workers is how many bundles are verified at once; 0 means one a core.
	Workers int
	// Ask is at how many sizes, the last ones, the log is asked for what it
	// published there; 0 means 1,000.
	Ask uint64
	// MaxAge is how old the newest checkpoint of a log may be, which signs one
	// at least hourly; 0 means two hours. Ended asks for no new one.
	MaxAge time.Duration
	Ended  bool
	// Disclosed, if it is set, opens the decision sets of one collection.
	Disclosed *Disclosure
	// Progress, if it is set, is called now and then with how many entries are
	// done.
	Progress func(done, total uint64)
	// Record, if it is set, is shown each entry too, and is kept with the state.
	Record Recorder
}

// A Recorder notes what it needs of the entries of a log. It is written to the
// state as JSON, and read back from it by the run that goes on. One goroutine at
// a time calls it.
type Recorder interface {
	// Take is called with each entry that could be read, in order. sound says that
	// it is authentic, and in the place that it names.
	Take(o *envelope.Object, e *translog.Entry, sound bool)
	// Len is about how many things it has noted.
	Len() int
}

// saveEvery is after how many entries the state is written, at the least. It is
// written more seldom where it is large.
const saveEvery = 16 * translog.TileWidth

// A run is one lint of one log.
type run struct {
	o       *Options
	log     *remote.Client
	report  *Report
	checker *Checker
	pages   *pageChecker // nil without a disclosure
	state   state
	total   uint64 // entries of the tree that is read
	saved   uint64 // entries up to which the state was written
	failed  error
	cancel  context.CancelFunc

	// badMu guards bad: the entries that were read with a flaw, and are not
	// visited yet.
	badMu sync.Mutex
	bad   map[*translog.Entry]bool
}

// Remote lints the log that c reads. An error means that it could not be done:
// remote.ErrUnavailable if the log did not answer, ErrState, ErrDisclosure.
// Violations are in the report.
func Remote(ctx context.Context, c *remote.Client, o Options) (*Report, error) {
	o.Limit = cmp.Or(o.Limit, 1000)
	o.Ask = cmp.Or(o.Ask, 1000)
	o.MaxAge = cmp.Or(o.MaxAge, 2*time.Hour)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{o: &o, log: c, report: &Report{Violations: []Violation{}, NotJudged: []string{}, limit: o.Limit}, cancel: cancel, bad: make(map[*translog.Entry]bool)}
	grown, err := r.begin(ctx)
	if err != nil || !grown {
		r.report.sort()
		return r.report, err
	}
	p := &opener{card: o.Card, origin: o.Card.Log.Origin, now: o.Now}
	found, err := fsck.Remote(ctx, c, fsck.Options{
		Keys: o.Card, Indexer: o.Card.Identity, Signatures: true, Workers: o.Workers,
		Open: r.open(p), Found: r.found, Visit: r.visit, Progress: r.progress, Full: r.full,
		From: r.state.Frontier, Ask: o.Ask, After: r.state.Last,
	})
	if err := cmp.Or(r.failed, err); err != nil {
		return r.report, err
	}
	return r.report, r.end(found)
}

// begin takes up what an earlier run left, if the log still stands by it.
func (r *run) begin(ctx context.Context) (grown bool, err error) {
	var before *state
	if r.o.State != "" {
		if before, err = readState(r.o.State, r.log.VerifierKey(), r.o.Card.Identity); err != nil {
			return false, err
		}
	}
	r.report.LogOrigin = r.o.Card.Log.Origin
	if before == nil {
		r.state = state{Profile: stateProfile, Origin: r.o.Card.Log.Origin, VKey: r.log.VerifierKey(), Indexer: r.o.Card.Identity}
		r.checker = NewChecker(r.continues(ctx))
	} else {
		r.state = *before
		if r.checker, err = before.checker(); err != nil {
			return false, err
		}
		r.report.Violations, r.report.Unlisted = append(r.report.Violations, before.Violations...), before.Unlisted
	}
	r.checker.broke = r.broke
	r.report.checker = r.checker
	if err := r.recall(before); err != nil {
		return false, err
	}
	if r.pages, err = r.o.Disclosed.checker(before, r.broke); err != nil {
		return false, err
	}
	if r.pages == nil {
		r.state.Pages, r.state.Disclosure = nil, envelope.Hash{}
	}
	r.report.ResumedAt = r.state.Frontier.Size()
	r.saved = r.report.ResumedAt
	if err := r.encode(); err != nil {
		return false, err
	}
	if before == nil || before.TreeSize == 0 {
		return true, nil
	}
	return r.sameHistory(ctx)
}

// recall gives the Record what it had noted.
func (r *run) recall(before *state) error {
	switch {
	case r.o.Record == nil || before == nil:
		return nil
	case len(before.Record) == 0:
		return fmt.Errorf("%w: it was made without a record; give this one a folder of its own", ErrState)
	}
	if err := json.Unmarshal(before.Record, r.o.Record, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%w: its record cannot be read: %w; remove it to begin anew", ErrState, err)
	}
	return nil
}

// open is that of p, which remembers flaws for visit.
func (r *run) open(p *opener) func([]byte, uint64) (*envelope.Object, *translog.Entry, error) {
	if r.o.Record == nil {
		return p.open
	}
	return func(raw []byte, index uint64) (*envelope.Object, *translog.Entry, error) {
		o, e, err := p.open(raw, index)
		if err != nil && e != nil {
			r.badMu.Lock()
			defer r.badMu.Unlock()
			r.bad[e] = true
		}
		return o, e, err
	}
}

// sound reports whether e was read without a flaw.
func (r *run) sound(e *translog.Entry) bool {
	r.badMu.Lock()
	defer r.badMu.Unlock()
	bad := r.bad[e]
	delete(r.bad, e)
	return !bad
}

// continues reports whether the log says that it goes on from another. One that
// cannot be asked is found to be so by what comes next.
func (r *run) continues(ctx context.Context) bool {
	raw, err := r.log.SignedCheckpoint(ctx)
	if err != nil {
		return false
	}
	_, body, err := translog.ParseCheckpoint(raw)
	return err == nil && body.Continues != nil
}

// sameHistory compares the log with the tree that was seen before.
func (r *run) sameHistory(ctx context.Context) (bool, error) {
	now, _, err := r.log.Checkpoint(ctx)
	if err != nil {
		return true, nil // told by what comes next
	}
	s := &r.state
	switch {
	case now.Size < s.TreeSize:
		r.broke(now.Size, Rollback, "the log had %d entries when it was seen last, and has %d", s.TreeSize, now.Size)
		return false, nil
	case now.Size == s.TreeSize:
		if now.Root != [32]byte(s.Root) {
			r.broke(now.Size, Fork, "the tree of %d entries had the root %s when it was seen last, and has %s", now.Size, s.Root, envelope.Hash(now.Root))
		}
		return now.Root == [32]byte(s.Root), nil
	}
	path, err := r.log.Consistency(ctx, s.TreeSize, now.Size)
	if errors.Is(err, remote.ErrUnavailable) || ctx.Err() != nil {
		return false, err
	}
	if err == nil {
		err = translog.VerifyConsistency(s.TreeSize, now.Size, path, [32]byte(s.Root), now.Root)
	}
	if err != nil {
		r.broke(s.TreeSize, Fork, "the tree of %d entries does not go on from that of %d which was seen last: %v", now.Size, s.TreeSize, err)
	}
	return err == nil, nil
}

func (r *run) broke(index uint64, rule Rule, format string, args ...any) {
	r.report.add(Violation{index, rule, fmt.Sprintf(format, args...)})
}

// found takes what fsck finds, of which one may be a whole tile.
func (r *run) found(f fsck.Finding) {
	rule := ruleOf(f)
	detail := f.Detail
	if f.Key != fmt.Sprintf("entry %d", f.Index) {
		detail = f.Key + ": " + f.Detail
	}
	r.report.add(Violation{f.Index, rule, detail})
}

func (r *run) visit(_ uint32, o *envelope.Object, e *translog.Entry) {
	r.checker.Take(o, e)
	if r.o.Record != nil {
		r.o.Record.Take(o, e, r.sound(e))
	}
	if r.pages != nil {
		r.pages.take(o.Sequence, e)
	}
}

func (r *run) progress(done, total uint64) {
	r.total = total
	if r.o.Progress != nil {
		r.o.Progress(done, total)
	}
}

// full is called behind each full bundle. The state is written now and then, and
// kept for the end where no other full bundle can follow.
func (r *run) full(size uint64, f fsck.Frontier) {
	last := size+translog.TileWidth > r.total
	every := max(saveEvery, 8*uint64(len(r.checker.Grants)))
	if r.o.Record != nil {
		every = max(every, 8*uint64(r.o.Record.Len()))
	}
	if r.o.State == "" || !last && size-r.saved < every {
		return
	}
	r.saved = size
	r.state.Frontier = make(fsck.Frontier, len(f))
	for i, hashes := range f {
		r.state.Frontier[i] = append([]byte{}, hashes...)
	}
	err := r.encode()
	if err == nil && !last {
		s := r.state
		// What is claimed so far is that these entries are under that root.
		s.TreeSize, s.Root, s.Last = size, f.Root(), nil
		s.Violations, s.Unlisted = r.report.Violations, r.report.Unlisted
		err = s.write(r.o.State)
	}
	if err != nil {
		r.failed = err
		r.cancel()
	}
}

// encode makes what the state says of the entries so far.
func (r *run) encode() (err error) {
	if r.o.State == "" {
		return nil
	}
	if r.state.Checker, err = json.Marshal(r.checker, json.Deterministic(true)); err != nil {
		return err
	}
	if r.pages != nil {
		r.state.Disclosure = r.o.Disclosed.id
		if r.state.Pages, err = jsontextOf(r.pages); err != nil {
			return err
		}
	}
	if r.o.Record != nil {
		r.state.Record, err = jsontextOf(r.o.Record)
	}
	return err
}

func jsontextOf(v any) (jsontext.Value, error) { return json.Marshal(v, json.Deterministic(true)) }

// end judges what can be told of a whole log, and writes the state.
func (r *run) end(found *fsck.Report) error {
	rep := r.report
	rep.TreeSize, rep.Root, rep.Checkpoints = found.TreeSize, found.Root, found.Checkpoints
	rep.EntriesChecked = rep.ResumedAt + found.Entries
	rep.Grants, rep.Collections = len(r.checker.Grants), len(r.checker.Collections)
	if n := found.Newest; n != nil {
		rep.CheckpointAt = envelope.At(n.IssuedAt)
		switch at := envelope.At(n.IssuedAt); {
		case n.IssuedAt.After(r.o.Now.Add(envelope.Skew)):
			r.broke(n.Sequence, Future, "the newest checkpoint was issued at %s, and it is %s", at, envelope.At(r.o.Now))
		case !r.o.Ended && r.o.Now.Sub(n.IssuedAt) > r.o.MaxAge:
			r.broke(n.Sequence, Frozen, "the newest checkpoint is of %s, and it is %s: what was signed since is not shown", at, envelope.At(r.o.Now))
		}
	}
	r.notJudged()
	rep.sort()
	if r.o.State == "" || found.TreeSize == 0 {
		return nil
	}
	s := r.state
	s.TreeSize, s.Root, s.Last = found.TreeSize, found.Root, found.Last
	s.Violations, s.Unlisted = rep.Violations, rep.Unlisted
	return s.write(r.o.State)
}

// notJudged says what this log leaves open.
func (r *run) notJudged() {
	note := func(format string, args ...any) {
		r.report.NotJudged = append(r.report.NotJudged, fmt.Sprintf(format, args...))
	}
	if r.checker.Continues {
		note("numbers of pages, where cursors begin, and revocations, since the log goes on from another")
	}
	shared, unsure := 0, 0
	for _, s := range r.checker.Collections {
		if s.Shared {
			shared++
		}
	}
	for _, g := range r.checker.Grants {
		if g.Unsure {
			unsure++
		}
	}
	if shared > 0 {
		note("cursors and numbers of pages of %d collections that have two subjects", shared)
	}
	if unsure > 0 {
		note("revocations of %d grants that have over %d of them", unsure, maxStops)
	}
	if r.pages == nil {
		note("single pages, for which their leaf key is needed")
	} else {
		r.report.NotJudged = append(r.report.NotJudged, r.pages.notJudged()...)
	}
}
