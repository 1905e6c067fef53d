package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// modelPages is how many pages the model's site may have.
const modelPages = 6

// A drawn test fails by rapid, which shrinks what it has drawn to a seed; its
// folders are of the test around it.
type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Helper()                         {}
func (d drawn) Cleanup(f func())                { d.rt.Cleanup(f) }
func (d drawn) Error(args ...any)               { d.rt.Error(args...) }
func (d drawn) Errorf(format string, a ...any)  { d.rt.Errorf(format, a...) }
func (d drawn) Fatal(args ...any)               { d.rt.Fatal(args...) }
func (d drawn) Fatalf(format string, a ...any)  { d.rt.Fatalf(format, a...) }
func (d drawn) Logf(format string, args ...any) { d.rt.Logf(format, args...) }
func (d drawn) Context() context.Context        { return d.rt.Context() }

func (d drawn) TempDir() string {
	dir, err := os.MkdirTemp(d.TB.TempDir(), "run")
	pair.Check(d, err)
	d.rt.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A side is one of the model's indexers, and what it has to hold.
type side struct {
	*pair.Pair
	up      bool
	series  string // "" where it has no grant
	mode    grants.Mode
	revoked map[string]grants.Disposition // by series
}

// A model is a publisher between two indexers, and what the site says in a plain
// map: the words of each page.
type model struct {
	t     drawn
	sides []*side
	pages map[int]string
	words int
	pub   *publisher.Publisher // nil while it is stopped
	kept  string               // an older copy of its store; "" if there is none
	dir   string
}

func newModel(outer testing.TB, rt *rapid.T) *model {
	t := drawn{outer, rt}
	p := pair.Bare(t)
	m := &model{t: t, pages: make(map[int]string), dir: t.TempDir()}
	for _, q := range []*pair.Pair{p, p.Beside("spiffe://second.test/indexer")} {
		s := &side{Pair: q, up: true, revoked: make(map[string]grants.Disposition)}
		m.sides = append(m.sides, s)
		m.grant(s)
	}
	for i := range modelPages / 2 {
		m.write(i)
	}
	rt.Cleanup(m.stop)
	return m
}

// run keeps the publisher open, as its daemon does.
func (m *model) run() *publisher.Publisher {
	if m.pub == nil {
		pub, err := publisher.Open(publisher.Config{Dir: m.sides[0].Pub})
		pair.Check(m.t, err)
		m.pub = pub
	}
	return m.pub
}

func (m *model) stop() {
	if m.pub != nil {
		pair.Check(m.t, m.pub.Close())
		m.pub = nil
	}
}

func (m *model) draw(most int, what string) int { return rapid.IntRange(0, most).Draw(m.t.rt, what) }
func (m *model) side() *side                    { return m.sides[m.draw(1, "indexer")] }

func (m *model) drawMode() grants.Mode {
	return rapid.SampledFrom([]grants.Mode{grants.ModePush, grants.ModeRequest, grants.ModeBoth}).Draw(m.t.rt, "mode")
}

func (m *model) write(i int) {
	m.words++
	m.pages[i] = fmt.Sprintf("the words %d", m.words)
	m.sides[0].Write(i, m.pages[i])
}

func (m *model) edit() { m.write(m.draw(modelPages-1, "page")) }

func (m *model) remove() {
	i := m.draw(modelPages-1, "page")
	if _, there := m.pages[i]; there {
		pair.Check(m.t, os.Remove(m.sides[0].Page(i)))
		delete(m.pages, i)
	}
}

// touch writes a file again as it is, as a build does, or gives it an old time.
func (m *model) touch() {
	i := m.draw(modelPages-1, "page")
	words, there := m.pages[i]
	if !there {
		return
	}
	m.sides[0].Write(i, words)
	if m.draw(1, "old") == 1 {
		old := time.Now().Add(-time.Hour)
		pair.Check(m.t, os.Chtimes(m.sides[0].Page(i), old, old))
	}
}

// restart stops an indexer that runs, and starts one that does not.
func (m *model) restart() {
	s := m.side()
	if s.up {
		s.StopIndexer()
	} else {
		s.StartIndexer()
	}
	s.up = !s.up
}

func (m *model) keep() {
	m.run() // so that there is a store
	m.stop()
	m.kept = filepath.Join(m.dir, "store")
	pair.CopyDir(m.t, filepath.Join(m.sides[0].Pub, "store"), m.kept)
}

func (m *model) restore() {
	if m.kept == "" {
		return
	}
	m.stop()
	pair.CopyDir(m.t, m.kept, filepath.Join(m.sides[0].Pub, "store"))
}

func (m *model) grant(s *side) {
	if s.series != "" {
		return
	}
	s.mode = m.drawMode()
	s.series = s.GrantMode("/", s.mode).Series
}

// renew renews the grant of an indexer, with the mode that it had or another; one
// that has none gets a new one.
func (m *model) renew() {
	s := m.side()
	if s.series == "" {
		m.grant(s)
		return
	}
	s.mode = m.drawMode()
	_, _, err := publisher.RenewGrant(s.Pub, s.series, publisher.RenewRequest{Mode: s.mode}, time.Now())
	pair.Check(m.t, err)
}

func (m *model) revoke() {
	s := m.side()
	if s.series == "" {
		return
	}
	d := rapid.SampledFrom([]grants.Disposition{grants.DispositionStop, grants.DispositionDelete}).Draw(m.t.rt, "disposition")
	_, err := publisher.Revoke(s.Pub, publisher.RevokeRequest{Grant: s.series, Disposition: d}, time.Now())
	pair.Check(m.t, err)
	s.revoked[s.series] = d
	s.series = ""
}

// push runs one push; it fails where an indexer is down, and nowhere else.
func (m *model) push() map[envelope.Name]publisher.Result {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	all, err := m.run().Push(ctx, publisher.PushOptions{AllowMassDelete: true})
	none := m.sides[0].series == "" && m.sides[1].series == ""
	down := !m.sides[0].up || !m.sides[1].up
	switch {
	case err == nil, none && errors.Is(err, publisher.ErrNothingToPush), down && errors.Is(err, publisher.ErrUnavailable):
	default:
		m.t.Fatalf("push: %v", err)
	}
	byName := make(map[envelope.Name]publisher.Result)
	for _, r := range all {
		byName[r.Indexer] = r
	}
	return byName
}

// sync brings both indexers up to date, and compares each that runs with the map.
func (m *model) sync() {
	m.push()
	for _, s := range m.sides {
		if s.up {
			m.compare(s)
		}
	}
}

// compare holds what an indexer serves against the map: every page under the
// grant in force, and nothing under one that was revoked.
func (m *model) compare(s *side) {
	for i := range modelPages {
		words, there := m.pages[i]
		if s.series != "" {
			page, err := s.X.Read(pair.PublisherName, s.series, pair.PageURL(i), grants.SearchIndex)
			switch {
			case there && err != nil:
				m.t.Errorf("%s, mode %s: page %d is not held: %v", s.Name, s.mode, i, err)
			case there && !strings.Contains(string(page.Payload), "It says "+words+"."):
				m.t.Errorf("%s, mode %s: page %d is held as %q, and says %q", s.Name, s.mode, i, page.Payload, words)
			case !there && grants.ReasonOf(err) != grants.ErrNotHeld:
				m.t.Errorf("%s, mode %s: page %d is gone, and reading it gives %v", s.Name, s.mode, i, err)
			}
		}
		for series, disposition := range s.revoked {
			if _, err := s.X.Read(pair.PublisherName, series, pair.PageURL(i), grants.SearchIndex); err == nil {
				m.t.Errorf("%s: page %d is served under a grant that was revoked (%s)", s.Name, i, disposition)
			}
		}
	}
}

// settle ends a run: with everything up, a push that finds nothing changed moves
// nothing, every receipt holds, and what the indexers store is sound.
func (m *model) settle() {
	for _, s := range m.sides {
		if !s.up {
			s.StartIndexer()
			s.up = true
		}
	}
	m.sync()
	for name, r := range m.push() {
		if r.Sent+r.Deleted+r.Signalled+r.Asked+r.RefusedCount > 0 || r.Waiting > 0 || len(r.Receipts) > 0 {
			m.t.Errorf("%s: nothing changed, and the push did %+v", name, r)
		}
	}
	_, bad, err := m.run().VerifyReceipts()
	pair.Check(m.t, err)
	for _, b := range bad {
		m.t.Errorf("a receipt does not hold: %v", b)
	}
	for _, s := range m.sides {
		report, err := s.X.Fsck(m.t.Context(), indexer.FsckOptions{})
		pair.Check(m.t, err)
		if len(report.Findings) > 0 {
			m.t.Errorf("%s: %v", s.Name, report.Findings)
		}
	}
}

// TestTwoIndexersHoldWhatTheSiteSays plays edits, deletions, files that are only
// touched, restarts of each side, a publisher's store that is put back to an older
// copy, renewals, changes of mode, revocations and new grants, over two indexers,
// and compares both with a plain map after each synchronisation.
func TestTwoIndexersHoldWhatTheSiteSays(t *testing.T) {
	t.Parallel()
	runs, played, begin, failed := 0, 0, time.Now(), false
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; time.Since(begin) > modelTime && runs > 1 && !failed {
			return
		}
		played++
		ended := false
		defer func() { failed = failed || !ended || rt.Failed() }() // what fails is shrunk, however long it takes
		m := newModel(t, rt)
		actions := map[string]func(){
			"edit": m.edit, "edit more": m.edit, "remove": m.remove, "touch": m.touch,
			"sync": m.sync, "sync more": m.sync, "restart": m.restart, "stop": m.stop,
			"keep": m.keep, "restore": m.restore, "renew": m.renew, "revoke": m.revoke,
		}
		steps := rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(actions))), 1, 24).Draw(rt, "steps")
		for _, name := range steps {
			actions[name]()
		}
		m.settle()
		ended = true
	})
	t.Logf("%d runs", played)
}
