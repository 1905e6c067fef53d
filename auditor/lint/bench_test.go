package lint_test

import (
	"crypto/ed25519"
	"flag"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

var benchEntries = flag.Int("entries", 100_000, "entries of the log that BenchmarkLint reads")

// turns is in how many parts a log is linted.
const turns = 20

// BenchmarkLint lints a log of -entries entries over HTTP, served by the same
// process, and verifies as many Ed25519 signatures on all cores. The two take
// turns: a twentieth of the log, a twentieth of the signatures, so that what else
// the machine does falls on both. The ratio of the two rates is what the checks
// beside the signatures leave of them; cpu-ratio is that of the processor time that
// the process took, to which other programs on the machine add nothing.
func BenchmarkLint(b *testing.B) {
	s := stage.New(b, 1)
	began := time.Now()
	log := zoo.Long(b, s.Indexer, *benchEntries, now)
	debug.FreeOSMemory()
	b.Logf("the log was made in %s", time.Since(began).Round(time.Second))
	server := httptest.NewServer(log.Handler())
	defer server.Close()
	c, err := remote.New(server.URL, s.Indexer.Card.Log.VKey, remote.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	entries := uint64(len(log.Entries))
	for b.Loop() {
		lints, alone := new(spent), new(spent)
		// The lint waits for what is verified here; what its goroutines have begun
		// they end first, and it is counted as theirs.
		step, next := entries/turns, entries/turns
		progress := func(done, _ uint64) {
			if done < next {
				return
			}
			next += step
			settle(b)
			lints.stop(b)
			alone.start(b)
			verifyAlone(b, int(step))
			alone.stop(b)
			lints.start(b)
		}
		lints.start(b)
		r, err := lint.Remote(b.Context(), c, lint.Options{Card: s.Indexer.Card, Now: now, State: b.TempDir(), Progress: progress})
		lints.stop(b)
		if err != nil || !r.OK() || r.EntriesChecked != entries {
			b.Fatalf("%v\n%s", err, r)
		}
		verified := float64(turns * step)
		linted, raw := float64(entries)/lints.clock.Seconds(), verified/alone.clock.Seconds()
		b.ReportMetric(linted, "entries/s")
		b.ReportMetric(raw, "verifications/s")
		b.ReportMetric(linted/raw, "ratio")
		b.ReportMetric((alone.cpu.Seconds()/verified)/(lints.cpu.Seconds()/float64(entries)), "cpu-ratio")
	}
}

// A spent is what was spent on one of the two, by the clock and of the processor.
type spent struct {
	clock, cpu time.Duration

	began  time.Time
	before time.Duration
}

func (s *spent) start(b *testing.B) { s.began, s.before = time.Now(), processTime(b) }

func (s *spent) stop(b *testing.B) {
	s.clock += time.Since(s.began)
	s.cpu += processTime(b) - s.before
}

// settle waits until the process takes hardly any time.
func settle(b *testing.B) {
	for {
		before := processTime(b)
		time.Sleep(5 * time.Millisecond)
		if processTime(b)-before < time.Millisecond {
			return
		}
	}
}

// processTime is the processor time that this process has taken.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// verifyAlone verifies n signatures, over as many octets as an entry has, on all
// cores.
func verifyAlone(b *testing.B, n int) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	message := make([]byte, 1400)
	sig := ed25519.Sign(private, message)
	var done atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for done.Add(1) <= int64(n) {
				if !ed25519.Verify(public, message, sig) {
					b.Error("it does not verify")
				}
			}
		})
	}
	all.Wait()
}
