package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// seedsOfScript is how many crashes each script goes through.
const seedsOfScript = 10

// TestCrashesLoseNoReceipt cuts the power at random writes of a publisher's
// pushes, and in every other script of its signals and answers, with readers
// running, keeps a random part of what was not synced, and
// goes on from there, to the outcome of a course without a crash.
func TestCrashesLoseNoReceipt(t *testing.T) {
	t.Parallel()
	scripts := make(map[uint64][]uint64)
	for _, seed := range durabletest.Seeds(t, crashSeeds) {
		scripts[seed/seedsOfScript] = append(scripts[seed/seedsOfScript], seed)
	}
	for number, seeds := range scripts {
		t.Run(fmt.Sprintf("script %d", number), func(t *testing.T) {
			t.Parallel()
			d, first := durabletest.New(), newCrashRun(t, number)
			want := first.live(d, newCrash())
			for _, seed := range seeds {
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 4))
					if got := first.again(t).lives(rng, d.Writes()); got != want {
						t.Errorf("the course with crashes led to\n%s\nand the one without to\n%s", got, want)
					}
					if t.Failed() {
						t.Logf("%s=%d runs it alone", durabletest.SeedVariable, seed)
					}
				})
			}
		})
	}
}

// A visit is what changes before one push: files by name, without words if
// they go, and the scope of a new grant.
type visit struct {
	files map[string]string
	renew string
}

// newVisits are the same for the same number.
func newVisits(number uint64) []visit {
	rng := rand.New(rand.NewPCG(number, 12))
	var all []visit
	for i := range 6 {
		v := visit{files: make(map[string]string)}
		for range 1 + rng.IntN(9) {
			name := fmt.Sprintf("%spage-%d", []string{"", "sub/"}[rng.IntN(2)], rng.IntN(10))
			v.files[name] = fmt.Sprintf("words %d of visit %d", rng.IntN(1000), i)
			if rng.IntN(4) == 0 {
				v.files[name] = ""
			}
		}
		all = append(all, v)
	}
	all[3].renew, all[4].renew = "https://example.com/doc/sub/", "https://example.com/doc/"
	return all
}

// A crash is what is left of a publisher, with the receipts it had reported.
type crash struct {
	came     chan struct{} // closed when what follows is set
	disk     *durabletest.Disk
	reported map[envelope.Hash][]byte
}

func newCrash() *crash { return &crash{came: make(chan struct{})} }

// A crashRun plays visits with a publisher whose disk may crash, and an indexer
// that never does.
type crashRun struct {
	*fixture
	dir    string
	stage  *stage.Stage // as it was at first
	visits []visit
	next   int
	pages  map[string]string // of the site

	reportedMu sync.Mutex // guards reported
	reported   map[envelope.Hash][]byte
}

func newCrashRun(t *testing.T, number uint64) *crashRun {
	s := stage.New(t, 1)
	c := &crashRun{fixture: &fixture{s: s}, dir: t.TempDir(), visits: newVisits(number), stage: s}
	var err error
	s.Publisher, err = identity.Create(c.dir, identity.Options{
		Identity: s.Publisher.Name(), Role: identity.Publisher, Now: s.Now.Add(-48 * time.Hour), Origins: []identity.Origin{"https://example.com"},
	})
	check(t, err)
	s.Pair = s.Grant(t, 1, func(d *grants.Draft) {
		if number%2 == 1 {
			d.Mode = grants.ModeRequest
		}
	})
	c.site = t.TempDir()
	c.fake = &fakeIndexer{t: t, items: 3, s: s}
	at := c.fake.serve(func() time.Time { return s.Now })
	trust, err := identity.OpenTrust(trustDir(c.dir), identity.TrustOptions{Now: func() time.Time { return s.Now }})
	check(t, err)
	_, err = trust.Add(s.Indexer.Card.Object.Raw, identity.AddOptions{Endpoint: at, Now: s.Now})
	check(t, err)
	check(t, AddSource(c.dir, Source{Name: "docs", Kind: "site", Location: c.site, BaseURL: "https://example.com/doc/"}))
	return c.again(t)
}

// again is a run of the same visits by the same parties, who forgot the last.
func (c *crashRun) again(t *testing.T) *crashRun {
	s, f := c.stage.Copy(), c.fake
	n := &crashRun{
		fixture: &fixture{t: t, s: s, fake: f, site: c.site}, dir: c.dir, stage: c.stage, visits: c.visits,
		pages: make(map[string]string), reported: make(map[envelope.Hash][]byte),
	}
	n.rel = &Relationship{Series: "docs-1", Indexer: s.Indexer.Name(), Collection: "docs", LeafKey: s.LeafKey, Relation: s.R, Pair: s.Pair}
	check(t, n.rel.write(c.dir))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.s, f.pairs = s, map[envelope.Hash]grants.Pair{s.Pair.Grant.Object.ID: s.Pair}
	f.pages, f.answered = make(map[string]state.Item), make(map[envelope.Hash]*oiv1.BatchResult)
	f.held, f.fakeAsks = oiv1.CollectionState{Series: "docs-1"}, fakeAsks{most: 2}
	check(t, os.RemoveAll(c.site))
	check(t, os.MkdirAll(c.site, 0o755))
	return n
}

// lives plays the visits with one or two crashes, and gives their outcome.
// writes is about how many there are without one.
func (c *crashRun) lives(rng *rand.Rand, writes int64) (outcome string) {
	d := durabletest.New()
	for n := range 3 {
		k := newCrash()
		if n < 2 {
			c.crashAt(d, 1+rng.Int64N(writes), rng, k)
		}
		outcome = c.live(d, k)
		if !c.fake.gone.Load() || c.t.Failed() {
			break
		}
		d, c.reported = k.disk, k.reported
	}
	return outcome
}

// crashAt makes k a crash at write number at of d. From then on the indexer
// does not listen to who should be dead.
func (c *crashRun) crashAt(d *durabletest.Disk, at int64, rng *rand.Rand, k *crash) {
	unsynced, random := rng.IntN(101), rand.New(rand.NewPCG(rng.Uint64(), 1))
	d.OnWrite(func(n int64, _, _ string) error {
		if n == at {
			c.fake.gone.Store(true)
			c.reportedMu.Lock()
			k.reported = maps.Clone(c.reported) // before the crash
			c.reportedMu.Unlock()
			k.disk = d.Crash(random, unsynced)
			close(k.came)
		}
		return nil
	})
}

// live opens a publisher on d, and goes on with the visits to their end, or
// until k has come.
func (c *crashRun) live(d *durabletest.Disk, k *crash) (outcome string) {
	c.fake.gone.Store(false)
	var err error
	c.p, err = Open(Config{Dir: c.dir, Now: func() time.Time { return c.s.Now }, FS: d.FS()})
	check(c.t, err)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for n := range uint64(2) {
		readers.Go(func() { c.read(rand.New(rand.NewPCG(n, 6)), stop) })
	}
	c.holds()
	for c.next < len(c.visits) && !c.fake.gone.Load() && !c.t.Failed() {
		c.visit(c.visits[c.next])
		results, err := c.push()
		if c.fake.gone.Load() {
			break // whatever it said, nobody was there to hear it
		}
		check(c.t, err)
		c.report(results)
		c.agree()
		c.next++
	}
	if !c.fake.gone.Load() {
		outcome = c.outcome()
	}
	close(stop)
	readers.Wait()
	check(c.t, c.p.Close())
	if c.fake.gone.Load() {
		<-k.came
	}
	return outcome
}

// read is somebody who looks at everything all the time.
func (c *crashRun) read(rng *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(4 * time.Millisecond):
		}
		var err error
		switch rng.IntN(3) {
		case 0:
			_, err = c.p.Status()
		case 1:
			_, err = c.p.Receipts(0)
		case 2:
			_, err = c.p.Evidence(fmt.Sprintf("https://example.com/doc/page-%d.html", rng.IntN(10)), "")
		}
		if err != nil && !errors.Is(err, ErrNoReceipt) {
			c.t.Errorf("a reader: %v", err)
		}
	}
}

// visit changes the site, and the grant; it may be repeated.
func (c *crashRun) visit(v visit) {
	for name, text := range v.files {
		if text != "" {
			c.write(name, text)
			c.pages[name] = text
			continue
		}
		if err := os.Remove(filepath.Join(c.site, name+".html")); err != nil && !errors.Is(err, os.ErrNotExist) {
			c.t.Fatal(err)
		}
		delete(c.pages, name)
	}
	if v.renew != "" {
		c.fake.mu.Lock()
		defer c.fake.mu.Unlock()
		c.renew(uint64(c.next), v.renew)
	}
}

// report keeps the receipts that a push gave.
func (c *crashRun) report(results []Result) {
	c.t.Helper()
	c.reportedMu.Lock()
	defer c.reportedMu.Unlock()
	for _, r := range results {
		for _, id := range r.Receipts {
			b, err := c.p.ReceiptFile(id)
			check(c.t, err)
			c.reported[id] = b
		}
	}
}

// holds checks that what was reported before is stored, and verifies.
func (c *crashRun) holds() {
	c.t.Helper()
	for id, want := range c.reported {
		if got, err := c.p.ReceiptFile(id); err != nil || !bytes.Equal(got, want) {
			c.t.Errorf("receipt %s, which was reported, is lost: %v", id, err)
		}
	}
	c.receipts()
}

// agree checks that behind a push both sides stand where the site does, and
// that the publisher has every receipt that was ever given.
func (c *crashRun) agree() {
	c.t.Helper()
	cur, f := c.cursor(), c.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	want := 0
	for name := range c.pages {
		if c.rel.Match("https://example.com/doc/"+name+".html") == nil {
			want++
		}
	}
	root := rootOf(c.t, f.pages)
	if len(f.pages) != want || cur.Pages != uint64(want) || cur.State != root {
		c.t.Errorf("visit %d: the site has %d pages, the indexer %d, the cursor is %+v", c.next, want, len(f.pages), cur)
	}
	if cur.JournalEpoch != f.held.JournalEpoch || cur.Acked != f.held.Revision || cur.Reconciling ||
		cur.JournalEpoch != 0 && !bytes.Equal(f.held.StateRoot, root[:]) {
		c.t.Errorf("visit %d: the indexer stands at %d of %d, the cursor is %+v", c.next, f.held.Revision, f.held.JournalEpoch, cur)
	}
	if all, err := c.p.Receipts(0); err != nil || len(all.Receipts) != len(f.answered) {
		c.t.Errorf("visit %d: %d receipts of %d (%v)", c.next, len(all.Receipts), len(f.answered), err)
	}
	if p, err := (agreement{c.p.store, c.rel}).pending(c.p.store); p != nil || err != nil {
		c.t.Errorf("visit %d: a batch is pending (%v)", c.next, err)
	}
}

// outcome is all that the visits lead to, whatever came in between.
func (c *crashRun) outcome() string {
	c.t.Helper()
	c.holds()
	h, err := c.p.journal("docs").head(c.p.store)
	check(c.t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "%d pages at revision %d, cursor at %d, state %s\n", h.Pages, h.Revision, c.cursor().Acked, c.cursor().State)
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	for _, url := range slices.Sorted(maps.Keys(c.fake.pages)) {
		fmt.Fprintf(&b, "%s %x\n", url, c.fake.pages[url].Digest)
	}
	return b.String()
}
