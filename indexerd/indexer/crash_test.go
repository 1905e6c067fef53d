package indexer

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// seedsOfScript is how many crashes each script goes through.
const seedsOfScript = 5

// TestCrashesLoseNothingThatWasAnswered cuts the power at random writes of a
// publisher's course, with readers running, keeps a random part of what was not
// synced, and goes on from there, to the outcome of a course without a crash.
func TestCrashesLoseNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	scripts := make(map[uint64][]uint64)
	for _, seed := range durabletest.Seeds(t, crashSeeds) {
		scripts[seed/seedsOfScript] = append(scripts[seed/seedsOfScript], seed)
	}
	for number, seeds := range scripts {
		t.Run(fmt.Sprintf("script %d", number), func(t *testing.T) {
			t.Parallel()
			d, whole := durabletest.New(), newCrashRun(t, newScript(number))
			want := whole.live(d, new(crash))
			for _, seed := range seeds {
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, 3))
					got := whole.again(t).lives(rng, d.Writes())
					if got != want {
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

// An answer is what the indexer said to one batch or rebind.
type answer struct {
	series string
	id     envelope.Hash
	batch  *parcel // nil if it was a rebind
	octets []byte
}

// A bystander writes down what an indexer shows to anybody, and what it answers.
type bystander struct {
	mu        sync.Mutex // guards what follows
	released  map[uint64][32]byte
	published map[uint64][32]byte
	note      []byte // as the publisher keeps it
	answers   []answer
	acks      []*oiv1.Acknowledged

	next          int     // the step that comes, or is under way
	sent          *answer // by that step, without octets
	before, after map[string]series
}

// copy is what had been seen at this moment.
func (w *bystander) copy() *bystander {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &bystander{
		released: maps.Clone(w.released), published: maps.Clone(w.published), note: w.note,
		answers: w.answers[:len(w.answers):len(w.answers)], acks: w.acks, next: w.next, sent: w.sent, before: w.before, after: w.after,
	}
}

// step is the one that comes, or is under way.
func (w *bystander) step() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

// sees notes one tree, and finds a contradiction at once.
func (w *bystander) sees(t *testing.T, trees map[uint64][32]byte, tree translog.Tree) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := trees[tree.Size]; ok && old != tree.Root {
		t.Errorf("size %d was shown with two roots", tree.Size)
	}
	trees[tree.Size] = tree.Root
}

// A crash is what is left of an indexer, with what had been seen of it.
type crash struct {
	came atomic.Bool // what follows is set
	disk *durabletest.Disk
	seen *bystander
	keys map[string][]byte
}

// A crashRun plays a script against an indexer whose disk may crash.
type crashRun struct {
	t        *testing.T
	r        *rig
	p        *tester
	script   script
	first    map[string]series // before the first step
	rev      *grants.Revocation
	series   map[string]*series
	seen     *bystander
	client   *client
	promised map[envelope.Hash][]byte
}

func newCrashRun(t *testing.T, s script) *crashRun {
	r := &rig{t: t, dir: t.TempDir()}
	r.create()
	c := &crashRun{r: r, script: s, p: r.publisher("spiffe://example.com/publisher")}
	trust := must[*identity.Trust](t)(identity.OpenTrust(filepath.Join(r.dir, "trust"), identity.TrustOptions{Now: r.now}))
	must[*identity.Peer](t)(trust.Add(c.p.local.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{"https://example.com"}, Now: r.now()}))
	c.first = map[string]series{docs: *c.p.series(docs, site, nil), blog: *c.p.series(blog, blogs, nil)}
	g := c.first[blog].pair.Grant
	body := g.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(revoked)), grants.DispositionDelete)
	if s.whole {
		body = g.Revoke(grants.DispositionDelete)
	}
	c.rev = c.p.revocation(body)
	return c.again(t)
}

// again is a run of the same script by the same parties, who forgot the last.
func (c *crashRun) again(t *testing.T) *crashRun {
	r := &rig{t: t, dir: c.r.dir, card: c.r.card, publish: 3 * time.Millisecond, rows: 2}
	r.clock.Store(c.r.clock.Load())
	t.Cleanup(r.close)
	n := &crashRun{
		t: t, r: r, p: &tester{r: r, local: c.p.local, trust: c.p.trust}, script: c.script, rev: c.rev, first: c.first,
		promised: make(map[envelope.Hash][]byte),
		seen:     &bystander{released: make(map[uint64][32]byte), published: make(map[uint64][32]byte), before: c.first, after: c.first},
	}
	n.restoreKeys(nil)
	n.believe(c.first)
	return n
}

// believe makes models what the publisher believes in.
func (c *crashRun) believe(models map[string]series) {
	c.series = make(map[string]*series)
	for name, s := range models {
		s.p = c.p
		c.series[name] = &s
	}
}

// models is what the publisher believes in.
func (c *crashRun) models() map[string]series {
	return map[string]series{docs: *c.series[docs], blog: *c.series[blog]}
}

// lives plays the script with one or two crashes, and gives its outcome. writes
// is about how many there are without one.
func (c *crashRun) lives(rng *rand.Rand, writes int64) (outcome string) {
	d := durabletest.New()
	for n := range 3 {
		k := new(crash)
		if n < 2 {
			c.crashOn(d, rng, writes, k)
		}
		outcome = c.live(d, k)
		if !k.came.Load() || c.t.Failed() {
			break
		}
		d, c.seen = k.disk, k.seen
		c.restoreKeys(k.keys)
		c.believe(c.seen.before)
	}
	return outcome
}

// crashOn makes k a crash at one of so many writes to d, or at one of the
// first in some step: a deletion has fewer writes than the batches around it.
func (c *crashRun) crashOn(d *durabletest.Disk, rng *rand.Rand, writes int64, k *crash) {
	unsynced, random := rng.IntN(101), rand.New(rand.NewPCG(rng.Uint64(), 1))
	step, at := 0, 1+rng.Int64N(writes)
	if rng.IntN(2) == 0 {
		step, at = rng.IntN(len(c.script.steps)), 1+rng.Int64N(16)
	}
	seen := c.seen
	var count atomic.Int64
	d.OnWrite(func(int64, string, string) error {
		if seen.step() < step || count.Add(1) != at {
			return nil
		}
		k.seen = seen.copy() // before the crash
		k.keys = c.keys()
		k.disk = d.Crash(random, unsynced)
		// A key that came or went meanwhile is there: it was not used yet, or
		// its removal was not synced.
		maps.Copy(k.keys, c.keys())
		k.came.Store(true)
		return nil
	})
}

func (c *crashRun) keysDir() string { return filepath.Join(c.r.dir, "keys", "data") }

// keys reads the data keys, which live on the real file system.
func (c *crashRun) keys() map[string][]byte {
	all := make(map[string][]byte)
	files, err := filepath.Glob(filepath.Join(c.keysDir(), "*.key"))
	for _, f := range files {
		b, readErr := os.ReadFile(f)
		if readErr == nil { // else it has just been destroyed
			all[filepath.Base(f)] = b
		}
	}
	if err != nil {
		c.t.Error(err)
	}
	return all
}

func (c *crashRun) restoreKeys(keys map[string][]byte) {
	err := os.RemoveAll(c.keysDir())
	if err == nil {
		err = os.MkdirAll(c.keysDir(), 0o700)
	}
	for name, b := range keys {
		if err == nil {
			err = os.WriteFile(filepath.Join(c.keysDir(), name), b, 0o600)
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// live opens an indexer on d, checks that it holds what was seen before, and
// plays the script on to its end, or until k has come.
func (c *crashRun) live(d *durabletest.Disk, k *crash) (outcome string) {
	c.r.fs = d.FS()
	c.r.open()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for n := range uint64(2) {
		readers.Go(func() { c.read(rand.New(rand.NewPCG(n, 5)), stop) })
	}
	c.holds()
	for c.seen.next < len(c.script.steps) && !k.came.Load() && !c.t.Failed() {
		c.do(c.script.steps[c.seen.next])
	}
	if !k.came.Load() {
		c.agree()
		outcome = c.outcome()
	}
	close(stop)
	readers.Wait()
	c.client.close()
	c.r.close()
	return outcome
}

// read is somebody who looks at everything all the time.
func (c *crashRun) read(rng *rand.Rand, stop chan struct{}) {
	x, public := c.r.x, c.r.x.Public()
	for {
		select {
		case <-stop:
			return
		case <-time.After(4 * time.Millisecond):
		}
		if _, err := x.Status(); err != nil {
			c.t.Errorf("status: %v", err)
		}
		for _, name := range []string{docs, blog} {
			url := c.script.urls[rng.IntN(len(c.script.urls))]
			if _, err := x.ownPayload(c.p.local.Name(), name, url); err != nil && grants.ReasonOf(err) == "" {
				c.t.Errorf("payload: %v", err)
			}
		}
		c.seen.sees(c.t, c.seen.released, x.tlog.Released().Tree)
		w := httptest.NewRecorder()
		public.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/checkpoint", nil))
		tree, err := translog.OpenNote(w.Body.Bytes(), x.tlog.VerifierKey())
		if err != nil {
			c.t.Errorf("checkpoint: %d, %v", w.Code, err)
			continue
		}
		c.seen.sees(c.t, c.seen.published, tree)
		if tree.Size > 0 {
			w := httptest.NewRecorder()
			public.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/entry/%d.json", rng.Uint64N(tree.Size)), nil))
			if w.Code != http.StatusOK {
				c.t.Errorf("an entry of the published tree: %d %s", w.Code, w.Body)
			}
		}
	}
}

// begin notes what a step is about to send, and to what it may lead.
func (c *crashRun) begin(s *series, after series, sent *answer) {
	w := c.seen
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = c.models()
	w.after = maps.Clone(w.before)
	w.after[s.name] = after
	w.sent = sent
}

// end notes that the step has been answered.
func (c *crashRun) end(s *series, a *oiv1.BatchResult, acks []*oiv1.Acknowledged) {
	w := c.seen
	w.mu.Lock()
	defer w.mu.Unlock()
	if a != nil {
		w.sent.octets = committedOctets(a)
		if was, ok := c.promised[w.sent.id]; ok && !bytes.Equal(was, w.sent.octets) {
			c.t.Errorf("series %s: %s is answered in two ways", s.name, w.sent.id)
		}
		w.answers, w.note = append(w.answers, *w.sent), a.Committed.Note
	}
	if acks != nil {
		w.acks = acks
	}
	*c.series[s.name] = w.after[s.name]
	w.before, w.sent = w.after, nil
	w.next++
}

// committedOctets is an answer but for the proof that belongs to its session.
func committedOctets(a *oiv1.BatchResult) []byte {
	b, err := (proto.MarshalOptions{Deterministic: true}).Marshal(a.Committed)
	if err != nil {
		return nil
	}
	return b
}

// do plays one step from what it sends to its answer.
func (c *crashRun) do(st step) {
	c.t.Helper()
	s := c.series[st.series]
	switch st.action {
	case deliverBatch:
		b := s.parcel(st.changes...).pack()
		after := *s
		after.pages, after.revision = b.after, b.body.Through
		c.begin(s, after, &answer{series: s.name, id: b.manifest.ID, batch: b})
		c.committed(s, c.client.deliver(b))
	case renewGrant:
		s.prefix = narrow
		s.pair = s.grant(2, nil)
		c.begin(s, *s, nil)
		c.connect()
		c.end(s, nil, nil)
	case rebindState:
		c.begin(s, s.reboundTo(), &answer{series: s.name, id: s.pair.Grant.Object.ID})
		c.committed(s, c.client.rebind(s))
	case revokeGrant:
		c.begin(s, *s, nil)
		c.end(s, nil, c.p.revoke(c.rev).Acknowledged)
	case settleDeletion:
		c.begin(s, s.settled(c.rev), nil)
		c.end(s, nil, c.p.settled(c.rev).Acknowledged)
	}
}

// committed is the end of a step that must be.
func (c *crashRun) committed(s *series, a *oiv1.BatchResult) {
	c.t.Helper()
	if a.GetCommitted() == nil {
		c.t.Fatalf("step %d, series %s: %v", c.seen.next, s.name, a.GetRefused())
	}
	c.end(s, a, nil)
}
