package publisher

import (
	"context"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// TestAPushTellsOfABatchUnderWay has a connection carry a batch bit by bit: what is told
// follows it, is short of the batch until it is answered for, and never goes back.
func TestAPushTellsOfABatchUnderWay(t *testing.T) {
	var told []Progress
	ctx := WithProgress(t.Context(), func(p Progress) { told = append(told, p) })
	wire := new(counter)
	wire.out.Store(3000) // of the handshake
	p := &pushTeller{a: agreement{nil, &Relationship{Indexer: envelope.Name("spiffe://search.example/indexer"), Collection: "docs"}},
		wire: wire, from: 100, done: 100, target: 1100}
	carry := func(octets int64) {
		wire.out.Add(octets)
		p.tell(ctx)
	}
	carry(0)
	p.begin(&draft{frame: make([]byte, 1000), through: 500})
	carry(250)
	carry(500)
	carry(5000) // headers, and another collection's
	p.end(ctx, 500)
	p.begin(&draft{frame: make([]byte, 1000), patch: &patch{frame: make([]byte, 100)}, through: 900})
	carry(50)
	p.end(ctx, 900)
	p.begin(&draft{alone: new(alone), rawBytes: 2000, through: 1200}) // beyond what the push began with
	carry(1000)
	wire.out.Store(0) // the counter is read and begins anew
	p.tell(ctx)
	p.end(ctx, 1200)
	want := []int64{0, 100, 300, 399, 400, 600, 800, 900, 800, 1000}
	if len(told) != len(want) {
		t.Fatalf("told %d times: %+v", len(told), told)
	}
	for i, x := range told {
		if x.Done != want[i] || x.Total != 1000 || x.Collection != "docs" || x.Scan || x.Waiting != (i == 3) {
			t.Errorf("%d: %+v, and %d were done", i, x, want[i])
		}
	}
}

// TestAPushThatNobodyWatchesTellsNothing begins no goroutine for it.
func TestAPushThatNobodyWatchesTellsNothing(t *testing.T) {
	p := &pushTeller{wire: new(counter)}
	p.watch(context.Background())()
}
