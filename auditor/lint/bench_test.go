package lint_test

import (
	"crypto/ed25519"
	"flag"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

var benchEntries = flag.Int("entries", 100_000, "entries of the log that BenchmarkLint reads")

// BenchmarkLint lints a log of -entries entries over HTTP, served by the same
// process, and verifies as many Ed25519 signatures on all cores, before and after
// in turn. The ratio of the two is what the checks beside the signatures leave of
// them; cpu-ratio is that of the processor time that the process took, to which
// other programs on the machine add nothing.
func BenchmarkLint(b *testing.B) {
	s := stage.New(b, 1)
	log := benchLog(b, s, *benchEntries)
	server := httptest.NewServer(log.Handler())
	defer server.Close()
	c, err := remote.New(server.URL, s.Indexer.Card.Log.VKey, remote.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	entries := float64(len(log.Entries))
	for b.Loop() {
		before, beforeCPU := verifyAlone(b, len(log.Entries)/2)
		began, spent := time.Now(), processTime(b)
		r, err := lint.Remote(b.Context(), c, lint.Options{Card: s.Indexer.Card, Now: now, State: b.TempDir()})
		if err != nil || !r.OK() || r.EntriesChecked != uint64(entries) {
			b.Fatalf("%v\n%s", err, r)
		}
		linted, cpu := entries/time.Since(began).Seconds(), processTime(b)-spent
		after, afterCPU := verifyAlone(b, len(log.Entries)/2)
		raw := 2 / (1/before + 1/after)
		b.ReportMetric(linted, "entries/s")
		b.ReportMetric(raw, "verifications/s")
		b.ReportMetric(linted/raw, "ratio")
		b.ReportMetric((beforeCPU+afterCPU).Seconds()/cpu.Seconds(), "cpu-ratio")
	}
}

// benchLog is a log in which a hundred series take turns.
func benchLog(b *testing.B, s *stage.Stage, n int) *zoo.Log {
	script := zoo.NewScript(s.Indexer, now.Add(-time.Duration(n+1000)*time.Minute))
	var all []zoo.Grant
	for i := range 100 {
		g := zoo.Grant{Series: string(rune('A' + i)), Name: string(rune('A' + i)), Life: 1 << 60}
		script.Journal(g, 7)
		script.Batch(g, 10, zoo.Part{Decision: translog.Include, Pages: 10})
		all = append(all, g)
	}
	for i := 0; len(script.Drafts) < n; i++ {
		script.Batch(all[i%len(all)], 3, zoo.Part{Decision: translog.Update, Pages: 3})
	}
	return zoo.New(b, s.Indexer, script.Drafts, []uint64{0, 0}, now, zoo.Lie{})
}

// processTime is the processor time that this process has taken.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// verifyAlone is how many signatures over as many octets as an entry has all cores
// verify in a second, and the processor time that it takes.
func verifyAlone(b *testing.B, n int) (rate float64, cpu time.Duration) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	message := make([]byte, 1400)
	sig := ed25519.Sign(private, message)
	var done atomic.Int64
	var all sync.WaitGroup
	began, spent := time.Now(), processTime(b)
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
	return float64(n) / time.Since(began).Seconds(), processTime(b) - spent
}
