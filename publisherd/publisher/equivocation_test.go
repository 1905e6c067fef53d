package publisher

import (
	"os"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/equivocation"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

func TestTwoEntriesOfOneIndexAreKept(t *testing.T) {
	x := newFixture(t)
	folder := equivocation.In(x.p.dir)
	kept := func() []*equivocation.Kept {
		t.Helper()
		all, err := folder.List()
		check(t, err)
		return all
	}
	x.write("a", "first")
	_, err := x.push()
	check(t, err)
	before, size := x.cursor(), len(x.s.Log)
	if _, err = x.push(); err != nil || len(kept()) > 0 {
		t.Fatalf("an honest indexer: %v, %d pairs", err, len(kept()))
	}
	// It forgets what it receipted, and gives the place away again.
	x.fake.lie = stage.Lie{Log: func(l stage.Tree) stage.Tree { return l[: size-1 : size-1] }}
	x.write("a", "second")
	for range 2 {
		if _, err := x.push(); err == nil {
			t.Fatal("an answer from a forked log is taken")
		}
	}
	if x.cursor() != before || x.receipts() != 1 {
		t.Errorf("the cursor is at %+v, and was at %+v", x.cursor(), before)
	}
	types := make(map[envelope.Type]int)
	for _, k := range kept() {
		types[k.Type]++
		raw, err := os.ReadFile(k.Path)
		check(t, err)
		if rep := equivocation.Verify(raw, []*identity.Card{x.s.Indexer.Card}); rep.Verdict != evaluate.Signed {
			t.Errorf("%s: %s, %v", k.Type, rep.Verdict, rep.Reasons)
		}
	}
	if types[envelope.Entry] != 1 || types[envelope.Checkpoint] != 1 || len(types) != 2 {
		t.Errorf("kept are %v, want the entries of index %d and the trees of size %d", types, size-1, size)
	}
}

func TestALostKeyAnswersOnlyWhatWasAskedBefore(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	local, err := identity.Create(dir, identity.Options{
		Identity: "spiffe://search.example/indexer", Role: identity.Indexer, Now: now, Endpoint: "search.example:7443", LogURL: "https://log.search.example",
	})
	check(t, err)
	trust, err := identity.OpenTrust(t.TempDir(), identity.TrustOptions{})
	check(t, err)
	p := &Publisher{trust: trust}
	lost := local.Envelope.Public().ID()
	local, err = identity.ChangeKeys(dir, identity.KeyOptions{Uses: []envelope.Use{envelope.UseEnvelope}, Lost: true, Now: now.Add(time.Hour)})
	check(t, err)
	_, err = trust.Add(local.Card.Object.Raw, identity.AddOptions{Now: now.Add(time.Hour)})
	check(t, err)
	if _, ok := p.keysFor(now.Add(2 * time.Hour)).LookupKey(lost); ok {
		t.Error("what is asked now may be answered by the lost key")
	}
	if r, ok := p.keysFor(time.Time{}).LookupKey(lost); !ok || r.LastEpoch != 1 || r.NotAfter.IsZero() {
		t.Errorf("what was asked before cannot have been answered by the lost key: %+v, %t", r, ok)
	}
}
