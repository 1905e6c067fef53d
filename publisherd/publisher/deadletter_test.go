package publisher

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
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
	letters, err := x.p.DeadLetters()
	check(t, err)
	if len(letters) != pages || letters[17].Collection != "docs" || letters[17].Revision == 0 {
		t.Errorf("%d letters", len(letters))
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
