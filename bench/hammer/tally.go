package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
)

// The operations that are counted, in the order in which they are printed.
const (
	opAdd        = iota // one entry, until its commit returned
	opBundle            // one entry, from its bundle, proven by tiles
	opProof             // one entry by itself, with the proof that the log makes
	opCheckpoint        // one checkpoint, proven to go on from the one before
	opReceipt           // a checkpoint that a commit returned, proven to lie in what was published
	operations
)

// maxComplaints bounds what is kept to be printed; all are counted.
const maxComplaints = 10

// A tally counts what was done and what was wrong. It is safe for concurrent
// use.
type tally struct {
	took         [operations]load.Histogram
	failed       [operations]atomic.Uint64
	inconsistent atomic.Uint64

	complaintsMu sync.Mutex
	complaints   []string
}

func newTally() *tally { return new(tally) }

func (t *tally) did(op int, began time.Time) { t.took[op].Add(time.Since(began)) }

// fail counts a request that was not answered.
func (t *tally) fail(op int, err error) {
	t.failed[op].Add(1)
	t.complain("failed: " + err.Error())
}

// accuse counts an answer that contradicts another.
func (t *tally) accuse(format string, a ...any) {
	t.inconsistent.Add(1)
	t.complain("INCONSISTENT: " + fmt.Sprintf(format, a...))
}

func (t *tally) complain(text string) {
	t.complaintsMu.Lock()
	defer t.complaintsMu.Unlock()
	if len(t.complaints) < maxComplaints {
		t.complaints = append(t.complaints, text)
	}
}

// end prints the tally, and says what it comes to.
func (t *tally) end(out io.Writer, d time.Duration) error {
	names := [operations]string{
		opAdd: "added", opBundle: "entries, by bundle and tiles", opProof: "entries, by served proof",
		opCheckpoint: "checkpoints followed", opReceipt: "checkpoints of commits",
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tcount\tper second\tp50\tp99\tfailed")
	var done, failed uint64
	for op := range operations {
		h, n := &t.took[op], t.failed[op].Load()
		done, failed = done+h.Count(), failed+n
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%v\t%v\t%d\n", names[op], h.Count(), float64(h.Count())/d.Seconds(),
			h.Quantile(0.50).Round(time.Microsecond), h.Quantile(0.99).Round(time.Microsecond), n)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range t.complaints {
		if _, err := fmt.Fprintln(out, c); err != nil {
			return err
		}
	}
	switch n := t.inconsistent.Load(); {
	case n > 0:
		return fmt.Errorf("the log contradicted itself %d times", n)
	case t.took[opCheckpoint].Count() == 0 || done == t.took[opCheckpoint].Count():
		return fmt.Errorf("nothing was verified: %d requests failed, or the log stayed empty", failed)
	case failed > 0:
		return fmt.Errorf("%w: %d", errRequests, failed)
	}
	_, err := fmt.Fprintln(out, "nothing was inconsistent")
	return err
}
