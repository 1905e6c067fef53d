// Package pair is a publisher and an indexer that meet in one test: two
// folders, a small site, a grant, and the real code of both sides over
// loopback. TestOnlyChangesAreSent shows the pair at work.
package pair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/tracing"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// Who the two are, and whose pages they are about.
const (
	PublisherName = envelope.Name("spiffe://docs.test/publisher")
	IndexerName   = envelope.Name("spiffe://search.test/indexer")
	Origin        = "https://docs.test"
)

// A Pair is a publisher and an indexer that trust one another, each in a
// folder of its own, and the site that the publisher reads.
type Pair struct {
	t              testing.TB
	Pub, Idx, Site string        // folders
	Name           envelope.Name // of the indexer

	Trace *tracing.Tracer // of both, from their next start on; nil makes no spans

	X       *indexer.Indexer // nil while it is stopped
	Address string           // where sessions are accepted
	Public  string           // where the programs serve the log, as the card says
	stop    func() error
}

// New makes a pair with so many pages under one grant over all of them. The
// indexer runs until the test ends.
func New(t testing.TB, pages int) *Pair {
	t.Helper()
	p := Bare(t)
	for i := range pages {
		p.Write(i, "first")
	}
	p.Grant("/")
	return p
}

// Bare is New without a page and without a grant.
func Bare(t testing.TB) *Pair {
	t.Helper()
	dir := t.TempDir()
	p := &Pair{t: t, Name: IndexerName, Pub: filepath.Join(dir, "pub"), Idx: filepath.Join(dir, "idx"), Site: filepath.Join(dir, "site")}
	now := time.Now()
	local, err := identity.Create(p.Pub, identity.Options{
		Identity: PublisherName, Role: identity.Publisher, Origins: []identity.Origin{Origin}, Now: now,
	})
	Check(t, err)
	p.meet(local, now)
	Check(t, os.MkdirAll(p.Site, 0o755))
	Check(t, publisher.AddSource(p.Pub, publisher.Source{Name: "site", Kind: "site", Location: p.Site, BaseURL: Origin + "/"}))
	return p
}

// Beside makes one more indexer, for the same publisher and the same site. It
// has no grant yet.
func (p *Pair) Beside(name envelope.Name) *Pair {
	p.t.Helper()
	now := time.Now()
	local, err := identity.Load(p.Pub, now)
	Check(p.t, err)
	q := &Pair{t: p.t, Name: name, Pub: p.Pub, Idx: filepath.Join(p.t.TempDir(), "idx"), Site: p.Site}
	q.meet(local, now)
	return q
}

// meet makes the indexer, which trusts the publisher, starts it, and has the
// publisher trust it.
func (p *Pair) meet(local *identity.Local, now time.Time) {
	p.t.Helper()
	var err error
	p.Public, err = OwnAddress()
	Check(p.t, err)
	other, err := identity.Create(p.Idx, identity.Options{
		Identity: p.Name, Role: identity.Indexer, Endpoint: "indexer.test:7443", LogURL: "http://" + p.Public, Now: now,
	})
	Check(p.t, err)
	trust, err := identity.OpenTrust(filepath.Join(p.Idx, "trust"), identity.TrustOptions{})
	Check(p.t, err)
	_, err = trust.Add(local.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{Origin}, Now: now})
	Check(p.t, err)
	p.StartIndexer()
	trust, err = publisher.OpenTrust(p.Pub)
	Check(p.t, err)
	_, err = trust.Add(other.Card.Object.Raw, identity.AddOptions{Endpoint: p.Address, Now: now})
	Check(p.t, err)
}

// Check ends the test on an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Page is where the i-th page lies.
func (p *Pair) Page(i int) string {
	return filepath.Join(p.Site, fmt.Sprintf("d%d", i%7), fmt.Sprintf("p%d.html", i))
}

// PageURL is the URL of the i-th page.
func PageURL(i int) string { return fmt.Sprintf("%s/d%d/p%d.html", Origin, i%7, i) }

// Write gives the i-th page other words.
func (p *Pair) Write(i int, words string) {
	p.t.Helper()
	Check(p.t, os.MkdirAll(filepath.Dir(p.Page(i)), 0o755))
	html := fmt.Sprintf("<!DOCTYPE html><html lang=en><title>Page %d</title><main><h1>Page %d</h1><p>It says %s.</p></main>", i, i, words)
	Check(p.t, os.WriteFile(p.Page(i), []byte(html), 0o644))
}

// Grant issues one more grant, over what lies under prefix.
func (p *Pair) Grant(prefix string) *publisher.Relationship {
	p.t.Helper()
	return p.GrantMode(prefix, grants.ModePush)
}

// GrantMode is Grant with a mode.
func (p *Pair) GrantMode(prefix string, mode grants.Mode) *publisher.Relationship {
	p.t.Helper()
	scope, err := grants.PrefixScope(Origin + prefix)
	Check(p.t, err)
	rel, _, err := publisher.IssueGrant(p.Pub, publisher.GrantRequest{
		Indexer: p.Name, Source: "site", Scope: scope, Purposes: grants.Purposes{grants.SearchIndex}, Mode: mode,
	}, time.Now())
	Check(p.t, err)
	return rel
}

// StartIndexer opens the indexer and serves it, on the address that it had.
func (p *Pair) StartIndexer() {
	p.t.Helper()
	Check(p.t, p.TryIndexer())
	p.t.Cleanup(func() { p.StopIndexer() })
}

// TryIndexer is StartIndexer for a start that may fail.
func (p *Pair) TryIndexer() error {
	x, err := indexer.Open(indexer.Config{Dir: p.Idx, Log: slog.New(slog.DiscardHandler), Publish: 100 * time.Millisecond, Trace: p.Trace})
	if err != nil {
		return err
	}
	if p.Address == "" {
		if p.Address, err = OwnAddress(); err != nil {
			return errors.Join(err, x.Close())
		}
	}
	l, err := net.Listen("tcp", p.Address)
	if err != nil {
		return errors.Join(err, x.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- x.Serve(ctx, x.NewServer(), l) }()
	p.X = x
	p.stop = func() error {
		cancel()
		return errors.Join(<-served, x.Close())
	}
	return nil
}

// StopIndexer ends the indexer in order.
func (p *Pair) StopIndexer() {
	if p.stop != nil {
		stop := p.stop
		p.stop = nil
		if err := stop(); err != nil {
			p.t.Errorf("indexer: %v", err)
		}
	}
}

// Push runs one push and gives its one result.
func (p *Pair) Push() publisher.Result {
	p.t.Helper()
	r, err := p.TryPush()
	Check(p.t, err)
	return r
}

// TryPush is Push for one that may fail.
func (p *Pair) TryPush() (r publisher.Result, err error) {
	pub, err := publisher.Open(publisher.Config{Dir: p.Pub, Trace: p.Trace})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, pub.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	results, err := pub.Push(ctx, publisher.PushOptions{})
	if len(results) > 0 {
		r = results[0]
	}
	return r, err
}

// Pages is how many pages the indexer holds.
func (p *Pair) Pages() uint64 {
	p.t.Helper()
	s, err := p.X.Status()
	Check(p.t, err)
	return s.Pages
}

// ReceiptsHold evaluates every receipt of the publisher again.
func (p *Pair) ReceiptsHold(want int) {
	p.t.Helper()
	pub, err := publisher.Open(publisher.Config{Dir: p.Pub})
	Check(p.t, err)
	defer pub.Close()
	n, bad, err := pub.VerifyReceipts()
	Check(p.t, err)
	if n != want || len(bad) > 0 {
		p.t.Errorf("%d receipts, want %d; bad: %v", n, want, bad)
	}
}

// CopyDir copies a folder, for a backup that the test brings back later.
func CopyDir(t testing.TB, from, to string) {
	t.Helper()
	Check(t, os.RemoveAll(to))
	Check(t, os.CopyFS(to, os.DirFS(from)))
	Check(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return os.Chmod(filepath.Join(to, rel), info.Mode().Perm()) // keys stay their owner's
	}))
}

// VKey is the verifier key of the indexer's log.
func (p *Pair) VKey() string {
	p.t.Helper()
	local, err := identity.Load(p.Idx, time.Now())
	Check(p.t, err)
	return local.Card.Log.VKey
}

// SamePage compares what the indexer holds of a page with what the site says.
func (p *Pair) SamePage(i int) {
	p.t.Helper()
	location, err := filepath.Rel(p.Site, p.Page(i))
	Check(p.t, err)
	p.SameFile(location)
}

// SameFile is SamePage for a file of the site.
func (p *Pair) SameFile(location string) {
	p.t.Helper()
	reader := &site.Site{Dir: p.Site, BaseURL: Origin + "/"}
	want, err := reader.Fetch(p.t.Context(), filepath.ToSlash(location))
	Check(p.t, err)
	rels, err := publisher.Relationships(p.Pub)
	Check(p.t, err)
	got, err := p.X.Read(PublisherName, rels[0].Series, want.URL, rels[0].Pair.Grant.Body.Purposes[0])
	if err != nil {
		p.t.Errorf("page %s: %v", want.URL, err)
		return
	}
	if !bytes.Equal(got.Payload, want.Payload) {
		p.t.Errorf("page %s is held as %s, want %s", want.URL, got.Payload, want.Payload)
	}
}

// EveryReceiptHolds evaluates every stored receipt again, however many.
func (p *Pair) EveryReceiptHolds() {
	p.t.Helper()
	pub, err := publisher.Open(publisher.Config{Dir: p.Pub})
	Check(p.t, err)
	defer pub.Close()
	_, bad, err := pub.VerifyReceipts()
	Check(p.t, err)
	for _, b := range bad {
		p.t.Error(b)
	}
}

// Dial makes the publisher dial address in place of the indexer's own, such as
// that of a proxy between the two.
func (p *Pair) Dial(address string) {
	p.t.Helper()
	local, err := identity.Load(p.Idx, time.Now())
	Check(p.t, err)
	trust, err := publisher.OpenTrust(p.Pub)
	Check(p.t, err)
	_, err = trust.Add(local.Card.Object.Raw, identity.AddOptions{Endpoint: address, Now: time.Now()})
	Check(p.t, err)
}
