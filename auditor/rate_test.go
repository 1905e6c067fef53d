package main

import (
	"crypto/ed25519"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// lintRounds is how often a log is linted, and as many signatures are verified.
const lintRounds = 5

// BenchmarkLint has the program lint a log of -entries entries over HTTP, which this
// process serves on the same cores, and then verifies half as many Ed25519 signatures on all
// cores, by turns. The ratio of the two rates is what all else leaves of them: fetching,
// the checks beside the signatures, the server. cpu-ratio is that of the processor time
// of the program alone, to which other programs on the machine add nothing.
func BenchmarkLint(b *testing.B) {
	card, url := servedLog(b, 0, *memoryEntries, time.Now())
	entries := float64(*memoryEntries)
	for b.Loop() {
		var rates, raws, ratios, cpus, served []float64
		for range lintRounds {
			before, began := processTime(b), time.Now()
			cmd := exec.Command("auditor", "lint", url, "--key", card, "--state", filepath.Join(b.TempDir(), "state"))
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
			rate := entries / time.Since(began).Seconds()
			server := processTime(b) - before
			program := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()

			before, began = processTime(b), time.Now()
			verifyAlone(b, *memoryEntries/2)
			raw := entries / 2 / time.Since(began).Seconds()
			alone := 2 * (processTime(b) - before)

			rates, raws, ratios = append(rates, rate), append(raws, raw), append(ratios, rate/raw)
			cpus, served = append(cpus, alone.Seconds()/program.Seconds()), append(served, server.Seconds()/program.Seconds())
		}
		slices.Sort(ratios)
		b.ReportMetric(median(rates), "entries/s")
		b.ReportMetric(median(raws), "verifications/s")
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(ratios[0], "least")
		b.ReportMetric(ratios[len(ratios)-1], "most")
		b.ReportMetric(median(cpus), "cpu-ratio")
		b.ReportMetric(median(served), "server/lint-cpu")
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// processTime is the processor time that this process has taken, without its children.
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
