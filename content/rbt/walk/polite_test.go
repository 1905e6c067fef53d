package walk_test

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/walk"
)

func TestAPoliteClientIsBoundedAsTheTextAsks(t *testing.T) {
	c := walk.Polite(fetch.Config{})
	if c.Rate != 10 || c.Concurrency != 10 || c.HopTimeout != 30*time.Second || c.StallTimeout != 30*time.Second {
		t.Errorf("%v a second, %d at once, %v and %v", c.Rate, c.Concurrency, c.HopTimeout, c.StallTimeout)
	}
	if c = walk.Polite(fetch.Config{Rate: 100, Concurrency: 50}); c.Rate > 10 || c.Concurrency > 10 {
		t.Errorf("more than the text allows: %v a second, %d at once", c.Rate, c.Concurrency)
	}
	if c = walk.Polite(fetch.Config{Rate: 1}); c.Rate != 1 {
		t.Errorf("a slower rate became %v", c.Rate)
	}
}
