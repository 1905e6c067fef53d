package witness_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/translog/witness"
	"github.com/uzpif-oi/uzpif-oi/translog/witness/witnesstest"
)

// group asks these witnesses, any k of them, under names W1, W2 ….
func group(t *testing.T, k int, o witness.Options, all ...*witnesstest.Witness) *witness.Group {
	t.Helper()
	var file strings.Builder
	members := ""
	for i, w := range all {
		name := fmt.Sprintf("W%d", i+1)
		file.WriteString(w.Line(name, w.Serve(t)))
		members += " " + name
	}
	fmt.Fprintf(&file, "group G %d%s\nquorum G\n", k, members)
	g, err := witness.NewGroup(policyOf(t, file.String()), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// reasons is why each witness failed, as "W1 timeout".
func reasons(r witness.Gathering) string {
	var all []string
	for _, f := range r.Failures {
		all = append(all, f.Witness+" "+string(f.Reason))
	}
	return strings.Join(all, ", ")
}

// TestTheWitnessOfTheseTestsIsHonest follows a log through growth, a stale
// hint, a repetition, and a fork, which it refuses.
func TestTheWitnessOfTheseTestsIsHonest(t *testing.T) {
	l := witnesstest.NewLog(t, 300, "leaf")
	w := witnesstest.New(t, "w.example", l.VKey, 1)
	g := group(t, 1, witness.Options{}, w)
	for _, size := range []uint64{0, 1, 2, 200, 200, 300} {
		r := g.Gather(t.Context(), l.Submission(size))
		if !r.Met || w.Size() != size || len(r.Cosignatures) != 1 {
			t.Fatalf("at %d: %s", size, reasons(r))
		}
		note := append(l.Submission(size).Note, r.Lines()...)
		if all, err := g.Policy().Cosignatures(note, time.Now()); err != nil || !g.Policy().Met(all) {
			t.Errorf("the note of size %d with the lines: %v", size, err)
		}
	}
	other := group(t, 1, witness.Options{}, w)
	if r := other.Gather(t.Context(), l.Submission(300)); !r.Met || w.Asked() != 8 {
		t.Errorf("a log that does not know the size asks twice: %s, asked %d times", reasons(r), w.Asked())
	}
	fork := witnesstest.NewLog(t, 310, "another leaf")
	if r := g.Gather(t.Context(), fork.Submission(310)); r.Met || reasons(r) != "W1 fork" || w.Size() != 300 {
		t.Errorf("a fork: %s", reasons(r))
	}
}

func TestARollbackIsToldFromAFailure(t *testing.T) {
	l := witnesstest.NewLog(t, 50, "leaf")
	conflict := func(size string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/x.tlog.size; charset=us-ascii")
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, size)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for _, tt := range []struct {
		name  string
		lie   http.HandlerFunc
		want  witness.Reason
		alarm bool
	}{
		{"it has seen a larger tree", conflict("51\n"), witness.Ahead, true},
		{"it has seen the largest tree there is", conflict("18446744073709551615\n"), witness.Ahead, true},
		{"it has seen another tree of the size it asked a proof from", status(422), witness.Fork, true},
		{"it has seen another tree of this size", status(409), witness.Fork, true},
		{"it does not know the log", status(404), witness.UnknownLog, false},
		{"it does not know the key", status(403), witness.UnknownKey, false},
		{"it is asked too often", status(429), witness.Busy, false},
		{"it is broken", status(500), witness.Busy, false},
		{"it calls the request malformed", status(400), witness.BadAnswer, false},
		{"it has moved", status(301), witness.BadAnswer, false},
		{"it asks for another size each time", func() http.HandlerFunc {
			var n atomic.Int64
			return func(w http.ResponseWriter, r *http.Request) { conflict(fmt.Sprintf("%d\n", n.Add(1)))(w, r) }
		}(), witness.Conflict, false},
		{"its size is no number", conflict("many\n"), witness.BadAnswer, false},
		{"its size has a zero in front", conflict("007\n"), witness.BadAnswer, false},
		{"its size lacks the line feed", conflict("7"), witness.BadAnswer, false},
		{"its size is negative", conflict("-7\n"), witness.BadAnswer, false},
		{"its size is above any", conflict("18446744073709551616\n"), witness.BadAnswer, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := witnesstest.New(t, "w.example", l.VKey, 1)
			g := group(t, 1, witness.Options{}, w)
			w.Lie(tt.lie)
			r := g.Gather(t.Context(), l.Submission(50))
			if len(r.Failures) != 1 || r.Met || r.Failures[0].Reason != tt.want || r.Failures[0].Alarm() != tt.alarm || !r.Failures[0].First || !r.Failures[0].Counts {
				t.Fatalf("failures %+v", r.Failures)
			}
			if w.Asked() > 2 {
				t.Errorf("it was asked %d times", w.Asked())
			}
			if s := g.States()[0]; s.Failures[tt.want] != 1 || s.Requests != 1 || s.LastError != r.Failures[0] {
				t.Errorf("state %+v", s)
			}
		})
	}
}

func TestHostileWitnessesAreBounded(t *testing.T) {
	l := witnesstest.NewLog(t, 50, "leaf")
	honest := witnesstest.New(t, "w.example", l.VKey, 1)
	stranger := witnesstest.New(t, "w.example", l.VKey, 2)
	say := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	now := time.Now()
	for _, tt := range []struct {
		name string
		lie  http.HandlerFunc
		want witness.Reason // "" for a cosignature that counts
	}{
		{"by another key under its name", say(stranger.Cosign(t, l.Text(50), now)), witness.BadSigning},
		{"over another note", say(honest.Cosign(t, l.Text(49), now)), witness.BadSigning},
		{"over the note, signatures and all", say(honest.Cosign(t, string(l.Submission(50).Note), now)), witness.BadSigning},
		{"an old one", say(honest.Cosign(t, l.Text(50), now.Add(-time.Hour))), witness.BadClock},
		{"one of the future", say(honest.Cosign(t, l.Text(50), now.Add(time.Hour))), witness.BadSigning},
		{"the whole note instead of its line", say(string(l.Submission(50).Note) + honest.Cosign(t, l.Text(50), now)), witness.BadSigning},
		{"nothing", say(""), witness.BadAnswer},
		{"a page", say("<html>cosigned!</html>\n"), witness.BadAnswer},
		{"a line that does not end", say(strings.TrimSpace(honest.Cosign(t, l.Text(50), now))), witness.BadAnswer},
		{"lines of strangers around its own", say(stranger.Cosign(t, "x", now) + honest.Cosign(t, l.Text(50), now) + stranger.Cosign(t, "y", now)), ""},
		{"an endless body", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, stranger.Cosign(t, l.Text(50), now)); err != nil {
					return
				}
			}
		}, witness.BadAnswer},
		{"a body one octet too long", say(strings.Repeat("x", 16<<10+1)), witness.BadAnswer},
		{"headers without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<16))
		}, witness.Unreachable},
		{"an answer that never comes", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, witness.Timeout},
		{"a body that never ends", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "—")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, witness.Timeout},
		{"a connection that is cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, witness.Unreachable},
		{"a redirect to an honest one", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, honest.Serve(t)+"/add-checkpoint", http.StatusTemporaryRedirect)
		}, witness.BadAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := witnesstest.New(t, "w.example", l.VKey, 1)
			w.Lie(tt.lie)
			g := group(t, 1, witness.Options{Timeout: 500 * time.Millisecond}, w)
			start := time.Now()
			r := g.Gather(t.Context(), l.Submission(50))
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			want := "W1 " + string(tt.want)
			if tt.want == "" {
				want = ""
			}
			if reasons(r) != want || r.Met != (tt.want == "") {
				t.Errorf("failures %q, met %v, want %q", reasons(r), r.Met, want)
			}
			for _, c := range r.Cosignatures {
				if lines := string(r.Lines()); c.Key != w.Key || strings.Count(lines, "\n") != 1 || !strings.HasPrefix(lines, "— w.example ") {
					t.Errorf("lines %q", lines)
				}
			}
		})
	}
}

func TestAQuorumDoesNotWaitForTheSlow(t *testing.T) {
	l := witnesstest.NewLog(t, 50, "leaf")
	a, b, slow := witnesstest.New(t, "a.example", l.VKey, 1), witnesstest.New(t, "b.example", l.VKey, 2), witnesstest.New(t, "c.example", l.VKey, 3)
	slow.Lie(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	g := group(t, 2, witness.Options{Timeout: time.Minute / 2}, slow, b, a)
	start := time.Now()
	r := g.Gather(t.Context(), l.Submission(50))
	if !r.Met || reasons(r) != "W1 resting" || time.Since(start) > 25*time.Second {
		t.Errorf("met %v, %q, after %s", r.Met, reasons(r), time.Since(start))
	}
	if len(r.Cosignatures) != 2 || r.Cosignatures[0].Key != b.Key { // in the order of the policy
		t.Errorf("lines %s", r.Lines())
	}
	if s := g.States()[0]; s.Requests != 0 || s.LastError != nil {
		t.Errorf("who was given up is blamed: %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := g.Gather(ctx, l.Submission(50)); r.Met || len(r.Failures) != 3 {
		t.Errorf("after its end: %s", reasons(r))
	}
}

func TestAWitnessThatFailsIsLeftAlone(t *testing.T) {
	l := witnesstest.NewLog(t, 50, "leaf")
	w := witnesstest.New(t, "w.example", l.VKey, 1)
	var clock atomic.Int64
	start := time.Now()
	g := group(t, 1, witness.Options{Rest: time.Minute, Now: func() time.Time { return start.Add(time.Duration(clock.Load())) }}, w)
	w.Lie(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) })
	for i, tt := range []struct {
		after time.Duration
		want  string
		asked int
	}{
		{0, "W1 busy", 1}, {59 * time.Second, "W1 resting", 1}, {time.Minute, "W1 busy", 2},
		{3*time.Minute - 1, "W1 resting", 2}, {3 * time.Minute, "W1 busy", 3}, {7 * time.Minute, "W1 busy", 4},
	} {
		clock.Store(int64(tt.after))
		if r := g.Gather(t.Context(), l.Submission(50)); reasons(r) != tt.want || w.Asked() != tt.asked {
			t.Errorf("step %d: %q, asked %d times, want %q, %d", i, reasons(r), w.Asked(), tt.want, tt.asked)
		}
	}
	w.Lie(nil)
	clock.Store(int64(time.Hour))
	r := g.Gather(t.Context(), l.Submission(50))
	if len(r.Failures) != 1 || r.Failures[0].Reason != witness.BadClock { // the test's clock is an hour ahead of it
		t.Errorf("a clock that is behind: %s", reasons(r))
	}
	clock.Store(0)
	clock.Store(int64(-time.Second)) // rests by the clock that was
	if s := g.States()[0]; s.Failures[witness.Busy] != 4 || s.Failures[witness.BadClock] != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAGroupNeedsTheirURLs(t *testing.T) {
	if _, err := witness.NewGroup(policyOf(t, someWitnesses(t, 2)+"quorum W1\n"), witness.Options{}); err == nil || !strings.Contains(err.Error(), "no URL") {
		t.Errorf("NewGroup = %v", err)
	}
	if _, err := witness.NewGroup(policyOf(t, "quorum none\n"), witness.Options{}); err == nil {
		t.Error("a group of nobody")
	}
}
