package publisher

import (
	"errors"
	"testing"

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
