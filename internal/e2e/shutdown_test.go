package e2e

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// TestASecondSignalEndsTheDaemonAtOnce holds a request open, for which the
// daemon waits some seconds when it is told to end, and tells it again.
func TestASecondSignalEndsTheDaemonAtOnce(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 1)
	p.bin = buildPrograms(t)
	p.startIndexerd()
	address := strings.TrimPrefix(p.public, "http://")
	open, err := net.Dial("tcp", address)
	pair.Check(t, err)
	defer open.Close()
	_, err = open.Write([]byte("POST /revocation HTTP/1.1\r\nHost: log.test\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n"))
	pair.Check(t, err)
	_, err = io.ReadFull(open, make([]byte, len("HTTP/1.1 100"))) // the body is waited for now
	pair.Check(t, err)
	ended := make(chan error, 1)
	go func() { ended <- p.indexer.Wait() }()
	pair.Check(t, p.indexer.Process.Signal(syscall.SIGTERM))
	// The first signal has been heard when nobody listens any more.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		c.Close()
		if time.Now().After(deadline) {
			t.Fatal("the first signal ends nothing")
		}
	}
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-time.After(10 * time.Millisecond):
			p.indexer.Process.Signal(syscall.SIGTERM) // it may be gone by now
		}
	}
	status, ok := p.indexer.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("the daemon ended by itself: %v", p.indexer.ProcessState)
	}
}
