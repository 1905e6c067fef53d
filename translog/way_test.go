package translog

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// A held log has a group of one entry, number 2, on its way to the disk: a sync
// of it has been called and does not return.
type held struct {
	*rig
	answer  chan error
	release func(error) // lets the sync return that
}

// eachHold runs f with the sync of the store's log held, and with that of the
// high-water mark, of a log whose groups take what comes, and of one whose groups are
// full with one proposal.
func eachHold(t *testing.T, f func(t *testing.T, h held)) {
	for _, tt := range []struct {
		name, file string
		maxGroup   int
	}{
		{"the store's log, and the next group open", ".log", 0},
		{"the store's log, and the next group full", ".log", 1},
		{"the mark, and the next group open", markFile(testVkey(t)), 0},
		{"the mark, and the next group full", markFile(testVkey(t)), 1},
	} {
		t.Run(tt.name, func(t *testing.T) { f(t, holdGroup(t, tt.file, tt.maxGroup)) })
	}
}

func holdGroup(t *testing.T, file string, maxGroup int) held {
	t.Helper()
	d := durabletest.New()
	r := open(t, d, func(c *Config) { c.MaxGroup = maxGroup })
	r.grow(t, 2, true)
	called, outcome := make(chan struct{}), make(chan error)
	var once sync.Once
	d.OnWrite(func(_ int64, op, path string) (err error) {
		if op == durabletest.OpSync && strings.HasSuffix(path, file) {
			once.Do(func() { close(called); err = <-outcome })
		}
		return err
	})
	h := held{rig: r, answer: make(chan error, 1), release: func(err error) { outcome <- err }}
	go func() {
		h.answer <- r.Commit(context.Background(), &proposal{n: 1, prepare: func(tx *Tx) error {
			return tx.Batch().Set([]byte("first"), []byte("x"))
		}})
	}()
	<-called
	return h
}

// next commits an entry that sees the held group, and returns when it was
// prepared.
func (h held) next(t *testing.T) (answer chan error) {
	t.Helper()
	prepared := make(chan struct{})
	answer = make(chan error, 1)
	go func() {
		answer <- h.Commit(context.Background(), &proposal{n: 1, prepare: func(tx *Tx) error {
			defer close(prepared)
			if v, err := tx.Batch().Get([]byte("first")); err != nil || string(v) != "x" || tx.NextIndex() != 3 {
				t.Errorf("the next group reads %q, %v, and is at %d", v, err, tx.NextIndex())
			}
			return nil
		}})
	}()
	select {
	case <-prepared:
	case <-time.After(10 * time.Second):
		t.Error("nothing is prepared while a group is on its way")
	}
	return answer
}

// begun waits until entry n is in the store, though nobody is to see it yet.
func (h held) begun(t *testing.T, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := h.store.Get(entryKey(n)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("entry %d is not on its way to the disk", n)
		}
	}
}

// unchanged fails unless the log shows what it did before the held group, behind which
// one more may be on its way.
func (h held) unchanged(t *testing.T, answers ...chan error) {
	t.Helper()
	time.Sleep(20 * time.Millisecond) // for what must not happen
	if size := h.Released().Tree.Size; size != 2 {
		t.Errorf("released is size %d", size)
	}
	if size := h.Published().Tree.Size; size > 2 {
		t.Errorf("published is size %d", size)
	}
	const third = 4
	if _, err := h.store.Get(entryKey(third)); !errors.Is(err, durable.ErrNotFound) && !errors.Is(err, durable.ErrFailed) {
		t.Errorf("entry %d was begun: %v", third, err)
	}
	for _, a := range answers {
		select {
		case err := <-a:
			t.Errorf("answered: %v", err)
			a <- err // for whoever waits for it
		default:
		}
	}
}

func TestTheNextGroupIsMadeReadyDuringASync(t *testing.T) {
	eachHold(t, func(t *testing.T, h held) {
		defer h.close(t)
		second := h.next(t)
		h.unchanged(t, h.answer, second)
		h.release(nil)
		if err := errors.Join(<-h.answer, <-second); err != nil {
			t.Error(err)
		}
		if size := h.Released().Tree.Size; size != 4 {
			t.Errorf("released is size %d, want 4", size)
		}
	})
}

func TestAFailedSyncEndsTheNextGroupToo(t *testing.T) {
	eachHold(t, func(t *testing.T, h held) {
		second := h.next(t)
		h.unchanged(t, h.answer, second)
		h.release(errors.New("the disk is broken"))
		for _, a := range []chan error{h.answer, second} {
			if err := <-a; !errors.Is(err, ErrFailed) || !errors.Is(err, durable.ErrFailed) {
				t.Errorf("Commit = %v", err)
			}
		}
		<-h.Done()
		h.unchanged(t)
		if text := h.Err().Error(); strings.Count(text, "the disk is broken") != 1 {
			t.Errorf("it is said more than once: %s", text)
		}
		if err := h.Log.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("Close = %v", err)
		}
	})
}

// TestTwoGroupsAtMostAreOnTheirWay: while one is not in the store yet, or not released,
// the next is brought to the disk, and the one behind it is only made ready.
func TestTwoGroupsAtMostAreOnTheirWay(t *testing.T) {
	eachHold(t, func(t *testing.T, h held) {
		defer h.close(t)
		second := h.next(t)
		h.begun(t, 3)
		third := make(chan error, 1)
		go func() { third <- h.Commit(context.Background(), &proposal{n: 1}) }()
		h.unchanged(t, h.answer, second, third)
		h.release(nil)
		if err := errors.Join(<-h.answer, <-second, <-third); err != nil {
			t.Error(err)
		}
		if size := h.Released().Tree.Size; size != 5 {
			t.Errorf("released is size %d, want 5", size)
		}
	})
}

// TestAGroupWithoutEntriesWaitsForThoseOnTheirWay, and so takes along what comes
// meanwhile: one that is answered comes again.
func TestAGroupWithoutEntriesWaitsForThoseOnTheirWay(t *testing.T) {
	h := holdGroup(t, markFile(testVkey(t)), 0)
	defer h.close(t)
	groups := h.Stats().Commits
	var answers []chan error
	for range 3 {
		prepared, answer := make(chan struct{}), make(chan error, 1)
		go func() {
			answer <- h.Commit(context.Background(), &proposal{prepare: func(*Tx) error { close(prepared); return nil }})
		}()
		<-prepared
		answers = append(answers, answer)
	}
	h.unchanged(t, append(answers, h.answer)...)
	h.release(nil)
	for _, a := range append(answers, h.answer) {
		if err := <-a; err != nil {
			t.Error(err)
		}
	}
	if n := h.Stats().Commits - groups; n != 2 {
		t.Errorf("%d groups were committed, want 2", n)
	}
}

// TestAReleaseShowsNothingOfTheGroupBehindIt: a group that was begun before the
// one ahead of it is in the store, or released, stays out of what that one shows.
func TestAReleaseShowsNothingOfTheGroupBehindIt(t *testing.T) {
	t.Run("not in the store", func(t *testing.T) { releaseShowsNothingBehind(t, ".log") })
	t.Run("not released", func(t *testing.T) { releaseShowsNothingBehind(t, markFile(testVkey(t))) })
}

// releaseShowsNothingBehind holds the first group at a sync of file, and the second at
// that of the store's log.
func releaseShowsNothingBehind(t *testing.T, file string) {
	d := durabletest.New()
	r := open(t, d, func(c *Config) { c.MaxGroup = 1 })
	defer r.close(t)
	r.grow(t, 2, true)
	here, log := make(chan struct{}), make(chan struct{})
	var syncs, heres atomic.Int64
	d.OnWrite(func(_ int64, op, path string) error {
		if op != durabletest.OpSync {
			return nil
		}
		if strings.HasSuffix(path, file) && heres.Add(1) == 1 {
			<-here
		}
		if strings.HasSuffix(path, ".log") && syncs.Add(1) == 2 {
			<-log
		}
		return nil
	})
	commit := func(key string) chan error {
		answer := make(chan error, 1)
		go func() {
			answer <- r.Commit(context.Background(), &proposal{n: 1, prepare: func(tx *Tx) error {
				return tx.Batch().Set([]byte(key), []byte("x"))
			}})
		}()
		held{rig: r}.begun(t, r.Released().Tree.Size+uint64(len(key)-1))
		return answer
	}
	first, second := commit("1"), commit("22")
	close(here)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	s, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reader.Get([]byte("1")); err != nil || s.View.Tree.Size != 3 {
		t.Errorf("released is size %d; its row: %v", s.View.Tree.Size, err)
	}
	for _, key := range [][]byte{[]byte("22"), entryKey(3)} {
		if v, err := s.Reader.Get(key); !errors.Is(err, durable.ErrNotFound) {
			t.Errorf("the release shows %q = %q, %v, of the group behind it", key, v, err)
		}
	}
	s.Close()
	close(log)
	if err := <-second; err != nil {
		t.Error(err)
	}
}

// TestNothingElseHappensDuringASync: who asks for something else than a commit
// gets it when the group has arrived.
func TestNothingElseHappensDuringASync(t *testing.T) {
	for name, ask := range map[string]func(*Log) error{
		"publish": func(l *Log) error { return l.Publish(context.Background()) },
		"close":   func(l *Log) error { return l.Close() },
		"freeze":  func(l *Log) error { l.Freeze(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			eachHold(t, func(t *testing.T, h held) {
				defer h.close(t)
				asked := make(chan error, 1)
				go func() { asked <- ask(h.Log) }()
				h.unchanged(t, h.answer, asked)
				h.release(nil)
				if err := errors.Join(<-h.answer, <-asked); err != nil {
					t.Error(err)
				}
				if size := h.Released().Tree.Size; size != 3 {
					t.Errorf("released is size %d, want 3", size)
				}
			})
		})
	}
}

// A finishing log has a group of one entry, number 0, that waits in its Finish, in which
// it then writes the row "first".
type finishing struct {
	*rig
	answer  chan error
	release func(error) // lets Finish return that
}

func holdFinish(t *testing.T) finishing {
	t.Helper()
	r := open(t, durabletest.New(), nil)
	called, outcome := make(chan struct{}), make(chan error)
	h := finishing{rig: r, answer: make(chan error, 1), release: func(err error) { outcome <- err }}
	go func() {
		h.answer <- r.Commit(context.Background(), &proposal{n: 1, finish: func(tx *Tx, _ *Committed) error {
			close(called)
			return errors.Join(<-outcome, tx.Batch().Set([]byte("first"), []byte("x")))
		}})
	}()
	<-called
	return h
}

// next commits an entry whose Prepare ends in what then returns, and returns when it is
// about to: it is taken in while the group before is finished.
func (h finishing) next(then func(*Tx) error) (answer chan error) {
	taken, answer := make(chan struct{}), make(chan error, 1)
	go func() {
		answer <- h.Commit(context.Background(), &proposal{n: 1, prepare: func(tx *Tx) error {
			close(taken)
			return then(tx)
		}})
	}()
	<-taken
	return answer
}

// TestWhoReadsSeesEveryFinishBefore: what a proposal reads that is taken in while the
// group before is finished is there when it asks for it.
func TestWhoReadsSeesEveryFinishBefore(t *testing.T) {
	h := holdFinish(t)
	defer h.close(t)
	read := make(chan struct{})
	next := h.next(func(tx *Tx) error {
		defer close(read)
		if v, err := tx.Batch().Get([]byte("first")); err != nil || string(v) != "x" {
			t.Errorf("the next group reads %q, %v", v, err)
		}
		return nil
	})
	time.Sleep(20 * time.Millisecond) // for what must not happen
	if isClosed(read) {
		t.Error("it has read before the row was written")
	}
	h.release(nil)
	if err := errors.Join(<-h.answer, <-next); err != nil {
		t.Error(err)
	}
	if size := h.Released().Tree.Size; size != 2 {
		t.Errorf("released is size %d, want 2", size)
	}
}

// TestAFailedFinishEndsTheNextGroupToo: whatever a proposal made of rows that were never
// written, it is told that the log has failed.
func TestAFailedFinishEndsTheNextGroupToo(t *testing.T) {
	refused := errors.New("there is no such row")
	reads := func(t *testing.T, verdict error) func(*Tx) error {
		return func(tx *Tx) error {
			if _, err := tx.Batch().Get([]byte("first")); !errors.Is(err, durable.ErrNotFound) {
				t.Errorf("the next group reads with %v", err)
			}
			return verdict
		}
	}
	for name, then := range map[string]func(*testing.T) func(*Tx) error{
		"does not read":         func(*testing.T) func(*Tx) error { return func(*Tx) error { return nil } },
		"reads, and writes":     func(t *testing.T) func(*Tx) error { return reads(t, nil) },
		"reads, and is refused": func(t *testing.T) func(*Tx) error { return reads(t, refused) },
	} {
		t.Run(name, func(t *testing.T) {
			h := holdFinish(t)
			next := h.next(then(t))
			broken := errors.New("broken")
			h.release(broken)
			for _, a := range []chan error{h.answer, next} {
				if err := <-a; !errors.Is(err, ErrFailed) || !errors.Is(err, broken) || errors.Is(err, refused) {
					t.Errorf("Commit = %v", err)
				}
			}
			if err := h.Log.Close(); !errors.Is(err, broken) || strings.Count(err.Error(), "broken") != 1 {
				t.Errorf("Close = %v", err)
			}
			if err := h.reopen(nil); err != nil || h.Released().Tree.Size != 0 {
				t.Errorf("after that the log opens at size %d, %v", h.Released().Tree.Size, err)
			}
			h.close(t)
		})
	}
}

// TestASnapshotWaitsForWhatTheMarkLeads: who has read a mark gets a snapshot that is not
// behind it, once the commit that the mark is about is released.
func TestASnapshotWaitsForWhatTheMarkLeads(t *testing.T) {
	for name, outcome := range map[string]error{"released": nil, "failed": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			h := holdGroup(t, markFile(testVkey(t)), 0)
			m, ok, err := ReadMark(h.disk.FS(), "/data/marks", testOrigin, testVkey(t))
			if err != nil || !ok || m.Size != 3 || h.Released().Tree.Size != 2 {
				t.Fatalf("mark of %d, %v, released %d", m.Size, err, h.Released().Tree.Size)
			}
			cut, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := h.SnapshotOf(cut, m.Size); !errors.Is(err, context.Canceled) {
				t.Errorf("SnapshotOf = %v", err)
			}
			sizes := make(chan uint64, 1)
			go func() {
				s, err := h.SnapshotOf(context.Background(), m.Size)
				if err != nil {
					t.Error(err)
					s = &Snapshot{}
				} else {
					defer s.Close()
				}
				sizes <- s.Tree.Size
			}()
			h.unchanged(t, h.answer)
			if len(sizes) > 0 {
				t.Error("it does not wait")
			}
			h.release(outcome)
			want := uint64(3)
			if outcome != nil {
				want = 2 // there is no other
			}
			if got := <-sizes; got != want {
				t.Errorf("a snapshot of %d, want %d", got, want)
			}
			if err := <-h.answer; (err == nil) != (outcome == nil) {
				t.Errorf("Commit = %v", err)
			}
			if err := h.Log.Close(); (err == nil) != (outcome == nil) {
				t.Errorf("Close = %v", err)
			}
			if outcome == nil {
				h.close(t)
			}
		})
	}
}
