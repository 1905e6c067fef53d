package publisher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// TestARebindThatIsTurnedAwayIsNotForgotten: it may be the one whose answer was
// lost, and is asked for again once the indexer has room.
func TestARebindThatIsTurnedAwayIsNotForgotten(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	x.write("sub/c", "first")
	_, err := x.push()
	check(t, err)
	x.renew(2, "https://example.com/doc/sub/")
	x.fake.hangUp = true
	if _, err := x.push(); err == nil {
		t.Fatal("a push whose rebind was lost succeeded")
	}
	x.fake.full.Store(true)
	_, err = x.push()
	if v := judge(err); !v.session || v.hint != 250*time.Millisecond {
		t.Errorf("%v is judged %+v", err, v)
	}
	a := agreement{x.p.store, x.rel}
	if p, err := a.pendingRebind(x.p.store); p == nil || err != nil {
		t.Errorf("the rebind is forgotten: %v", err)
	}
	x.fake.full.Store(false)
	_, err = x.push()
	check(t, err)
	if c := x.cursor(); c.Pages != 1 || x.receipts() != 2 {
		t.Errorf("cursor %+v", c)
	}
}

// TestANearlyFullDiskScansNothing: what is left is for receipts.
func TestANearlyFullDiskScansNothing(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	d := durabletest.New()
	d.SetFree(1)
	store, err := durable.Open("/data/store", durable.Options{FS: d.FS(), Room: durable.Room{LowWater: 1 << 20, Every: time.Millisecond}})
	check(t, err)
	check(t, x.p.store.Close())
	x.p.store = store
	if _, err := x.push(); !errors.Is(err, durable.ErrFull) {
		t.Errorf("push = %v", err)
	}
	if err := x.p.Ready(); err == nil || !strings.Contains(err.Error(), "nearly full") {
		t.Errorf("Ready = %v", err)
	}
	d.SetFree(1 << 30)
	for deadline := time.Now().Add(time.Minute); x.p.Ready() != nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	_, err = x.push()
	check(t, err)
	check(t, x.p.Ready())
}
