package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// A Log is one log to be followed.
type Log struct {
	URL  string
	Card *identity.Card // of its indexer; names origin and key
	// Witnesses must have cosigned what it shows; nil asks for none.
	Witnesses *witness.Policy
	// Notes are files, and folders of files, with notes that others were shown.
	Notes []string
	// Rules has entries judged by the rules of their profile as they come.
	Rules bool
	// Reload, if it is not nil, reads the card again before each round.
	Reload func() (*identity.Card, error)
	// Visit, if it is not nil, is called for each entry that was verified, in
	// order, by one goroutine. After a crash some come again.
	Visit func(index uint64, o *envelope.Object, e *translog.Entry)
}

// A follower follows one log. One goroutine at a time calls round; only figures
// is for others too.
type follower struct {
	o     *Options
	log   Log
	vkey  string
	http  *remote.Client
	slots chan struct{} // held while signatures are verified; shared by all logs
	words *slog.Logger

	state *state // nil until it is read, and after a write that failed
	saved []byte // as it is on the disk
	judge *judge // nil unless the log's entries are judged; likewise
	// views are the trees of others that were found consistent, at most maxViews.
	views map[translog.Tree]bool

	// figuresMu guards figures.
	figuresMu sync.Mutex
	figures   Figures
}

func newFollower(o *Options, log Log, slots chan struct{}) (*follower, error) {
	if log.Card == nil || log.Card.Log == nil {
		return nil, fmt.Errorf("%s: the card is not that of an indexer, which has a log", log.URL)
	}
	vkey := log.Card.Log.VKey
	if log.Witnesses != nil && !log.Witnesses.Covers(vkey) {
		return nil, fmt.Errorf("the witness policy for %s is for other logs", log.URL)
	}
	client, err := remote.New(log.URL, vkey, o.Remote)
	if err != nil {
		return nil, err
	}
	f := &follower{
		o: o, log: log, vkey: vkey, http: client, slots: slots, views: make(map[translog.Tree]bool),
		words: o.Logger.With("log", log.Card.Log.Origin),
	}
	f.figures = Figures{Origin: f.origin(), Errors: make(map[Reason]uint64), Alerts: make(map[Kind]int)}
	return f, nil
}

func (f *follower) origin() string { return f.log.Card.Log.Origin }

// load reads the state, or begins one.
func (f *follower) load() error {
	if f.state != nil {
		return nil
	}
	s, err := readState(f.o.Dir, f.origin())
	if err != nil {
		return err
	}
	if s == nil {
		s = &state{Format: format, Origin: f.origin(), VKey: f.vkey, Begun: envelope.At(f.o.Now())}
		if err := s.open(); err != nil {
			return err
		}
	}
	if s.VKey != f.vkey {
		return fmt.Errorf("%s: %w: it is of the log %s with the key %s, the card names the key %s; a log never changes its key",
			statePath(f.o.Dir, f.origin()), ErrState, s.Origin, s.VKey, f.vkey)
	}
	if f.log.Rules {
		if f.judge, err = readJudge(f.o.Dir, f.origin(), s.Verified); err != nil {
			return err
		}
	}
	s.URL = f.http.URL()
	f.state, f.saved = s, nil
	f.figuresMu.Lock()
	defer f.figuresMu.Unlock()
	n := &f.figures
	n.Size, n.Verified, n.Succeeded, n.Issued = s.seen.Size, s.Verified, s.Succeeded.Time, s.Issued.Time
	return nil
}

// save writes the state if it has changed. After an error the disk decides.
func (f *follower) save() error {
	raw, err := f.state.encode()
	if err == nil && f.judge != nil {
		// Never behind the state: what comes again is passed over.
		err = f.judge.save(f.o.disk, f.o.Dir, f.origin())
	}
	if err == nil {
		if slices.Equal(raw, f.saved) {
			return nil
		}
		err = f.o.disk.Write(statePath(f.o.Dir, f.origin()), raw)
	}
	if err != nil {
		f.state = nil
		return fmt.Errorf("state of %s: %w", f.origin(), err)
	}
	f.saved = raw
	return nil
}

// round looks at the log once.
func (f *follower) round(whole context.Context) *Report {
	ctx, cancel := context.WithTimeout(whole, f.o.Limit)
	defer cancel()
	r := &Report{Origin: f.origin(), URL: f.http.URL()}
	err := f.refreshCard()
	if err == nil {
		err = f.load()
	}
	var standing []*Alert
	if err == nil {
		standing, err = readAlerts(f.o.Dir, f.vkey)
	}
	if err == nil && !slices.ContainsFunc(standing, func(a *Alert) bool { return a.Kind.halts() }) {
		err = f.attempts(ctx, r)
		var found *Alert
		if errors.As(err, &found) {
			err = f.raise(found)
		}
		err = errors.Join(err, f.late())
		again, readErr := readAlerts(f.o.Dir, f.vkey)
		standing, err = again, errors.Join(err, readErr)
	}
	if f.state != nil {
		r.TreeSize, r.Verified, r.CheckpointAt = f.state.seen.Size, f.state.Verified, f.state.Issued
	}
	for _, a := range standing {
		r.Violations = append(r.Violations, Violation{Index: a.Index, Rule: a.Kind, Detail: a.Detail, Folder: a.Folder, At: a.At})
	}
	r.fail(err)
	if whole.Err() == nil { // a round that was broken off says nothing of the log
		f.note(r)
	}
	return r
}

// attempts asks again for what is not proven by signatures: it may have been
// changed or cached on its way.
func (f *follower) attempts(ctx context.Context, r *Report) error {
	for try := 1; ; try++ {
		err := f.once(ctx, r)
		var a *Alert
		if !errors.As(err, &a) || a.proven || try == f.o.Confirm || f.state == nil {
			return err
		}
		if err := pause(ctx, f.o.ConfirmAfter); err != nil {
			return err
		}
	}
}

// once takes the steps of a round.
func (f *follower) once(ctx context.Context, r *Report) error {
	if err := f.advance(ctx); err != nil {
		return err
	}
	if err := f.compareViews(ctx, r); err != nil {
		return err
	}
	if err := f.judgeCheckpoint(ctx); err != nil {
		return err
	}
	if err := f.judgeWitnesses(r); err != nil {
		return err
	}
	if err := f.verifyEntries(ctx, r); err != nil {
		return err
	}
	f.state.Succeeded = envelope.At(f.o.Now())
	return f.save()
}

// late raises the alarm of a log that shows nothing new that verifies: neither a
// round that found all well, nor a checkpoint, is younger than Stale.
func (f *follower) late() error {
	s := f.state
	if s == nil {
		return nil // the disk failed, which is told already
	}
	now := f.o.Now()
	well := s.Succeeded
	if well.IsZero() {
		well = s.Begun
	}
	var detail string
	switch {
	case now.Sub(well.Time) > f.o.Stale:
		detail = fmt.Sprintf("no round has found all well since %s, which is longer than %s", well, f.o.Stale)
	case !s.Issued.IsZero() && now.Sub(s.Issued.Time) > f.o.Stale:
		detail = fmt.Sprintf("the newest checkpoint is of %s, which is longer ago than %s", s.Issued, f.o.Stale)
	default:
		return nil
	}
	return f.raise(f.alert(Stale, s.seen.Size, "%s", detail))
}

// alert begins an alert with the notes of the state.
func (f *follower) alert(k Kind, index uint64, format string, args ...any) *Alert {
	a := &Alert{
		At: envelope.At(f.o.Now()), Kind: k, Origin: f.origin(), URL: f.http.URL(), VKey: f.vkey,
		Index: index, Detail: clean(fmt.Sprintf(format, args...)), files: make(map[string][]byte),
	}
	if f.state.Note != "" {
		a.files["old.note"] = []byte(f.state.Note)
	}
	if f.state.Seen != "" {
		a.files["new.note"] = []byte(f.state.Seen)
	}
	return a
}

// raise keeps an alert, unless the same one stands already.
func (f *follower) raise(a *Alert) error {
	a.identify()
	standing, err := readAlerts(f.o.Dir, f.vkey)
	if err != nil {
		return errors.Join(a, err)
	}
	if slices.ContainsFunc(standing, func(b *Alert) bool { return b.ID == a.ID }) {
		return nil
	}
	if len(standing) >= maxAlerts {
		return fmt.Errorf("%d alerts stand for %s, which is the most; not kept: %w", len(standing), a.Origin, a)
	}
	if err := a.keep(f.o.disk, f.o.Dir); err != nil {
		return fmt.Errorf("the alert could not be kept: %w", errors.Join(a, err))
	}
	f.words.Error("alert", "kind", a.Kind, "detail", a.Detail, "folder", a.Folder)
	return nil
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
