package main

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

const (
	origin    = "https://docs.test"
	publisher = "spiffe://docs.test/publisher"
)

// A phase is one push to all indexers, of each figure the largest among them.
type phase struct {
	Name         string  `json:"name"`
	Sent         int     `json:"sent"`
	Deleted      int     `json:"deleted"`
	Octets       int64   `json:"octets"`    // both ways, with the handshake
	Handshake    int64   `json:"handshake"` // of them
	RoundTrips   int64   `json:"round_trips"`
	Seconds      float64 `json:"seconds"` // of the whole command, for all indexers
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

// A fleet is a publisher of one folder and the indexers that it pushes to, all
// real programs with folders of their own below dir.
type fleet struct {
	dir, bin, site string
	indexers       []*indexer
}

type indexer struct {
	dir string
	cmd *exec.Cmd
}

// newFleet starts n indexers and introduces the publisher of site to each.
func newFleet(ctx context.Context, dir, bin, site string, n int) (*fleet, error) {
	f := &fleet{dir: dir, bin: bin, site: site}
	if err := f.call(ctx, "publisherd", "init", "--identity", publisher, "--origin", origin, "--dir", f.publisher()); err != nil {
		return nil, err
	}
	err := f.call(ctx, "publisherd", "source", "add", "site", "--kind", "site", "--location", site, "--base-url", origin+"/", "--dir", f.publisher())
	for i := range n {
		if err == nil {
			err = f.introduce(ctx, i+1)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

func (f *fleet) publisher() string { return filepath.Join(f.dir, "publisher") }

func (f *fleet) introduce(ctx context.Context, i int) error {
	host := fmt.Sprintf("search%d.test", i)
	identity := "spiffe://" + host + "/indexer"
	x := &indexer{dir: filepath.Join(f.dir, "indexer"+strconv.Itoa(i))}
	ours, theirs := filepath.Join(f.dir, "publisher.json"), x.dir+".json"
	if err := f.call(ctx, "indexerd", "init", "--identity", identity, "--listen", "127.0.0.1:0", "--public", "127.0.0.1:0",
		"--admin", "off", "--endpoint", host+":7443", "--log-url", "http://"+host, "--dir", x.dir); err != nil {
		return err
	}
	if err := errors.Join(f.card(ctx, "publisherd", f.publisher(), ours), f.card(ctx, "indexerd", x.dir, theirs)); err != nil {
		return err
	}
	if err := f.call(ctx, "indexerd", "trust", "add", ours, "--origin", origin, "--dir", x.dir); err != nil {
		return err
	}
	f.indexers = append(f.indexers, x)
	address, err := f.start(ctx, x)
	if err != nil {
		return err
	}
	if err := f.call(ctx, "publisherd", "trust", "add", theirs, "--endpoint", address, "--dir", f.publisher()); err != nil {
		return err
	}
	return f.call(ctx, "publisherd", "grant", "issue", "--indexer", identity, "--source", "site",
		"--scope", origin+"/", "--purpose", "search.index", "--dir", f.publisher())
}

// call runs a command, and shows what it printed if it fails.
func (f *fleet) call(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(f.bin, program), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, args[0], err, out)
	}
	return nil
}

// card writes a program's card to a file.
func (f *fleet) card(ctx context.Context, program, dir, file string) error {
	card, err := exec.CommandContext(ctx, filepath.Join(f.bin, program), "card", "--dir", dir).Output()
	if err != nil {
		return fmt.Errorf("%s card: %w", program, err)
	}
	return os.WriteFile(file, card, 0o600)
}

// patience is how long a program may take to begin or to end.
const patience = 5 * time.Minute

// start starts an indexer, waits until it is ready, and returns where it listens.
func (f *fleet) start(ctx context.Context, x *indexer) (string, error) {
	ready := filepath.Join(x.dir, "run.json")
	if err := os.RemoveAll(ready); err != nil {
		return "", err
	}
	log, err := os.OpenFile(x.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	x.cmd = exec.Command(filepath.Join(f.bin, "indexerd"), "run", "--dir", x.dir)
	x.cmd.Stderr = log
	if err := x.cmd.Start(); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		var where struct{ Listen string }
		if b, err := os.ReadFile(ready); err == nil && json.Unmarshal(b, &where) == nil && where.Listen != "" {
			return where.Listen, nil
		}
	}
	return "", errors.Join(fmt.Errorf("indexerd is not ready; see %s", log.Name()), ctx.Err())
}

// stop ends the indexers and waits for them.
func (f *fleet) stop() error {
	var errs []error
	for _, x := range f.indexers {
		errs = append(errs, x.stop())
	}
	return errors.Join(errs...)
}

func (x *indexer) stop() error {
	if x.cmd == nil || x.cmd.Process == nil {
		return nil
	}
	cmd := x.cmd
	x.cmd = nil
	late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer late.Stop()
	return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
}

// push pushes once, to all indexers.
func (f *fleet) push(ctx context.Context, name string) (phase, error) {
	ph := phase{Name: name}
	for _, x := range f.indexers {
		// The highest mark of memory begins anew.
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", x.cmd.Process.Pid), []byte("5"), 0); err != nil {
			return ph, err
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(f.bin, "publisherd"), "push", "--json", "--dir", f.publisher())
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return ph, fmt.Errorf("push, %s: %w: %s", name, err, stderr.String())
	}
	ph.Seconds = time.Since(began).Seconds()
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		ph.PublisherRSS = u.Maxrss << 10
	}
	for _, x := range f.indexers {
		rss, err := highWater(x.cmd.Process.Pid)
		if err != nil {
			return ph, err
		}
		ph.IndexerRSS = max(ph.IndexerRSS, rss)
	}
	return ph, ph.add(stdout.Bytes(), len(f.indexers))
}

// add takes up what was said of a push, a line for each indexer. All must have
// been told the same.
func (ph *phase) add(lines []byte, indexers int) error {
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
