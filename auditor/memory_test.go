package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

var memoryEntries = flag.Int("entries", 100_000, "entries of the log that BenchmarkMemory has followed and linted")

// manyLogs is how many logs are followed by one process, each of a hundredth as
// many entries.
const manyLogs = 64

// BenchmarkMemory runs the program over a log of -entries entries, and over many
// logs, and prints how much memory it had at the most, in MiB.
func BenchmarkMemory(b *testing.B) {
	now := time.Now()
	b.Run("one", func(b *testing.B) {
		card, url := servedLog(b, 0, *memoryEntries, now)
		b.Run("follow", func(b *testing.B) { memoryOf(b, "follow", url, "--key", card, "--once") })
		b.Run("lint", func(b *testing.B) { memoryOf(b, "lint", url, "--key", card) })
	})
	b.Run("many", func(b *testing.B) {
		var config bytes.Buffer
		for i := range manyLogs {
			card, url := servedLog(b, 1+i, *memoryEntries/100, now)
			fmt.Fprintf(&config, "- url: %s\n  key: %s\n", url, card)
		}
		file := filepath.Join(b.TempDir(), "logs.yaml")
		if err := os.WriteFile(file, config.Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
		b.Run("follow", func(b *testing.B) { memoryOf(b, "follow", "--config", file, "--once") })
	})
}

func memoryOf(b *testing.B, args ...string) {
	for b.Loop() {
		began := time.Now()
		most := mostMemory(b, append(args, "--state", filepath.Join(b.TempDir(), "state")))
		b.ReportMetric(float64(most)/1024, "MiB")
		b.ReportMetric(time.Since(began).Seconds(), "s")
	}
}

// servedLog is a log with an indexer and an origin of its own, and its card.
func servedLog(b *testing.B, number, entries int, now time.Time) (card, url string) {
	b.Helper()
	indexer, err := identity.Create(b.TempDir(), identity.Options{
		Identity: "spiffe://search.example/indexer", Role: identity.Indexer, Now: now.Add(-100 * 24 * time.Hour),
		Endpoint: "search.example:7443", LogURL: "https://log.search.example", LogOrigin: fmt.Sprintf("log.search.example/%d", number),
		Rand: rand.NewChaCha8([32]byte{byte(number)}),
	})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(zoo.Long(b, indexer, entries, now.UTC().Truncate(time.Second)).Handler())
	b.Cleanup(server.Close)
	card = filepath.Join(b.TempDir(), "indexer.json")
	if err := os.WriteFile(card, indexer.Card.Object.Raw, 0o600); err != nil {
		b.Fatal(err)
	}
	return card, server.URL
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// mostMemory runs the program, and is the most KiB that it had. The kernel's count
// for a child that has ended has its parent's memory in it, so it is asked while
// the child runs.
func mostMemory(b *testing.B, args []string) (most int) {
	b.Helper()
	cmd := exec.Command("auditor", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil || most == 0 {
				b.Fatalf("auditor %q: %v\n%s", args, err, &out)
			}
			return most
		case <-time.After(10 * time.Millisecond):
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)) // gone at the end
			if m := highWater.FindSubmatch(status); m != nil {
				most, _ = strconv.Atoi(string(m[1]))
			}
		}
	}
}
