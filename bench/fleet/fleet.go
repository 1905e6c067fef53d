// Package fleet runs the real programs for measurements: indexers, and publishers
// that push to all of them, each in a folder of its own, on the loopback interface.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A Fleet is indexers and publishers, all real programs with folders of their own
// below dir.
type Fleet struct {
	dir, bin string
	Indexers []*Indexer
}

// An Indexer is one that runs.
type Indexer struct {
	Dir      string
	Identity string
	Address  string // at which it accepts sessions
	cmd      *exec.Cmd
}

// A Source is what a publisher reads.
type Source struct {
	Kind     string // of `publisherd source add`
	Location string
}

// A Publisher is one that every indexer of the fleet trusts.
type Publisher struct {
	fleet  *Fleet
	Dir    string
	Origin string
}

// New starts n indexers.
func New(ctx context.Context, dir, bin string, n int) (*Fleet, error) {
	f := &Fleet{dir: dir, bin: bin}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for i := range n {
		if err := f.addIndexer(ctx, i+1); err != nil {
			return nil, errors.Join(err, f.Stop())
		}
	}
	return f, nil
}

func (f *Fleet) addIndexer(ctx context.Context, i int) error {
	host := fmt.Sprintf("search%d.test", i)
	x := &Indexer{Dir: filepath.Join(f.dir, "indexer"+strconv.Itoa(i)), Identity: "spiffe://" + host + "/indexer"}
	// The card says where the log is, so the port has to be known before.
	public, err := freePort()
	if err != nil {
		return err
	}
	if err := f.call(ctx, "indexerd", "init", "--identity", x.Identity, "--listen", "127.0.0.1:0", "--public", public,
		"--admin", "off", "--endpoint", host+":7443", "--log-url", "http://"+public, "--dir", x.Dir); err != nil {
		return err
	}
	f.Indexers = append(f.Indexers, x)
	return f.Start(ctx, x)
}

// freePort is an address of the loopback interface at which nobody listens.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Join makes a publisher of host that reads s, introduces it and every indexer to
// one another, and grants each of them all of it.
func (f *Fleet) Join(ctx context.Context, host string, s Source) (*Publisher, error) {
	p := &Publisher{fleet: f, Dir: filepath.Join(f.dir, host), Origin: "https://" + host}
	if err := f.call(ctx, "publisherd", "init", "--identity", "spiffe://"+host+"/publisher", "--origin", p.Origin, "--dir", p.Dir); err != nil {
		return nil, err
	}
	if err := f.call(ctx, "publisherd", "source", "add", "pages", "--kind", s.Kind, "--location", s.Location, "--base-url", p.Origin+"/", "--dir", p.Dir); err != nil {
		return nil, err
	}
	for _, x := range f.Indexers {
		if err := p.meet(ctx, x); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Publisher) meet(ctx context.Context, x *Indexer) error {
	f, ours, theirs := p.fleet, p.Dir+".json", x.Dir+".json"
	if err := errors.Join(f.card(ctx, "publisherd", p.Dir, ours), f.card(ctx, "indexerd", x.Dir, theirs)); err != nil {
		return err
	}
	if err := f.call(ctx, "indexerd", "trust", "add", ours, "--origin", p.Origin, "--dir", x.Dir); err != nil {
		return err
	}
	if err := f.call(ctx, "publisherd", "trust", "add", theirs, "--endpoint", x.Address, "--dir", p.Dir); err != nil {
		return err
	}
	return f.call(ctx, "publisherd", "grant", "issue", "--indexer", x.Identity, "--source", "pages",
		"--scope", p.Origin+"/", "--purpose", "search.index", "--dir", p.Dir)
}

// call runs a command, and shows what it printed if it fails.
func (f *Fleet) call(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(f.bin, program), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, args[0], err, out)
	}
	return nil
}

// card writes a program's card to a file.
func (f *Fleet) card(ctx context.Context, program, dir, file string) error {
	card, err := exec.CommandContext(ctx, filepath.Join(f.bin, program), "card", "--dir", dir).Output()
	if err != nil {
		return fmt.Errorf("%s card: %w", program, err)
	}
	return os.WriteFile(file, card, 0o600)
}

// patience is how long a program may take to begin or to end.
const patience = 5 * time.Minute

// Start starts an indexer and waits until it is ready.
func (f *Fleet) Start(ctx context.Context, x *Indexer) error {
	ready := filepath.Join(x.Dir, "run.json")
	if err := os.RemoveAll(ready); err != nil {
		return err
	}
	log, err := os.OpenFile(x.Dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	x.cmd = exec.Command(filepath.Join(f.bin, "indexerd"), "run", "--dir", x.Dir)
	x.cmd.Stderr = log
	if err := x.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		var where struct{ Listen string }
		if b, err := os.ReadFile(ready); err == nil && json.Unmarshal(b, &where) == nil && where.Listen != "" {
			x.Address = where.Listen
			return nil
		}
	}
	return errors.Join(fmt.Errorf("indexerd is not ready; see %s", log.Name()), ctx.Err())
}

// Stop ends the indexers and waits for them.
func (f *Fleet) Stop() error {
	var errs []error
	for _, x := range f.Indexers {
		errs = append(errs, x.Stop())
	}
	return errors.Join(errs...)
}

// Stop ends the indexer in order, and waits for it.
func (x *Indexer) Stop() error {
	if x.cmd == nil || x.cmd.Process == nil {
		return nil
	}
	cmd := x.cmd
	x.cmd = nil
	late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer late.Stop()
	return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
}
