//go:build long

package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// TestAThousandSessionsEndInTime: from the signal to the end of the process.
func TestAThousandSessionsEndInTime(t *testing.T) {
	c := newCrowd(t, 1000)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	wait := c.assemble(ctx)
	if n := c.metric("uzpif_oi_sessions"); n != 1000 {
		t.Errorf("%v sessions are counted", n)
	}
	took := c.endAll(wait)
	t.Logf("1000 sessions were asked to come back, and indexerd ended, in %s", took.Round(10*time.Millisecond))
	if took > 30*time.Second {
		t.Errorf("more than 30 s")
	}
}

// TestFiveThousandIdleSessionsFit in the memory that doc/limits.md states: of the
// whole process, by what the system counts, when each session has announced one
// agreement and a minute has passed.
func TestFiveThousandIdleSessionsFit(t *testing.T) {
	const n, each = 5000, 97 // KiB, which is 100 kB
	c := newCrowd(t, n)
	before := c.resident()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	wait := c.assemble(ctx)
	begun := time.Now()
	top := 0
	for time.Since(begun) < time.Minute {
		top = max(top, c.resident())
		time.Sleep(time.Second)
	}
	if open := c.metric("uzpif_oi_sessions"); open != n {
		t.Errorf("%v sessions are open", open)
	}
	after := c.resident()
	t.Logf("%d sessions: %d KiB resident before, %d after, %d at most; %d KiB a session; %v goroutines, %v heap in use, %v stacks",
		n, before, after, top, (top-before)/n, c.metric("go_goroutines"), c.metric("go_memstats_heap_inuse_bytes"), c.metric("go_memstats_stack_inuse_bytes"))
	if got := (top - before) / n; got > each {
		t.Errorf("%d KiB a session, at most %d", got, each)
	}
	t.Logf("indexerd ended in %s", c.endAll(wait).Round(10*time.Millisecond))
}

// resident is what the process of indexerd has in memory, in KiB.
func (c *crowd) resident() int {
	c.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.indexer.Process.Pid))
	pair.Check(c.t, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			pair.Check(c.t, err)
			return n
		}
	}
	c.t.Fatal("no VmRSS")
	return 0
}
