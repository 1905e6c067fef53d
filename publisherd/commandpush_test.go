package main

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

func TestWhatIsSaidOfThePublicLog(t *testing.T) {
	at := envelope.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for _, tt := range []struct {
		check *publisher.LogCheck
		want  string
	}{
		{nil, ""},
		{&publisher.LogCheck{State: publisher.LogConsistent, At: at}, ""},
		{&publisher.LogCheck{State: publisher.LogBehind, At: envelope.At(at.Add(time.Hour)), Size: 12, PublicSize: 3, OwedSize: 9, OwedSince: at},
			"  its public log had 3 entries at 2026-03-01T13:00:00Z; the 9 that it showed at 2026-03-01T12:00:00Z have to be there by 2026-03-02T12:00:00Z\n"},
		{&publisher.LogCheck{State: publisher.LogUnreachable, At: at, Detail: "nobody answers"},
			"  the public log was unreachable at 2026-03-01T12:00:00Z: nobody answers\n"},
	} {
		if got := describeLog(tt.check); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.check, got, tt.want)
		}
	}
}
