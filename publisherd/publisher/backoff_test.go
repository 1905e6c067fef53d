package publisher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
)

func TestBackoffDrawsFromADoublingRangeUpToItsCap(t *testing.T) {
	var ranges []time.Duration
	b := backoff{draw: func(n int64) int64 {
		ranges = append(ranges, time.Duration(n-1))
		return n - 1
	}}
	for range 70 {
		if got, want := b.next(verdict{}), ranges[len(ranges)-1]; got != want {
			t.Fatalf("the highest draw waits %s, want %s", got, want)
		}
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		if ranges[i] != want*time.Second {
			t.Errorf("failure %d draws up to %s, want %s", i+1, ranges[i], want*time.Second)
		}
	}
	if last := ranges[69]; last != backoffCap {
		t.Errorf("the seventieth draws up to %s", last)
	}
	b.reset()
	if got := b.next(verdict{}); got != backoffBase {
		t.Errorf("after a reset up to %s", got)
	}
}

func TestBackoffKeepsItsFloors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := backoff{
			failures: rapid.IntRange(0, 100).Draw(t, "failures"),
			draw:     func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(t, "draw") },
		}
		v := verdict{hint: time.Duration(rapid.Uint32().Draw(t, "hint")) * time.Millisecond, lasting: rapid.Bool().Draw(t, "lasting")}
		got := b.next(v)
		if got < attemptGap || got < min(v.hint, maxHint) || got > max(backoffCap, min(v.hint, maxHint)) {
			t.Fatalf("%+v waits %s", v, got)
		}
	})
}

func TestAFailureThatLastsIsDrawnFromTheWholeRange(t *testing.T) {
	var n int64
	b := backoff{draw: func(m int64) int64 { n = m; return 0 }}
	b.next(verdict{lasting: true})
	if time.Duration(n-1) != backoffCap {
		t.Errorf("up to %s", time.Duration(n-1))
	}
}

func TestEachFailureHasItsVerdict(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want verdict
	}{
		{"an indexer that is down is tried again", ErrUnavailable, verdict{session: true}},
		{"one that drains says when", &Draining{3 * time.Second}, verdict{hint: 3 * time.Second, session: true}},
		{"or does not", ErrDraining, verdict{session: true}},
		{"a refusal with a hint is of the moment", &Refused{Reason: grants.ErrNoGrant, RetryMS: 250}, verdict{hint: 250 * time.Millisecond, session: true}},
		{"one without lasts", &Refused{Reason: grants.ErrRevoked}, verdict{lasting: true}},
		{"also as a plain reason", grants.ErrScope, verdict{lasting: true}},
		{"a restored folder is for its owner", ErrRestored, verdict{lasting: true}},
		{"a broken protocol is an alarm", ErrProtocol, verdict{alarm: true}},
		{"and so is a receipt that does not hold", &evaluate.Failure{Step: evaluate.Proof}, verdict{alarm: true}},
		{"an alarm with a cause that could be refused stays one", fmt.Errorf("%w: %w", ErrProtocol, grants.ErrScope), verdict{alarm: true}},
		{"the end of the program blames nobody", context.Canceled, verdict{session: true}},
		{"what is not known may heal", errors.New("disk"), verdict{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(fmt.Errorf("outer: %w", tt.err)); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
