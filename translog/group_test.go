package translog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// together commits the proposals as one group, in their order, and returns what
// each was answered.
func together(t *testing.T, r *rig, all ...*proposal) []error {
	t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	gate := &proposal{prepare: func(*Tx) error {
		close(held)
		<-release
		return nil
	}}
	answers := make([]chan error, len(all)+1)
	for i, p := range append([]*proposal{gate}, all...) {
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- r.Commit(context.Background(), p) }()
		if i == 0 {
			<-held
			continue
		}
		for len(r.queue) < i { // until Commit has put it there
			runtime.Gosched()
		}
	}
	close(release)
	errs := make([]error, len(all))
	for i := range all {
		errs[i] = <-answers[i+1]
	}
	<-answers[0] // of no interest
	return errs
}

func TestARefusedProposalLeavesTheGroupAlone(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	no := errors.New("no")
	set := func(key string) func(*Tx) error {
		return func(tx *Tx) error { return tx.Batch().Set([]byte(key), []byte("x")) }
	}
	sees := &proposal{n: 1, prepare: func(tx *Tx) error {
		if v, err := tx.Batch().Get([]byte("first")); err != nil || string(v) != "x" || tx.NextIndex() != 2 {
			t.Errorf("a later proposal reads %q, %v, and is at %d", v, err, tx.NextIndex())
		}
		return nil
	}}
	first, last := &proposal{n: 2, prepare: set("first")}, &proposal{prepare: set("rows alone")}
	errs := together(t, r, first, &proposal{n: 3, prepare: func(*Tx) error { return no }}, sees, last)
	if errs[0] != nil || !errors.Is(errs[1], no) || errs[2] != nil || errs[3] != nil {
		t.Errorf("answers %v", errs)
	}
	if r.Released().Tree.Size != 3 || first.got.Tree != sees.got.Tree || last.got.Tree != sees.got.Tree {
		t.Errorf("size %d; %+v %+v %+v", r.Released().Tree.Size, first.got.Tree, sees.got.Tree, last.got.Tree)
	}
	if sees.got.Entries[0].Sequence != 2 || len(last.got.Entries) != 0 {
		t.Error("entries of another proposal")
	}
	if _, err := r.store.Get([]byte("rows alone")); err != nil {
		t.Error(err)
	}
}

// TestAProposalThatFailsLateSpoilsItsGroup: an error behind a row or an entry
// is against the rules, so the whole group goes, and the log goes on.
func TestAProposalThatFailsLateSpoilsItsGroup(t *testing.T) {
	no := errors.New("no")
	for name, traces := range map[string]func(*Tx) error{
		"a row":    func(tx *Tx) error { return tx.Batch().Set([]byte("z"), nil) },
		"an entry": func(tx *Tx) error { return tx.Append(testSubject, testEntry(1), nil) },
		"the removal of a row": func(tx *Tx) error {
			return tx.Batch().Delete([]byte("never there"))
		},
		"a row that none behind it sees": func(tx *Tx) error { return tx.Last().Set([]byte("z"), nil) },
	} {
		r := open(t, durabletest.New(), nil)
		r.grow(t, 1, true)
		late := &proposal{prepare: func(tx *Tx) error { return errors.Join(traces(tx), no) }}
		errs := together(t, r, &proposal{n: 1}, late, &proposal{n: 1})
		if !errors.Is(errs[0], ErrGroup) || !errors.Is(errs[1], no) || errors.Is(errs[1], ErrGroup) || errs[2] != nil {
			t.Errorf("behind %s: %v", name, errs)
		}
		if _, err := r.store.Get([]byte("z")); !errors.Is(err, durable.ErrNotFound) {
			t.Errorf("behind %s something remained: %v", name, err)
		}
		if size := r.Released().Tree.Size; size != 2 {
			t.Errorf("behind %s: size %d, want 2", name, size)
		}
		r.close(t)
	}
}

// TestWhoAsksForItIsTheLastOfItsGroup, and its rows come behind those of the others.
func TestWhoAsksForItIsTheLastOfItsGroup(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	row := func(key, value string) func(*Tx) error {
		return func(tx *Tx) error { return tx.Batch().Set([]byte(key), []byte(value)) }
	}
	many := func(tx *Tx) error {
		if _, err := tx.Last().Get([]byte("first")); err == nil {
			t.Error("what is only written to is read")
		}
		return errors.Join(tx.Last().Set([]byte("first"), []byte("many")), tx.Last().Set([]byte("many"), []byte("many")), row("beside", "many")(tx))
	}
	sees := func(tx *Tx) error {
		for _, key := range []string{"first", "many", "beside"} {
			if v, err := tx.Batch().Get([]byte(key)); err != nil || string(v) != "many" {
				t.Errorf("behind it %s is %q, %v", key, v, err)
			}
		}
		return nil
	}
	first, last, next := &proposal{n: 1, prepare: row("first", "first")}, &proposal{n: 1, prepare: many}, &proposal{n: 1, prepare: sees}
	if err := errors.Join(together(t, r, first, last, next)...); err != nil {
		t.Fatal(err)
	}
	if first.got.Tree != last.got.Tree || last.got.Tree.Size != 2 || next.got.Tree.Size != 3 {
		t.Errorf("trees %+v, %+v, %+v", first.got.Tree, last.got.Tree, next.got.Tree)
	}
	// The group of one takes another way.
	if err := errors.Join(together(t, r, &proposal{prepare: row("first", "first")})...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Commit(context.Background(), &proposal{n: 1, prepare: many}); err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(context.Background(), &proposal{prepare: sees}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPortionsAreAllOfAGroup, none is larger than what is signed together, and the last
// is small if there are enough of them.
func TestPortionsAreAllOfAGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, processors := rapid.IntRange(0, 3000).Draw(t, "entries"), rapid.IntRange(1, 64).Draw(t, "processors")
		before, last := 0, 0
		for _, end := range portions(n, processors) {
			if last = end - before; last < 1 || last > envelope.SignedTogether {
				t.Fatalf("a portion of %d of %d", last, n)
			}
			before = end
		}
		if before != n || last > 8 {
			t.Fatalf("the last of %d ends at %d, and is of %d", n, before, last)
		}
	})
}

func TestAnEntryThatCannotBeSignedSpoilsItsGroupOnly(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	bad := &proposal{prepare: func(tx *Tx) error {
		body := testEntry(1)
		body.Purposes = []string{"\xff"}
		return tx.Append(testSubject, body, nil)
	}}
	if err := r.Commit(context.Background(), bad); !errors.Is(err, ErrGroup) {
		t.Errorf("Commit = %v", err)
	}
	r.grow(t, 1, true)
}

func TestAppendRefusesWhatNoEntryMayBe(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	for _, tt := range []struct {
		name   string
		append func(*Tx) error
	}{
		{"a subject that is no name", func(tx *Tx) error { return tx.Append("X", testEntry(1), nil) }},
		{"a status beside another decision", func(tx *Tx) error {
			e := testEntry(1)
			e.Status = Stopped
			return tx.Append(testSubject, e, nil)
		}},
		{"leaves of another number", func(tx *Tx) error { return tx.Append(testSubject, testEntry(1), make([][32]byte, 3)) }},
	} {
		if err := r.Commit(context.Background(), &proposal{prepare: tt.append}); err == nil || errors.Is(err, ErrGroup) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	late := &proposal{n: 1, finish: func(tx *Tx, _ *Committed) error {
		if err := tx.Append(testSubject, testEntry(1), nil); err == nil {
			t.Error("an entry was appended in Finish")
		}
		return nil
	}}
	r.commit(t, late)
}

func TestGroupsAreBounded(t *testing.T) {
	r := open(t, durabletest.New(), func(c *Config) { c.MaxGroup, c.MaxGroupBytes = 3, 50_000 })
	defer r.close(t)
	var all []*proposal
	for range 5 {
		all = append(all, &proposal{n: 1})
	}
	for range 3 {
		all = append(all, &proposal{n: 1, prepare: func(tx *Tx) error { return tx.Batch().Set([]byte("k"), make([]byte, 40_000)) }})
	}
	for i, err := range together(t, r, all...) {
		if err != nil {
			t.Errorf("proposal %d: %v", i, err)
		}
	}
	var sizes []uint64
	for _, p := range all {
		sizes = append(sizes, p.got.Tree.Size)
	}
	// The gate and two; three; then two by their octets; the last.
	if want := []uint64{2, 2, 5, 5, 5, 7, 7, 8}; fmt.Sprint(sizes) != fmt.Sprint(want) {
		t.Errorf("tree sizes %v, want %v", sizes, want)
	}
}

// TestAGroupThatSignsLeavesSome: half of those that there are stays for the next,
// which has something to do while the first is on its way, unless they are few, or there
// is nothing to sign.
func TestAGroupThatSignsLeavesSome(t *testing.T) {
	opaque := func(tx *Tx) error { return tx.AppendOpaque([]byte("x")) }
	for _, tt := range []struct {
		name  string
		n     int
		of    proposal
		first uint64 // how many the first group takes
	}{
		{"signed", 200, proposal{n: 1}, 100},
		{"few", leastShare - 1, proposal{n: 1}, leastShare - 1}, // and the gate
		{"opaque", 200, proposal{prepare: opaque}, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, durabletest.New(), nil)
			defer r.close(t)
			var all []*proposal
			for range tt.n {
				p := tt.of
				all = append(all, &p)
			}
			for i, err := range together(t, r, all...) {
				if err != nil {
					t.Errorf("proposal %d: %v", i, err)
				}
			}
			for i, p := range all {
				if got := p.got.Tree.Size; (uint64(i) < tt.first) != (got <= tt.first) || got < tt.first {
					t.Fatalf("proposal %d has a tree of %d, and the first group that of %d", i, got, tt.first)
				}
			}
		})
	}
}

func TestAFinishThatFailsEndsTheWriter(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 1, true)
	no := errors.New("no")
	err := r.Commit(context.Background(), &proposal{n: 1, finish: func(*Tx, *Committed) error { return no }})
	if !errors.Is(err, ErrFailed) || !errors.Is(err, no) {
		t.Errorf("Commit = %v", err)
	}
	<-r.Done()
	if err := r.Commit(context.Background(), &proposal{n: 1}); !errors.Is(err, ErrFailed) {
		t.Errorf("the next Commit = %v", err)
	}
	if err := r.Publish(context.Background()); !errors.Is(err, ErrFailed) {
		t.Errorf("Publish = %v", err)
	}
	if !errors.Is(r.Err(), no) || !errors.Is(r.Log.Close(), no) {
		t.Errorf("Err = %v", r.Err())
	}
	if err := r.reopen(nil); err != nil || r.Released().Tree.Size != 1 {
		t.Errorf("after that the log opens at size %d, %v", r.Released().Tree.Size, err)
	}
	r.close(t)
}

func TestAWithdrawnProposalIsNotCommitted(t *testing.T) {
	r := open(t, durabletest.New(), func(c *Config) { c.Queue = 1 })
	defer r.close(t)
	held, release := make(chan struct{}), make(chan struct{})
	gate := &proposal{n: 1, prepare: func(*Tx) error {
		close(held)
		<-release
		return nil
	}}
	first := make(chan error)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { first <- r.Commit(ctx, gate) }()
	<-held
	waiting := make(chan error)
	go func() { waiting <- r.Commit(ctx, &proposal{n: 1}) }()
	for len(r.queue) == 0 { // until Commit has put it there
		runtime.Gosched()
	}
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("in the queue: %v", err)
	}
	if err := r.Commit(ctx, &proposal{n: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("before the queue: %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the one that the writer had taken: %v", err)
	}
	r.grow(t, 1, true)
	if size := r.Released().Tree.Size; size != 2 {
		t.Errorf("size %d, want 2", size)
	}
}
