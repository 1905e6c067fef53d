package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// deadPeer is within what time either side finds that the other does not answer any
// more, though nothing has closed the connection.
const deadPeer = 45 * time.Second

// TestAnIndexerThatStandsStillIsGivenUp: its process is stopped, so that the system
// still acknowledges what is sent to it, and the publisher, which has nothing to send,
// finds it out. When the indexer goes on, a push finds it again.
func TestAnIndexerThatStandsStillIsGivenUp(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 1)
	p.bin = buildPrograms(t)
	p.startIndexerd()
	pair.Check(t, os.WriteFile(filepath.Join(p.Pub, "publisherd.yaml"), []byte("log_level: info\n"), 0o644))
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	pair.Check(t, err)
	defer log.Close()
	publisherd := exec.CommandContext(t.Context(), filepath.Join(p.bin, "publisherd"), "run", "--dir", p.Pub)
	publisherd.Stderr = log
	pair.Check(t, publisherd.Start())
	defer publisherd.Process.Kill()

	said := func(words string, times int, within time.Duration) time.Duration {
		t.Helper()
		begun := time.Now()
		for ; ; time.Sleep(20 * time.Millisecond) {
			b, err := os.ReadFile(path)
			pair.Check(t, err)
			if bytes.Count(b, []byte(words)) >= times {
				return time.Since(begun)
			}
			if time.Since(begun) > within {
				t.Fatalf("%s does not stand there %d times: %s", words, times, b)
			}
		}
	}
	said(`"msg":"pushed"`, 1, time.Minute)
	pair.Check(t, p.indexer.Process.Signal(syscall.SIGSTOP))
	took := said(`"msg":"retry"`, 1, 2*time.Minute)
	pair.Check(t, p.indexer.Process.Signal(syscall.SIGCONT))
	t.Logf("found after %s", took.Round(100*time.Millisecond))
	if took > deadPeer {
		t.Errorf("it took more than %s", deadPeer)
	}
	p.pushAll()
	said(`"msg":"session open"`, 2, time.Minute)
	pair.Check(t, publisherd.Process.Signal(syscall.SIGTERM))
	pair.Check(t, publisherd.Wait())
}
