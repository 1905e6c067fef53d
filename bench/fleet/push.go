package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Phase is one push to all indexers, of each figure the largest among them.
type Phase struct {
	Name         string  `json:"name"`
	Sent         int     `json:"sent"`
	Deleted      int     `json:"deleted"`
	Octets       int64   `json:"octets"`    // both ways, with the handshake
	Handshake    int64   `json:"handshake"` // of them
	RoundTrips   int64   `json:"round_trips"`
	Seconds      float64 `json:"seconds"` // of the whole command, for all indexers
	CPU          float64 `json:"cpu"`     // seconds of the processors, of both sides
	PublisherRSS int64   `json:"publisher_rss"`
	IndexerRSS   int64   `json:"indexer_rss"`
}

// handshakeTrips come on top of what a push counts: TCP's and TLS 1.3's.
const handshakeTrips = 2

// A pushed is what publisherd says of a push to one indexer.
type pushed struct {
	Sent       int   `json:"sent"`
	Deleted    int   `json:"deleted"`
	Refused    int   `json:"refused_count"`
	Out        int64 `json:"wire_bytes_out"`
	In         int64 `json:"wire_bytes_in"`
	Handshake  int64 `json:"handshake_bytes"`
	RoundTrips int64 `json:"round_trips"`
}

// Push pushes once, to all indexers.
func (p *Publisher) Push(ctx context.Context, name string) (Phase, error) {
	ph := Phase{Name: name}
	for _, x := range p.fleet.Indexers {
		// The highest mark of memory begins anew.
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", x.cmd.Process.Pid), []byte("5"), 0); err != nil {
			return ph, err
		}
	}
	before, err := p.fleet.CPU()
	if err != nil {
		return ph, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(p.fleet.bin, "publisherd"), "push", "--json", "--dir", p.Dir)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return ph, fmt.Errorf("push, %s: %w: %s", name, err, stderr.String())
	}
	ph.Seconds = time.Since(began).Seconds()
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		ph.PublisherRSS = u.Maxrss << 10
	}
	after, err := p.fleet.CPU()
	if err != nil {
		return ph, err
	}
	ph.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() + after - before).Seconds()
	for _, x := range p.fleet.Indexers {
		rss, err := highWater(x.cmd.Process.Pid)
		if err != nil {
			return ph, err
		}
		ph.IndexerRSS = max(ph.IndexerRSS, rss)
	}
	return ph, ph.add(stdout.Bytes(), len(p.fleet.Indexers))
}

// add takes up what was said of a push, a line for each indexer. All must have
// been told the same.
func (ph *Phase) add(lines []byte, indexers int) error {
	n := 0
	for line := range bytes.Lines(lines) {
		var p pushed
		if err := json.Unmarshal(line, &p); err != nil {
			return fmt.Errorf("what push printed: %w", err)
		}
		if n++; n > 1 && (p.Sent != ph.Sent || p.Deleted != ph.Deleted) || p.Refused > 0 {
			return fmt.Errorf("%s: the indexers were not brought to the same: %s", ph.Name, lines)
		}
		ph.Sent, ph.Deleted = p.Sent, p.Deleted
		ph.Octets, ph.Handshake = max(ph.Octets, p.Out+p.In), max(ph.Handshake, p.Handshake)
		ph.RoundTrips = max(ph.RoundTrips, p.RoundTrips+handshakeTrips)
	}
	if n != indexers {
		return fmt.Errorf("%s: %d results of %d indexers", ph.Name, n, indexers)
	}
	return nil
}

// highWater is the most memory that a process had since its mark was reset.
func highWater(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmHWM in /proc")
}

// tick is the unit of processor time in /proc.
const tick = 10 * time.Millisecond

// CPU is what all indexers have used of the processors since they were started.
func (f *Fleet) CPU() (time.Duration, error) {
	var sum time.Duration
	for _, x := range f.Indexers {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", x.cmd.Process.Pid))
		if err != nil {
			return 0, err
		}
		// The name, in brackets, may hold anything; user and system time are the
		// twelfth and thirteenth field behind it.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 13 {
			return 0, errors.New("no times in /proc")
		}
		for _, s := range fields[11:13] {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}
