package publisher

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/link"
)

// TestWhatASessionCarriesIsCountedOnce takes the octets of results out of the
// counter, as the end of each push does.
func TestWhatASessionCarriesIsCountedOnce(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	go b.Write([]byte("twelve bytes"))
	wire, x := new(counter), new(peerPulse)
	x.opened(time.Unix(1, 0), wire)
	c := countedConn{a, wire}
	defer c.Close()
	if _, err := c.Read(make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		wire.in.Swap(0)
		if f := x.read(); f.WireIn != 12 {
			t.Errorf("%d octets came in", f.WireIn)
		}
	}
	x.closed(time.Unix(2, 0), ErrUnavailable)
	x.closed(time.Unix(3, 0), ErrUnavailable)
	if f := x.read(); f.WireIn != 12 || !f.Open.IsZero() || !f.Closed.Equal(time.Unix(2, 0)) || f.Ends["unreachable"] != 2 || f.LastError == "" || f.Sessions != 1 {
		t.Errorf("%+v", f)
	}
}

func TestEachEndHasItsWord(t *testing.T) {
	for err, want := range map[error]string{
		nil: "closed", ErrStopping: "closed", errAnew: "renewed", ErrDraining: "draining", ErrProtocol: "alarm", ErrClock: "clock", &Refused{Reason: "limit"}: "refused",
		ErrNoAnswer: "no-answer", errors.Join(ErrUnavailable, link.ErrSilent): "silent", ErrUnavailable: "unreachable", errors.New("disk"): "error",
	} {
		if got := endOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
