package translog

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func published(t *testing.T, v View) (*envelope.Object, Checkpoint) {
	t.Helper()
	var c Checkpoint
	o, err := envelope.Authenticate(v.Checkpoint.Raw, &c, envelope.Expecting(envelope.Checkpoint, testKeys{}, time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	if tree, err := OpenNote(v.Note, testVkey(t)); err != nil || tree != v.Tree || c.TreeSize != tree.Size || o.Sequence != tree.Size {
		t.Errorf("note %+v, artefact %+v, %v", tree, c, err)
	}
	return o, c
}

// TestPublishedCheckpointsAreChained follows the chain through commits that are
// not published, refreshes and restarts.
func TestPublishedCheckpointsAreChained(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	var firsts []envelope.Hash // object_id of the first at each size
	sizes := []uint64{0}
	o, c := published(t, r.Published())
	if c.TreeSize != 0 || !c.PreviousHash.IsZero() {
		t.Errorf("the first of all is %+v", c)
	}
	firsts = append(firsts, o.ID)
	for i := range 4 {
		r.grow(t, 1+i, true) // several commits, one publication
		if got := r.Published().Tree.Size; got != sizes[len(sizes)-1] {
			t.Errorf("published %d before its time", got)
		}
		r.publishNow(t)
		o, c = published(t, r.Published())
		if c.TreeSize != r.Released().Tree.Size || c.PreviousHash != firsts[len(firsts)-1] {
			t.Errorf("at %d: previous_hash %s, want %s", c.TreeSize, c.PreviousHash, firsts[len(firsts)-1])
		}
		sizes, firsts = append(sizes, c.TreeSize), append(firsts, o.ID)
		r.clock.Add(3599)
		r.publishNow(t)
		if again, _ := published(t, r.Published()); again.ID != o.ID {
			t.Error("refreshed before the hour")
		}
		r.clock.Add(1)
		r.publishNow(t)
		fresh, refresh := published(t, r.Published())
		if fresh.ID == o.ID || refresh.PreviousHash != c.PreviousHash || fresh.IssuedAt.Sub(o.IssuedAt) != time.Hour {
			t.Errorf("the refresh after an hour: %s, previous_hash %s", fresh.IssuedAt, refresh.PreviousHash)
		}
		if i%2 == 0 {
			r.close(t)
			var err error
			if r, err = tryOpen(d, r.clock.Load(), nil); err != nil {
				t.Fatal(err)
			}
			if same, _ := published(t, r.Published()); same.ID != fresh.ID {
				t.Error("a restart published something else")
			}
		}
	}
	for i, size := range sizes {
		raw, err := r.store.Get(publishedKey(size))
		if err != nil {
			t.Fatal(err)
		}
		if o, _, err := parseCheckpoint(raw); err != nil || o.ID != firsts[i] {
			t.Errorf("kept for size %d: %v, %v", size, o, err)
		}
	}
	r.close(t)
}

func TestAGrowingLogPublishesByItself(t *testing.T) {
	r := open(t, durabletest.New(), func(c *Config) { c.Publish = time.Millisecond })
	defer r.close(t)
	r.grow(t, 2, true)
	for deadline := time.Now().Add(10 * time.Second); r.Published().Tree.Size != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was published")
		}
	}
}

func TestCloseThenOpenPublishesTheRest(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 5, true)
	crashed := d.Crash(random(1), 0)
	r.close(t)
	r = open(t, d, nil)
	if got := r.Published().Tree.Size; got != 5 {
		t.Errorf("published after a clean end: %d, want 5", got)
	}
	r.close(t)
	r = open(t, crashed, nil)
	if got := r.Published().Tree.Size; got != 0 || r.Released().Tree.Size != 5 {
		t.Errorf("published after a crash: %d", got)
	}
	r.publishNow(t)
	if _, c := published(t, r.Published()); c.TreeSize != 5 {
		t.Errorf("then %d", c.TreeSize)
	}
	r.close(t)
}
