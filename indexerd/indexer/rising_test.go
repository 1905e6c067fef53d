package indexer

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// TestALargeBatchAscendsUntilASmallOne, or one of another series, or the end of the session.
func TestALargeBatchAscendsUntilASmallOne(t *testing.T) {
	t.Parallel()
	s, err := durable.Open(t.TempDir(), durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var r rising
	defer r.end()
	for _, step := range []struct {
		sid   uint32
		items int
		rises bool
	}{
		{1, risingItems - 1, false}, {1, risingItems, true}, {1, 4 * risingItems, true}, {2, risingItems, true},
		{2, 1, false}, {2, risingItems, true}, {1, 0, false},
	} {
		r.batch(s, step.sid, step.items)
		if rises := r.done != nil; rises != step.rises || rises && r.sid != step.sid {
			t.Errorf("%+v: %t, of series %d", step, rises, r.sid)
		}
	}
	r.batch(s, 3, risingItems)
	if r.end(); r.done != nil {
		t.Error("it rises behind the end of the session")
	}
}
