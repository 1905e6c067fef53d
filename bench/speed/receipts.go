package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/fleet"
	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/peer"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

const (
	idleReceipts   = 200
	revocations    = 20
	leastReceipts  = 20 // under load, to say anything of a tail
	editor         = "editor.test"
	consenter      = "consent.test"
	editorsPages   = 100
	consentersLife = time.Hour
)

// receipts measures how long the receipt of one page takes in an open session, and
// the acknowledgement of a revocation, while nothing else happens and while another
// publisher pushes all it has.
func receipts(ctx context.Context, dir string, in input) (r ratio.Round, err error) {
	r = make(ratio.Round)
	if r["receipt/floor"], err = peer.Receipts(dir, idleReceipts); err != nil {
		return r, err
	}
	f, err := fleet.New(ctx, dir, in.bin, 1)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	e, err := newEditor(ctx, f, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	if r["receipt/idle"], r["receipt/edit"], err = e.edit(ctx, func(n int) bool { return n < idleReceipts }); err != nil {
		return r, err
	}
	w, err := newConsenter(ctx, f, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	pushed := make(chan error, 1)
	go func() {
		_, _, err := pushAll(ctx, f, in.collection, in.pages)
		pushed <- err
	}()
	done := func() bool { return len(pushed) > 0 }
	withdrawn := make(chan error, 1)
	var acknowledged load.Sample
	go func() {
		var err error
		acknowledged, err = w.withdraw(ctx, done)
		withdrawn <- err
	}()
	r["receipt/loaded"], _, err = e.edit(ctx, func(int) bool { return !done() })
	err = errors.Join(err, <-withdrawn, <-pushed)
	r["revocation/loaded"] = acknowledged
	return r, err
}

// An editorial is a publisher whose daemon runs in this process, so that its
// session stays open and nothing is started for a push.
type editorial struct {
	site, name string
	daemon     *publisher.Daemon
	stop       func() error
	edits      int
}

func newEditor(ctx context.Context, f *fleet.Fleet, dir string) (*editorial, error) {
	e := &editorial{site: filepath.Join(dir, "site")}
	if err := os.MkdirAll(e.site, 0o755); err != nil {
		return nil, err
	}
	for range editorsPages {
		if err := e.write(); err != nil {
			return nil, err
		}
	}
	p, err := f.Join(ctx, editor, fleet.Source{Kind: "site", Location: e.site})
	if err != nil {
		return nil, err
	}
	pub, err := publisher.Open(publisher.Config{Dir: p.Dir})
	if err != nil {
		return nil, err
	}
	e.daemon = publisher.NewDaemon(pub, publisher.DaemonOptions{})
	ctx, cancel := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- e.daemon.Run(ctx) }()
	e.stop = func() error {
		cancel()
		return errors.Join(<-ran, pub.Close())
	}
	if _, err := e.daemon.Push(ctx, publisher.PushOptions{}); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

// write gives the next page other words.
func (e *editorial) write() error {
	e.edits++
	n := e.edits % editorsPages
	return os.WriteFile(filepath.Join(e.site, fmt.Sprintf("p%d.html", n)),
		fmt.Appendf(nil, "<!DOCTYPE html><html lang=en><title>Page %d</title><p>Edit %d.</p></html>", n, e.edits), 0o644)
}

// edit edits one page after the other, for as long as more says, and waits for the
// receipt of each: receipt is from the journal on, whole from the edit on.
func (e *editorial) edit(ctx context.Context, more func(n int) bool) (receipt, whole load.Sample, err error) {
	var inside, all load.Histogram
	began := time.Now()
	for n := 0; more(n); n++ {
		if err := e.write(); err != nil {
			return receipt, whole, err
		}
		start := time.Now()
		results, err := e.daemon.Push(ctx, publisher.PushOptions{})
		if err != nil {
			return receipt, whole, err
		}
		// The daemon's own watch may have been quicker: then there was nothing to send.
		if len(results) == 1 && results[0].Sent == 1 {
			all.Add(time.Since(start))
			inside.Add(time.Duration(results[0].Seconds * float64(time.Second)))
		}
	}
	if inside.Count() < leastReceipts {
		return receipt, whole, fmt.Errorf("only %d receipts were measured", inside.Count())
	}
	return summary(&inside, began), summary(&all, began), nil
}

func summary(h *load.Histogram, began time.Time) load.Sample {
	return load.Sample{Rate: float64(h.Count()) / time.Since(began).Seconds(), P50: h.Quantile(0.50), P99: h.Quantile(0.99)}
}

// A consent is a publisher that grants, and withdraws.
type consent struct {
	*publisher.Publisher
	dir, origin string
	indexer     envelope.Name
	series      string // of the grant in force
}

// grant grants all that there is.
func (w *consent) grant() error {
	scope, err := grants.PrefixScope(w.origin + "/")
	if err != nil {
		return err
	}
	rel, _, err := publisher.IssueGrant(w.dir, publisher.GrantRequest{
		Indexer: w.indexer, Source: "pages", Scope: scope, Purposes: grants.Purposes{grants.SearchIndex}, Lifetime: consentersLife,
	}, time.Now())
	if err == nil {
		w.series = rel.Series
	}
	return err
}

func newConsenter(ctx context.Context, f *fleet.Fleet, dir string) (*consent, error) {
	site := filepath.Join(dir, "consent")
	if err := os.MkdirAll(site, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(site, "index.html"), []byte("<!DOCTYPE html><title>One</title><p>One page."), 0o644); err != nil {
		return nil, err
	}
	p, err := f.Join(ctx, consenter, fleet.Source{Kind: "site", Location: site})
	if err != nil {
		return nil, err
	}
	rels, err := publisher.Relationships(p.Dir)
	if err != nil {
		return nil, err
	}
	if len(rels) != 1 {
		return nil, fmt.Errorf("%d grants where one was made", len(rels))
	}
	pub, err := publisher.Open(publisher.Config{Dir: p.Dir})
	return &consent{pub, p.Dir, p.Origin, envelope.Name(f.Indexers[0].Identity), rels[0].Series}, err
}

// withdraw withdraws a grant and makes the next until done, and measures from the
// signature of each revocation until its acknowledgement is evaluated, connection
// included.
func (w *consent) withdraw(ctx context.Context, done func() bool) (load.Sample, error) {
	var took load.Histogram
	began := time.Now()
	for n := 0; n < revocations && !done(); n++ {
		if _, err := w.Push(ctx, publisher.PushOptions{}); err != nil {
			return load.Sample{}, err
		}
		start := time.Now()
		_, err := publisher.Revoke(w.dir, publisher.RevokeRequest{Grant: w.series, Disposition: grants.DispositionStop}, start)
		if err == nil {
			err = w.DeliverRevocations(ctx, w.indexer)
		}
		if err != nil {
			return load.Sample{}, err
		}
		took.Add(time.Since(start))
		if err := w.grant(); err != nil {
			return load.Sample{}, err
		}
	}
	if took.Count() == 0 {
		return load.Sample{}, errors.New("no revocation was measured: too few pages are pushed beside it")
	}
	return summary(&took, began), nil
}
