package publisher

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// refused is what the status says of pages that are not delivered.
func (x *fixture) refused() RefusedStatus {
	x.t.Helper()
	s, err := x.p.Status()
	check(x.t, err)
	if r := s.Indexers[0].Refused; r != nil {
		return *r
	}
	return RefusedStatus{}
}

func TestADeadLetterStaysUntilThePageIsDelivered(t *testing.T) {
	x := newFixture(t)
	x.write("b", wordy(1100<<10))
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 0 || r.RefusedCount != 1 {
		t.Errorf("%+v", r)
	}
	since := envelope.At(x.s.Now)
	// What comes behind it is delivered, although nothing was before it.
	x.write("c", "first")
	results, err = x.push()
	check(t, err)
	if r := results[0]; r.Sent != 1 || x.cursor().State != rootOf(t, x.fake.pages) {
		t.Errorf("%+v", r)
	}
	x.s.Now = x.s.Now.Add(time.Minute)
	x.write("b", wordy(1200<<10))
	_, err = x.push()
	check(t, err)
	r := x.refused()
	if r.Count != 1 || r.Reasons[string(grants.ErrOversize)] != 1 || r.Since != since || len(r.First) != 1 || r.First[0].URL != "https://example.com/doc/b.html" {
		t.Errorf("%+v", r)
	}
	x.write("b", "short")
	_, err = x.push()
	check(t, err)
	if r := x.refused(); r.Count != 0 || x.cursor().Pages != 2 {
		t.Errorf("when it was delivered: %+v", r)
	}
	x.write("d", wordy(1100<<10))
	_, err = x.push()
	check(t, err)
	if r := x.refused(); r.Count != 1 {
		t.Errorf("another one: %+v", r)
	}
	check(t, os.Remove(filepath.Join(x.site, "d.html")))
	_, err = x.push()
	check(t, err)
	if r := x.refused(); r.Count != 0 {
		t.Errorf("when it is gone: %+v", r)
	}
}

func TestAPoisonPageIsFoundAndTheRestGoesOn(t *testing.T) {
	x := newFixture(t)
	for i := range 11 {
		x.write(fmt.Sprint("p", i), "first")
	}
	x.fake.poison = "https://example.com/doc/p4.html"
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 10 || r.RefusedCount != 1 || r.Refused[0].URL != x.fake.poison || x.cursor().State != rootOf(t, x.fake.pages) {
		t.Errorf("%+v", r)
	}
	if r := x.refused(); r.Count != 1 || r.First[0].Reason != string(grants.ErrMalformed) || r.First[0].Detail != "this page" {
		t.Errorf("%+v", r)
	}
	batches := x.fake.batches
	results, err = x.push()
	check(t, err)
	if x.fake.batches != batches || len(results[0].Receipts) != 0 {
		t.Errorf("it is offered again although nothing changed: %+v", results[0])
	}
	x.fake.poison = ""
	x.write("p4", "second")
	_, err = x.push()
	check(t, err)
	if r := x.refused(); r.Count != 0 || len(x.fake.pages) != 11 {
		t.Errorf("when it was delivered: %+v, %d pages", r, len(x.fake.pages))
	}
}

// TestAnIndexerThatRefusesEverythingBuriesFewPages: where it is the indexer that
// is wrong, the agreement is held, and no more is passed over than a push may.
func TestAnIndexerThatRefusesEverythingBuriesFewPages(t *testing.T) {
	x := newFixture(t)
	for i := range maxPoison + 10 {
		x.write(fmt.Sprintf("p%02d", i), "first")
	}
	x.fake.poison = "all"
	if _, err := x.push(); err == nil {
		t.Error("the push succeeded")
	}
	if r := x.refused(); r.Count != maxPoison {
		t.Errorf("%d pages", r.Count)
	}
}

func TestTenThousandRefusedPagesAreSummedUp(t *testing.T) {
	x := newFixture(t)
	a := agreement{x.p.store, x.rel}
	const pages = 10_050
	var items []offered
	var all []decided
	for i := range pages {
		items = append(items, offered{URL: fmt.Sprintf("https://example.com/doc/%05d", i), Op: translog.OpPut, Revision: uint64(i + 1)})
		all = append(all, decided{op: translog.OpPut, decision: translog.Exclude, reason: string(grants.ErrPayload)})
	}
	at := envelope.At(x.s.Now)
	settle := func() {
		b := x.p.store.NewBatch()
		defer b.Close()
		check(t, a.settleLetters(b, items, all, at))
		check(t, b.Commit())
	}
	settle()
	r := x.refused()
	if r.Count != pages || r.Reasons[string(grants.ErrPayload)] != pages || len(r.First) != 10 || r.Since != at {
		t.Errorf("%d, %d of them named", r.Count, len(r.First))
	}
	seen := make(map[string]bool)
	for after, parts := "", 1; ; parts++ {
		list, err := x.p.DeadLetters(after, pages)
		check(t, err)
		if len(list.Letters) > MaxDeadLetters || list.Total != pages {
			t.Fatalf("%d of %d letters at once", len(list.Letters), list.Total)
		}
		for _, l := range list.Letters {
			seen[l.URL] = true
			if l.Collection != "docs" || l.Revision == 0 {
				t.Fatalf("%+v", l)
			}
		}
		if after = list.Next; after == "" {
			if parts != 11 || len(seen) != pages {
				t.Errorf("%d letters in %d parts", len(seen), parts)
			}
			break
		}
	}
	var result Result
	for _, it := range items {
		result.refuse(it.URL, "x")
	}
	if len(result.Refused) != maxRefused || result.RefusedCount != pages {
		t.Errorf("%d of %d named", len(result.Refused), result.RefusedCount)
	}
	for i := range all {
		all[i].decision = translog.Include
	}
	settle()
	if r := x.refused(); r.Count != 0 {
		t.Errorf("%d when all were delivered", r.Count)
	}
}

// TestTheSumOfDeadLettersIsThatOfTheRows whatever is refused, delivered, deleted, and
// refused again by the other side.
func TestTheSumOfDeadLettersIsThatOfTheRows(t *testing.T) {
	x := newFixture(t)
	a := agreement{x.p.store, x.rel}
	draw := rand.New(rand.NewPCG(1, 2))
	url := func() string { return fmt.Sprintf("https://example.com/doc/%d", draw.IntN(40)) }
	reason := func() string { return fmt.Sprintf("reason-%d", draw.IntN(maxReasons+20)) }
	for range 400 {
		if draw.IntN(3) == 0 {
			check(t, a.buryAll([]letter{{URL: url(), Reason: reason(), Since: envelope.At(x.s.Now)}}, [][32]byte{urlHash(url())}))
		} else {
			b := x.p.store.NewBatch()
			item := offered{URL: url(), Op: []translog.Op{translog.OpPut, translog.OpTombstone}[draw.IntN(2)]}
			d := decided{op: item.Op, decision: []translog.Decision{translog.Include, translog.Exclude}[draw.IntN(2)], reason: reason()}
			check(t, errors.Join(a.settleLetters(b, []offered{item}, []decided{d}, envelope.At(x.s.Now)), b.Commit()))
			b.Close()
		}
		sum, err := a.letterSum(x.p.store)
		check(t, err)
		rows, excluded, reasons := 0, 0, 0
		check(t, a.letters(x.p.store, nil, func(key []byte, _ DeadLetter) (bool, error) {
			var l letter
			_, err := durable.ReadJSON(x.p.store, key, &l)
			if rows++; l.Excluded {
				excluded++
			}
			return true, err
		}))
		for _, n := range sum.Reasons {
			reasons += n
		}
		if sum.Count != rows || sum.Excluded != excluded || reasons != rows || len(sum.Reasons) > maxReasons+1 {
			t.Fatalf("%+v, and there are %d rows, %d of them excluded", sum, rows, excluded)
		}
	}
}

func TestAnExcludedPageIsNotCountedAsDelivered(t *testing.T) {
	x := newFixture(t)
	x.fake.excludes = "bad"
	x.write("good", "first")
	x.write("bad-1", "first")
	x.write("bad-2", "first")
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 1 || r.RefusedCount != 2 || r.Undelivered != 2 || r.Unchanged != 0 {
		t.Errorf("%+v", r)
	}
	delivered := func(want uint64) {
		t.Helper()
		s, err := x.p.Status()
		check(t, err)
		if got := s.Indexers[0].Pages; got != want {
			t.Errorf("the status counts %d pages delivered, want %d", got, want)
		}
	}
	delivered(1)
	batches := x.fake.batches
	results, err = x.push()
	check(t, err)
	if r := results[0]; r.RefusedCount != 0 || r.Undelivered != 2 || r.Unchanged != 1 || x.fake.batches != batches {
		t.Errorf("nothing changed: %+v", r)
	}
	x.fake.excludes = "bad-2"
	x.write("bad-1", "second")
	_, err = x.push()
	check(t, err)
	delivered(2)
}
