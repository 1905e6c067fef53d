package publisher

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

func TestContentWaitsForCredit(t *testing.T) {
	x := newFixture(t)
	x.fake.credit, x.fake.step, x.fake.alone = leastCredit, 700, 64<<10
	x.write("a", prose(9000, 1))
	x.write("b", prose(90_000, 2)) // alone
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 2 || x.fake.alones != 1 || x.receipts() != 2 {
		t.Errorf("%+v, %d pages alone", r, x.fake.alones)
	}
}

func TestARefusedBatchIsNotSentAnyFurther(t *testing.T) {
	x := newFixture(t)
	x.fake.credit, x.fake.busy = leastCredit, true
	x.write("a", prose(50_000, 1))
	_, err := x.push()
	if !errors.Is(err, grants.ErrExhausted) || x.fake.octets != leastCredit {
		t.Errorf("%d octets were sent, %v", x.fake.octets, err)
	}
	x.fake.credit, x.fake.busy = 0, false
	_, err = x.push()
	check(t, err)
	if x.receipts() != 1 || x.cursor().Pages != 1 {
		t.Errorf("afterwards: %+v", x.cursor())
	}
}

func TestACreditThatIsNoneEndsTheSession(t *testing.T) {
	for name, octets := range map[string]uint64{"of nothing": 0, "of less than nothing": 1<<64 - 1, "of more than a batch may have": mostCredit + 1} {
		t.Run(name, func(t *testing.T) {
			x := newFixture(t)
			x.fake.credit, x.fake.step = leastCredit, 700
			x.fake.credited = func(c *oiv1.Credit) { c.Octets = octets }
			x.write("a", prose(9000, 1))
			if _, err := x.push(); !errors.Is(err, ErrProtocol) || x.cursor().Acked != 0 {
				t.Errorf("push = %v", err)
			}
		})
	}
	s := &session{welcome: &oiv1.Welcome{Limits: &oiv1.Limits{InitialCredit: mostCredit}}}
	if s.beginBatch(); s.credit != mostCredit {
		t.Errorf("credit %d", s.credit)
	}
}

// TestASlowLineIsNoSilence: what an indexer bears with in octets a second is enough
// for it to hear of this side, frame by frame, well before it would give it up.
func TestASlowLineIsNoSilence(t *testing.T) {
	const slowest = 16 << 10 // leastRate of the indexer
	for _, alone := range []uint64{0, 64 << 10} {
		x := newFixture(t)
		x.fake.alone = alone
		noise := make([]byte, 700<<10)
		rand.NewChaCha8([32]byte{}).Read(noise)
		x.write("a", hex.EncodeToString(noise)[:700<<10])
		_, err := x.push()
		check(t, err)
		if x.fake.chunk < 64<<10 || time.Duration(x.fake.chunk/slowest)*time.Second > silence/2 {
			t.Errorf("a chunk of %d octets, %d pages alone", x.fake.chunk, x.fake.alones)
		}
	}
}

// TestAFaultThatEndsTheSessionIsNotPutToAPage: it is about the line, or about all.
func TestAFaultThatEndsTheSessionIsNotPutToAPage(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	x.fake.slow = true
	_, err := x.push()
	var refused *Refused
	if !errors.As(err, &refused) || refused.Reason != grants.ErrMalformed {
		t.Fatalf("%v", err)
	}
	if r := x.refused(); r.Count != 0 {
		t.Errorf("%+v", r)
	}
	x.fake.slow = false
	results, err := x.push()
	check(t, err)
	if results[0].Sent != 1 {
		t.Errorf("%+v", results[0])
	}
}
