package indexer

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// TestBatchesAreSmallerWhileOthersDeliver: who delivers alone is asked for nothing, and
// who does so beside others for small batches, until they have delivered nothing for a
// while.
func TestBatchesAreSmallerWhileOthersDeliver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	begun := time.Now()
	for i, tt := range []struct {
		name  envelope.Name
		after time.Duration
		want  uint32
	}{
		{"spiffe://a.example/publisher", 0, 0},
		{"spiffe://a.example/publisher", time.Second, 0},
		{"spiffe://b.example/publisher", 2 * time.Second, sharedItems},
		{"spiffe://b.example/publisher", 3 * time.Second, sharedItems},
		{"spiffe://a.example/publisher", 4 * time.Second, sharedItems},
		{"spiffe://a.example/publisher", 8 * time.Second, sharedItems},
		{"spiffe://a.example/publisher", 8*time.Second + 1, 0},
		{"spiffe://c.example/publisher", 9 * time.Second, sharedItems},
		{"spiffe://b.example/publisher", 15 * time.Second, 0},
	} {
		if got := r.x.share(tt.name, begun.Add(tt.after)); got != tt.want {
			t.Errorf("delivery %d, of %s: %d items, want %d", i, tt.name, got, tt.want)
		}
	}
}

// TestAnAnswerAsksForSmallerBatches over the wire.
func TestAnAnswerAsksForSmallerBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(2)
	if a := c.push(s, puts("words", site+"alone")...); a.BatchItems != 0 {
		t.Errorf("alone it is asked for batches of %d", a.BatchItems)
	}
	r.x.share("spiffe://other.example/publisher", time.Now())
	if a := c.push(s, puts("words", site+"beside")...); a.BatchItems != sharedItems {
		t.Errorf("beside another it is asked for batches of %d, want %d", a.BatchItems, sharedItems)
	}
}
