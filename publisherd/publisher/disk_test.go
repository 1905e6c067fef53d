package publisher

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
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
	check(t, x.p.store.Close())
	x.diskBelow(d)
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
	_, err := x.push()
	check(t, err)
	check(t, x.p.Ready())
}

// diskBelow gives the publisher's store a disk that can fail.
func (x *fixture) diskBelow(d *durabletest.Disk) {
	x.t.Helper()
	store, err := durable.Open("/data/store", durable.Options{FS: d.FS(), Room: durable.Room{LowWater: 1 << 20, Every: time.Millisecond}})
	check(x.t, err)
	x.p.store = store
}

// TestANearlyFullDiskAnswersWhatIsAsked: it needs room for the receipts alone. What
// has changed since waits until there is room for more.
func TestANearlyFullDiskAnswersWhatIsAsked(t *testing.T) {
	x := newFixture(t)
	x.mode(2, grants.ModeRequest)
	x.fake.most = 2
	for i := range 7 {
		x.write(fmt.Sprint("p", i), "first")
	}
	d := durabletest.New()
	check(t, x.p.store.Close())
	x.diskBelow(d)
	x.fake.freshLie = func(*oiv1.FreshnessAck) { // all is signalled, and nothing asked for yet
		d.SetFree(1)
		eventually(t, "the end of the room", func() bool { return x.p.store.Room() != nil })
	}
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Signalled != 7 || r.Sent != 7 || len(r.Receipts) != 4 {
		t.Errorf("on a nearly full disk %+v", r)
	}
	x.settled(7)
	x.write("p1", "second")
	if _, err := x.push(); !errors.Is(err, durable.ErrFull) {
		t.Errorf("push = %v", err)
	}
	x.fake.freshLie = nil
	d.SetFree(1 << 30)
	eventually(t, "room", func() bool { return x.p.store.Room() == nil })
	results, err = x.push()
	check(t, err)
	if r := results[0]; r.Signalled != 1 || r.Sent != 1 {
		t.Errorf("with room again %+v", r)
	}
	x.settled(7)
}
