package translog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

const nextOrigin = "log.example/2027"

var next = Successor{Origin: nextOrigin, NoteKey: testKey(5)}

// isNext configures the log in which the one of the tests goes on.
func isNext(c *Config) { c.Origin, c.NoteKey = next.Origin, next.NoteKey }

// config is that of the rig's log.
func (r *rig) config(t testing.TB, change func(*Config)) Config {
	t.Helper()
	var got Config
	err := r.reopen(func(c *Config) {
		if change != nil {
			change(c)
		}
		got = *c
		c.NoteKey = nil // no log is opened
	})
	if err == nil {
		t.Fatal("a log was opened without a key")
	}
	return got
}

// rotate closes the rig's log and goes on in next, which is not opened.
func (r *rig) rotate(t testing.TB, change func(*Config)) Continues {
	t.Helper()
	if err := r.Log.Close(); err != nil {
		t.Fatal(err)
	}
	end, err := Rotate(r.config(t, change), next)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func bodyOf(t testing.TB, o *envelope.Object) Checkpoint {
	t.Helper()
	var c Checkpoint
	if _, err := envelope.Authenticate(o.Raw, &c, envelope.Expecting(envelope.Checkpoint, testKeys{}, time.Time{})); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryCheckpointOfARotatedLogSaysWhatItContinues(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 300, false)
	r.publishNow(t)
	r.grow(t, 3, true) // not published yet
	last := r.Released().Tree
	end := r.rotate(t, nil)
	if end.Tree() != last || last.Size != 303 {
		t.Errorf("Rotate = %+v, the log ended with %+v", end, last)
	}
	says := func(when string, o *envelope.Object) {
		t.Helper()
		if c := bodyOf(t, o); c.LogOrigin != nextOrigin || c.Continues == nil || *c.Continues != end {
			t.Errorf("%s: the checkpoint of %s continues %+v, want %+v", when, c.LogOrigin, c.Continues, end)
		}
	}
	if err := r.reopen(isNext); err != nil {
		t.Fatal(err)
	}
	says("empty", r.Published().Checkpoint)
	for i := range 3 {
		p := &proposal{n: 100}
		r.commit(t, p)
		says("committed", p.got.Checkpoint)
		says("released", r.Released().Checkpoint)
		r.publishNow(t)
		says("published", r.Published().Checkpoint)
		r.clock.Add(3600)
		r.publishNow(t)
		says("refreshed", r.Published().Checkpoint)
		if err := errors.Join(r.Log.Close(), r.reopen(isNext)); err != nil {
			t.Fatal(err)
		}
		says("opened again", r.Released().Checkpoint)
		if got := r.Released().Tree; got.Size != uint64(100*(i+1)) || got.Origin != nextOrigin {
			t.Errorf("%+v", got)
		}
		if tx := r.Number(); tx != 1 {
			t.Errorf("log number %d", tx)
		}
	}
	r.close(t)
}

func TestALogThatHasEndedStaysServed(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 300, false)
	before := map[string]string{}
	r.publishNow(t)
	served := []string{
		"/tile/0/000", "/tile/0/001.p/44", "/tile/1/000.p/1", "/tile/entries/000", "/tile/entries/001.p/3", "/entry/299.json",
		"/signed-checkpoint/0.json", "/signed-checkpoint/300.json", "/proof/inclusion?index=7&size=300", "/proof/consistency?from=9&to=300",
		"/checkpoint", "/signed-checkpoint.json",
	}
	for _, path := range served {
		code, b := get(t, r.Handler(), path)
		if code != 200 {
			t.Fatalf("%s: %d", path, code)
		}
		before[path] = string(b)
	}
	r.rotate(t, nil)
	if err := r.reopen(isNext); err != nil {
		t.Fatal(err)
	}
	r.grow(t, 280, false) // other rows under the same names
	r.publishNow(t)
	ended, err := Ended(r.store, quiet)
	if err != nil || len(ended) != 1 {
		t.Fatalf("Ended = %d logs, %v", len(ended), err)
	}
	old := ended[0]
	if old.Origin() != testOrigin || old.VerifierKey() != testVkey(t) || old.Number() != 0 || old.Continues() != nil {
		t.Errorf("%s with key %s", old.Origin(), old.VerifierKey())
	}
	for _, path := range served {
		if code, b := get(t, old.Handler(), path); code != 200 || string(b) != before[path] {
			t.Errorf("%s is another after the rotation: %d %.60q", path, code, b)
		}
		if _, b := get(t, r.Handler(), path); string(b) == before[path] {
			t.Errorf("%s is served by the new log", path)
		}
	}
	if err := old.Commit(t.Context(), &proposal{n: 1}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Commit = %v", err)
	}
	if err := old.Publish(t.Context()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Publish = %v", err)
	}
	if _, err := old.Snapshot(); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Snapshot = %v", err)
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	r.close(t)
}

func TestALogThatHasEndedSignsNothingMore(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 3, true)
	r.publishNow(t)
	if err := r.store.Checkpoint("/data/copy"); err != nil {
		t.Fatal(err)
	}
	r.rotate(t, nil)
	if err := r.reopen(nil); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), nextOrigin) {
		t.Errorf("Open of the old log = %v", err)
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	// All of it again from before, but for the mark.
	if _, err := onCopy(t, d, nil); !errors.Is(err, ErrEnded) {
		t.Errorf("Open on a copy from before the end = %v", err)
	}
	// The new key with a store that lacks the rotation.
	if _, err := onCopy(t, d, isNext); !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "the newest copy of the store") {
		t.Errorf("Open of the new log on a copy from before the rotation = %v", err)
	}
}

func TestAnEndThatIsNotTheContinuedOneIsFound(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	r.grow(t, 5, true)
	r.rotate(t, nil)
	b := r.store.NewBatch()
	if err := errors.Join(b.Set(entryKey(2), []byte("another entry")), b.Commit(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Ended(r.store, quiet); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Ended = %v", err)
	}
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}

func TestRotationRefusesWhatIsNoNewLog(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	r.grow(t, 2, true)
	r.rotate(t, nil)
	live := r.config(t, isNext)
	for name, s := range map[string]Successor{
		"the first origin again":  {testOrigin, testKey(6)},
		"the same origin":         {nextOrigin, testKey(6)},
		"the same key":            {"log.example/2028", testKey(5)},
		"an origin with a space":  {"log example", testKey(6)},
		"no key":                  {"log.example/2028", nil},
		"both of the first again": {testOrigin, testKey(2)},
	} {
		if end, err := Rotate(live, s); err == nil {
			t.Errorf("%s: %+v", name, end)
		}
	}
	if err := r.reopen(isNext); err != nil {
		t.Fatal(err)
	}
	r.close(t)
}

func TestAStoreHoldsOnlySoManyLogs(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	if err := r.Log.Close(); err != nil {
		t.Fatal(err)
	}
	c := r.config(t, nil)
	for i := 1; ; i++ {
		s := Successor{fmt.Sprint("log.example/next-", i), testKey(byte(100 + i))}
		end, err := Rotate(c, s)
		if i == maxLogs {
			if err == nil || !strings.Contains(err.Error(), "the most") {
				t.Errorf("rotation %d = %v", i, err)
			}
			break
		}
		if err != nil || end.Origin != c.Origin {
			t.Fatalf("rotation %d = %+v, %v", i, end, err)
		}
		c.Origin, c.NoteKey = s.Origin, s.NoteKey
	}
	ended, err := Ended(r.store, quiet)
	if err != nil || len(ended) != maxLogs-1 {
		t.Fatalf("%d logs have ended, %v", len(ended), err)
	}
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := l.Lineage(ended, testOrigin)
	if err != nil || len(chain) != maxLogs-2 {
		t.Errorf("%d logs lie between, %v", len(chain), err)
	}
	if chain, err := l.Lineage(ended, c.Origin); err == nil {
		t.Errorf("a log continues itself: %v", chain)
	}
	for _, old := range append(ended, l) {
		if err := old.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}

// TestARotationThatWasCutIsFinished cuts the power at each write of a rotation,
// and calls it again.
func TestARotationThatWasCutIsFinished(t *testing.T) {
	var writes int64
	for at := int64(1); at == 1 || at <= writes; at++ {
		d := durabletest.New()
		r := open(t, d, nil)
		r.grow(t, 3, true)
		last := r.Released().Tree
		if err := r.Log.Close(); err != nil {
			t.Fatal(err)
		}
		c, before := r.config(t, nil), d.Writes()
		var crashed *durabletest.Disk
		d.OnWrite(func(n int64, _, _ string) error {
			if n == before+at {
				crashed = d.Crash(random(uint64(at)), 50)
			}
			return nil
		})
		if _, err := Rotate(c, next); err != nil {
			t.Fatal(err)
		}
		writes = d.Writes() - before
		if err := r.store.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := durable.Open("/data/store", durable.Options{FS: crashed.FS(), Logger: quiet, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		c.Store = again
		end, err := Rotate(c, next)
		if err != nil || end.Tree() != last {
			t.Errorf("cut at write %d: Rotate = %+v, %v; want %+v", at, end, err, last)
		}
		if _, err := Open(c); !errors.Is(err, ErrEnded) {
			t.Errorf("cut at write %d: Open of the old log = %v", at, err)
		}
		isNext(&c)
		l, err := Open(c)
		if err != nil {
			t.Fatalf("cut at write %d: %v", at, err)
		}
		if err := errors.Join(l.Commit(t.Context(), &proposal{n: 1}), l.Close(), again.Close()); err != nil {
			t.Errorf("cut at write %d: %v", at, err)
		}
	}
	t.Logf("%d writes", writes)
}

func TestAFrozenLogIsReadAndSignsNothing(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 2, true)
	r.publishNow(t)
	r.grow(t, 2, true)
	var writers sync.WaitGroup
	ended := make(chan error, 8)
	for range cap(ended) {
		writers.Go(func() {
			for {
				if err := r.Commit(context.Background(), &proposal{n: 1}); err != nil {
					ended <- err
					return
				}
			}
		})
	}
	r.Freeze()
	last := r.Released()
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, ErrReadOnly) {
			t.Errorf("Commit = %v", err)
		}
	}
	writers.Wait()
	if err := r.Publish(t.Context()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Publish = %v", err)
	}
	r.Freeze() // again does no harm
	if got := r.Released(); got.Tree != last.Tree || string(got.Note) != string(last.Note) {
		t.Error("something was released after Freeze had returned")
	}
	r.clock.Add(7200)
	if err := r.Log.Close(); err != nil {
		t.Error(err)
	}
	if err := r.reopen(func(c *Config) { c.ReadOnly = true }); err != nil {
		t.Fatal(err)
	}
	if code, _ := get(t, r.Handler(), "/entry/1.json"); code != 200 || r.Published().Tree.Size != 2 || r.Released().Tree != last.Tree {
		t.Errorf("read only: published %d, released %+v, entry 1 is %d", r.Published().Tree.Size, r.Released().Tree, code)
	}
	if err := r.Commit(t.Context(), &proposal{n: 1}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Commit = %v", err)
	}
	// A frozen log may still end: with its last commit, under which receipts are.
	if end := r.rotate(t, func(c *Config) { c.ReadOnly = true }); end.Tree() != last.Tree {
		t.Errorf("it ended with %+v, want %+v", end, last.Tree)
	}
	old, err := Ended(r.store, quiet)
	if err != nil || len(old) != 1 {
		t.Fatal(err)
	}
	if v := old[0].Published(); v.Tree != last.Tree || string(v.Note) != string(last.Note) {
		t.Errorf("the last checkpoint that it signed is not shown, but %+v", v.Tree)
	}
	if err := errors.Join(old[0].Close(), r.store.Close()); err != nil {
		t.Error(err)
	}
}

func TestALogThatIsNotThereIsNotReadOnly(t *testing.T) {
	if r, err := tryOpen(durabletest.New(), noon, func(c *Config) { c.ReadOnly = true }); !errors.Is(err, ErrIdentity) {
		t.Errorf("Open = %v, %v", r, err)
	}
}
