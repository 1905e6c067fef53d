package translog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
	"github.com/uzpif-oi/uzpif-oi/translog/witness/witnesstest"
)

// witnesses of the test log, and a group that wants k of them.
func witnesses(t testing.TB, n int) []*witnesstest.Witness {
	all := make([]*witnesstest.Witness, n)
	for i := range all {
		all[i] = witnesstest.New(t, fmt.Sprintf("w%d.example", i+1), testVkey(t), byte(i+1))
	}
	return all
}

func groupOf(t testing.TB, k int, all ...*witnesstest.Witness) *witness.Group {
	t.Helper()
	file, members := "log "+testVkey(t)+"\n", ""
	for i, w := range all {
		name := fmt.Sprintf("W%d", i+1)
		file += w.Line(name, w.Serve(t))
		members += " " + name
	}
	p, err := witness.ParsePolicy(fmt.Appendf(nil, "%sgroup G %d%s\nquorum G\n", file, k, members))
	if err != nil {
		t.Fatal(err)
	}
	g, err := witness.NewGroup(p, witness.Options{Timeout: 10 * time.Second, Rest: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func failOpen(g *witness.Group) func(*Config) { return func(c *Config) { c.Witnesses = g } }
func failClosed(g *witness.Group) func(*Config) {
	return func(c *Config) { c.Witnesses, c.FailClosed = g, true }
}

// cosigned reports whether the note that is served makes the quorum.
func cosigned(t *testing.T, g *witness.Group, v View) bool {
	t.Helper()
	all, err := g.Policy().Cosignatures(v.Note, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return g.Policy().Met(all)
}

func unwell(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) }

func TestWhatIsPublishedCarriesItsCosignatures(t *testing.T) {
	d, w := durabletest.New(), witnesses(t, 3)
	g := groupOf(t, 2, w...)
	w[1].Lie(unwell)
	r := open(t, d, failClosed(g))
	var before envelope.Hash
	for i := range 4 {
		r.grow(t, 3+200*i, false)
		r.publishNow(t)
		o, c := published(t, r.Published())
		if c.TreeSize != r.Released().Tree.Size || !cosigned(t, g, r.Published()) {
			t.Errorf("published %d with\n%s", c.TreeSize, r.Published().Note)
		}
		if i > 0 && c.PreviousHash != before {
			t.Errorf("previous_hash %s, want %s", c.PreviousHash, before)
		}
		before = o.ID
	}
	r.close(t)
	r = open(t, d, failClosed(groupOf(t, 2, w...))) // it asks with the size it had not kept
	defer r.close(t)
	if !cosigned(t, g, r.Published()) || r.alone {
		t.Error("a restart lost the cosignatures")
	}
	if p := r.Publications(); p != (Publications{}) || w[0].Size() != r.Released().Tree.Size {
		t.Errorf("%+v, and the witness has seen %d", p, w[0].Size())
	}
}

// TestWitnessesNeverDelayAReceipt commits while a witness does not answer, and
// lets it answer then.
func TestWitnessesNeverDelayAReceipt(t *testing.T) {
	w := witnesses(t, 1)
	g := groupOf(t, 1, w...)
	r := open(t, durabletest.New(), failClosed(g))
	defer r.close(t)
	r.grow(t, 1, true)
	asked, mayAnswer := make(chan struct{}), make(chan struct{})
	w[0].Lie(func(rw http.ResponseWriter, _ *http.Request) {
		w[0].Lie(nil)
		close(asked)
		<-mayAnswer
		unwell(rw, nil)
	})
	done := make(chan error, 1)
	go func() { done <- r.Publish(context.Background()) }()
	<-asked
	for range 20 {
		r.grow(t, 1, true) // returns: nothing waits for the witness
	}
	if got := r.Published().Tree.Size; got != 0 || r.Released().Tree.Size != 21 {
		t.Errorf("published %d of %d, unasked", got, r.Released().Tree.Size)
	}
	second := make(chan error, 1)
	go func() { second <- r.Publish(context.Background()) }()
	for r.Stats().Commits < 21 {
		time.Sleep(time.Millisecond)
	}
	close(mayAnswer)
	if err := <-done; !errors.Is(err, ErrHeld) {
		t.Errorf("the first = %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the second = %v", err)
	}
	r.publishNow(t)
	if got := r.Published().Tree.Size; got != 21 || !cosigned(t, g, r.Published()) {
		t.Errorf("published %d", got)
	}
	if p := r.Publications(); p.Held != 1 || p.Published != 1 {
		t.Errorf("%+v", p)
	}
}

func TestFailOpenPublishesWithoutAndCompletesLater(t *testing.T) {
	w := witnesses(t, 2)
	g := groupOf(t, 2, w...)
	r := open(t, durabletest.New(), failOpen(g))
	defer r.close(t)
	w[1].Lie(unwell)
	r.grow(t, 5, true)
	r.publishNow(t)
	first := r.Published()
	if first.Tree.Size != 5 || cosigned(t, g, first) || !strings.Contains(string(first.Note), "— w1.example ") {
		t.Errorf("published %d with\n%s", first.Tree.Size, first.Note)
	}
	w[1].Lie(nil)
	r.clock.Add(59)
	r.publishNow(t)
	if cosigned(t, g, r.Published()) {
		t.Error("asked again at once")
	}
	r.clock.Add(1)
	r.publishNow(t)
	if v := r.Published(); !cosigned(t, g, v) || v.Checkpoint.ID != first.Checkpoint.ID || v.Tree != first.Tree {
		t.Errorf("a minute later: %+v\n%s", v.Tree, v.Note)
	}
	if p := r.Publications(); p.Alone != 1 || p.Published != 2 || p.Held != 0 {
		t.Errorf("%+v", p)
	}
}

func TestFailClosedHoldsBackAndSupersedes(t *testing.T) {
	d, w := durabletest.New(), witnesses(t, 1)
	r := open(t, d, failClosed(groupOf(t, 1, w...)))
	r.grow(t, 2, true)
	r.publishNow(t)
	shown, _ := published(t, r.Published())
	w[0].Lie(unwell)
	r.grow(t, 3, true)
	if err := r.Publish(context.Background()); !errors.Is(err, ErrHeld) || r.Published().Checkpoint.ID != shown.ID {
		t.Errorf("without its witness: %v, published %d", err, r.Published().Tree.Size)
	}
	held := r.held.object.ID
	r.clock.Add(10)
	if err := r.Publish(context.Background()); !errors.Is(err, ErrHeld) || r.held.object.ID != held {
		t.Errorf("tried again: %v, another object %v", err, r.held.object.ID != held)
	}
	crashed := d.Crash(random(1), 0)
	r.close(t)
	w[0].Lie(nil)
	// Without its witnesses even, the log shows what it had signed for that size.
	r = open(t, crashed, func(c *Config) { c.Now = func() time.Time { return newTime(noon + 60) } })
	r.publishNow(t)
	if o, c := published(t, r.Published()); o.ID != held || c.PreviousHash != shown.ID {
		t.Errorf("after a crash another object was published first at %d", c.TreeSize)
	}
	r.close(t)

	w[0].Lie(unwell)
	r = open(t, crashed, failClosed(groupOf(t, 1, w...)))
	r.grow(t, 1, true)
	if err := r.Publish(context.Background()); !errors.Is(err, ErrHeld) {
		t.Error(err)
	}
	r.grow(t, 1, true)
	w[0].Lie(nil)
	r.publishNow(t)
	if _, c := published(t, r.Published()); c.TreeSize != 7 || c.PreviousHash != held {
		t.Errorf("a larger candidate: %d after %s", c.TreeSize, c.PreviousHash)
	}
	if _, err := r.rows.Get([]byte(rowCandidate + "o")); err == nil {
		t.Error("the candidate that was superseded is still kept")
	}
	r.close(t)
}

func TestARollbackThatAWitnessHasSeenIsRefused(t *testing.T) {
	w := witnesses(t, 3)
	r := open(t, durabletest.New(), failClosed(groupOf(t, 1, w[0])))
	r.grow(t, 5, true)
	r.publishNow(t)
	r.close(t)
	fork := durabletest.New()
	r = open(t, fork, nil)
	r.commit(t, &proposal{opaque: [][]byte{{1}, {2}, {3}, {4}, {5}, {6}}})
	r.close(t)
	for _, tt := range []struct {
		name string
		disk *durabletest.Disk
		size uint64
	}{
		{"a store that is empty", durabletest.New(), 0},
		{"a store that went another way", fork, 6},
	} {
		_, err := tryOpen(tt.disk, noon, failOpen(groupOf(t, 1, w[:2]...)))
		if !errors.Is(err, ErrRollback) || !strings.Contains(err.Error(), "witness W1") || !strings.Contains(err.Error(), "Put the newest copy of the store back") {
			t.Errorf("%s: Open = %v", tt.name, err)
		}
		// Nothing was signed: what lay there is there still.
		r, err := tryOpen(tt.disk, noon, nil)
		if err != nil {
			t.Fatalf("%s, without witnesses: %v", tt.name, err)
		}
		if got := r.Released().Tree.Size; got != tt.size {
			t.Errorf("%s: now it has %d entries", tt.name, got)
		}
		r.close(t)
	}
	if w[0].Size() != 5 {
		t.Errorf("the witness has seen %d", w[0].Size())
	}
	// One on which the quorum does not rest cannot stop the log.
	file := w[0].Line("liar", w[0].Serve(t)) + w[2].Line("W", w[2].Serve(t)) + "quorum W\n"
	p, err := witness.ParsePolicy([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	g, err := witness.NewGroup(p, witness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r = open(t, durabletest.New(), failOpen(g))
	r.close(t)
}

func TestTheFirstAnswerOfAWitnessIsTheRollbackCheck(t *testing.T) {
	w := witnesses(t, 1)
	w[0].Lie(unwell)
	r := open(t, durabletest.New(), failOpen(groupOf(t, 1, w...))) // nobody could be asked
	r.grow(t, 3, true)
	r.publishNow(t)
	w[0].Lie(nil)
	w[0].Forget(9, make([]byte, 32))
	r.clock.Add(60)
	if err := r.Publish(context.Background()); !errors.Is(err, ErrRollback) {
		t.Fatalf("Publish = %v", err)
	}
	<-r.Done()
	if err := r.Commit(context.Background(), &proposal{n: 1}); !errors.Is(err, ErrFailed) || !errors.Is(err, ErrRollback) {
		t.Errorf("Commit = %v", err)
	}
	_, _ = r.Log.Close(), r.store.Close() // the failure again
}

func TestALaterContradictionIsAnAlarm(t *testing.T) {
	w := witnesses(t, 1)
	r := open(t, durabletest.New(), failClosed(groupOf(t, 1, w...)))
	defer r.close(t)
	for _, size := range []uint64{1000, 2} { // ahead of the log; a tree that it does not extend
		r.grow(t, 2, true)
		r.publishNow(t)
		was := w[0].Size()
		w[0].Forget(size, make([]byte, 32))
		r.grow(t, 1, true)
		if err := r.Publish(context.Background()); !errors.Is(err, ErrHeld) {
			t.Errorf("Publish = %v", err)
		}
		root, err := r.Released().RootAt(was)
		if err != nil {
			t.Fatal(err)
		}
		w[0].Forget(was, root[:])
		r.publishNow(t)
	}
	if p := r.Publications(); p.Alarms != 2 || p.Held != 2 || p.Published != 4 {
		t.Errorf("%+v", p)
	}
}

func TestCloseWaitsForTheLastCosignatures(t *testing.T) {
	d, w := durabletest.New(), witnesses(t, 1)
	g := groupOf(t, 1, w...)
	r := open(t, d, failClosed(g))
	r.grow(t, 4, true)
	r.close(t)
	r = open(t, d, nil)
	if got := r.Published(); got.Tree.Size != 4 || !cosigned(t, g, got) {
		t.Errorf("published at the end: %d", got.Tree.Size)
	}
	r.close(t)
}

// TestACandidateIsNeverContradicted loses power at each write of a life in
// which checkpoints are held back and published, and goes on from there.
func TestACandidateIsNeverContradicted(t *testing.T) {
	takenUp := 0
	for at, more := int64(1), true; more; at++ {
		d, w := durabletest.New(), witnesses(t, 1)
		firsts := map[uint64]envelope.Hash{} // seen by anybody
		var seen map[uint64]envelope.Hash
		var crashed *durabletest.Disk
		d.OnWrite(func(n int64, _, _ string) error {
			if n == at {
				crashed, seen = d.Crash(random(uint64(at)), 100), map[uint64]envelope.Hash{}
				for size, id := range firsts {
					seen[size] = id
				}
			}
			return nil
		})
		r := open(t, d, failClosed(groupOf(t, 1, w...)))
		for i := range 4 {
			r.grow(t, 1, true)
			if w[0].Lie(nil); i%2 == 0 {
				w[0].Lie(unwell)
			}
			if err := r.Publish(context.Background()); err == nil {
				firsts[r.Published().Tree.Size] = r.Published().Checkpoint.ID
			}
		}
		w[0].Lie(nil)
		r.close(t)
		if more = crashed != nil; more && checkFirsts(t, at, crashed, w[0], seen) {
			takenUp++
		}
	}
	if takenUp == 0 {
		t.Error("no candidate survived a crash: the test tests nothing")
	}
}

// checkFirsts goes on after a crash, and looks at what had been seen. It reports
// whether a candidate was taken up.
func checkFirsts(t *testing.T, at int64, d *durabletest.Disk, w *witnesstest.Witness, seen map[uint64]envelope.Hash) bool {
	t.Helper()
	nothing := emptyRoot()
	w.Forget(0, nothing[:]) // its memory is not what is tested
	r := open(t, d, func(c *Config) {
		failClosed(groupOf(t, 1, w))(c)
		c.Now = func() time.Time { return newTime(noon + 100) } // what is signed now is another object
	})
	held := r.held
	r.publishNow(t)
	o, c := published(t, r.Published())
	taken := held.object != nil && held.tree.Size == c.TreeSize
	if taken && o.ID != held.object.ID {
		t.Errorf("write %d: at size %d was durable %s, and published %s", at, c.TreeSize, held.object.ID, o.ID)
	}
	for size, id := range seen {
		raw, err := r.rows.Get(publishedKey(size))
		if err != nil {
			t.Fatalf("write %d: size %d: %v", at, size, err)
		}
		if o, _, err := parseCheckpoint(raw); err != nil || o.ID != id {
			t.Errorf("write %d: another object is now the first at size %d: %v", at, size, err)
		}
	}
	r.close(t)
	return taken
}
