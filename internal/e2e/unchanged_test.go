package e2e

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// What a push may move, in octets both ways as the connection counts them, if
// nothing has changed.
const (
	unchangedFrames = 2 << 10 // behind the handshake
	unchangedCold   = 8 << 10 // with it
)

func TestNothingChangedCostsNothingAtAnySize(t *testing.T) {
	t.Parallel()
	for _, pages := range []int{1, 300} {
		p := pair.New(t, pages)
		p.Push()
		r := p.Push()
		// An announcement, and its answer; one more for a probe, if one is drawn.
		if r.RoundTrips < 1 || r.RoundTrips > 4 {
			t.Errorf("%d pages: %d round trips for nothing", pages, r.RoundTrips)
		}
		frames, cold := r.WireOut+r.WireIn-r.Handshake, r.WireOut+r.WireIn
		t.Logf("%d pages, %d probes: out %d, in %d, handshake %d, frames %d", pages, r.Probes, r.WireOut, r.WireIn, r.Handshake, frames)
		if r.Sent != 0 || r.Handshake == 0 || frames >= unchangedFrames || cold > unchangedCold {
			t.Errorf("%d pages: %d octets of frames, want less than %d; %d with the handshake, want at most %d: %+v",
				pages, frames, unchangedFrames, cold, unchangedCold, r)
		}
	}
}
