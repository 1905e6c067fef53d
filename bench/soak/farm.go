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
	"syscall"
	"time"
)

// A farm is an indexer and its publishers, with the site of each.
type farm struct {
	options
	indexer daemon
	listen  string // where its sessions are
	public  string // where its log is
	all     []*publisher
	done    map[string]int // steps by their kind
	next    int            // number of the next step
}

// A publisher is one with its site, in which each page holds the number of the step
// that wrote it last.
type publisher struct {
	daemon
	n     int
	site  string
	pages map[int]int
}

// A daemon is one program that runs.
type daemon struct {
	name, program, dir string
	cmd                *exec.Cmd
	admin              string
}

func (p *publisher) host() string { return fmt.Sprintf("docs%d.test", p.n) }

// call runs a command to its end and gives what it printed.
func (f *farm) call(ctx context.Context, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var out, fault bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(f.bin, program), args...)
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %v: %w: %s", program, args, err, fault.Bytes())
	}
	return out.Bytes(), nil
}

// calls runs several, one behind the other.
func (f *farm) calls(ctx context.Context, all ...[]string) error {
	for _, c := range all {
		if _, err := f.call(ctx, c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func (f *farm) path(name string) string { return filepath.Join(f.dir, name) }

// card writes a program's card to a file, and names it.
func (f *farm) card(ctx context.Context, d *daemon) (string, error) {
	b, err := f.call(ctx, d.program, "card", "--dir", d.dir)
	if err != nil {
		return "", err
	}
	file := d.dir + ".card.json"
	return file, os.WriteFile(file, b, 0o600)
}

const indexerName = "spiffe://search.test/indexer"

// build makes everything and starts it.
func (f *farm) build(ctx context.Context) error {
	f.done = make(map[string]int)
	f.indexer = daemon{name: "indexer", program: "indexerd", dir: f.path("indexer")}
	if _, err := f.call(ctx, "indexerd", "init", "--identity", indexerName, "--listen", "127.0.0.1:0", "--public", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--endpoint", "search.test:7443", "--log-url", "http://search.test", "--dir", f.indexer.dir); err != nil {
		return err
	}
	if err := f.start(ctx, &f.indexer); err != nil {
		return err
	}
	for n := range f.publishers {
		if err := f.join(ctx, n+1); err != nil {
			return err
		}
	}
	return nil
}

// join makes one publisher with its site, and starts it.
func (f *farm) join(ctx context.Context, n int) error {
	p := &publisher{n: n, site: f.path(fmt.Sprintf("site%d", n)), pages: make(map[int]int)}
	p.daemon = daemon{name: fmt.Sprintf("publisher %d", n), program: "publisherd", dir: f.path(fmt.Sprintf("publisher%d", n))}
	for i := range f.pages {
		if err := f.write(p, i); err != nil {
			return err
		}
	}
	origin := "https://" + p.host()
	if _, err := f.call(ctx, "publisherd", "init", "--identity", "spiffe://"+p.host()+"/publisher", "--origin", origin, "--dir", p.dir); err != nil {
		return err
	}
	ours, err := f.card(ctx, &p.daemon)
	if err != nil {
		return err
	}
	theirs, err := f.card(ctx, &f.indexer)
	if err != nil {
		return err
	}
	err = f.calls(ctx,
		[]string{"indexerd", "trust", "add", ours, "--origin", origin, "--dir", f.indexer.dir},
		[]string{"publisherd", "trust", "add", theirs, "--endpoint", f.listen, "--dir", p.dir},
		[]string{"publisherd", "source", "add", "site", "--kind", "site", "--location", p.site, "--base-url", origin + "/", "--dir", p.dir},
		f.grant(p),
	)
	if err != nil {
		return err
	}
	f.all = append(f.all, p)
	return f.start(ctx, &p.daemon)
}

func (f *farm) grant(p *publisher) []string {
	return []string{"publisherd", "grant", "issue", "--indexer", indexerName, "--source", "site", "--scope", "https://" + p.host() + "/",
		"--purpose", "search.index", "--for", "24h", "--dir", p.dir}
}

// start starts a daemon and waits until it says where it is.
func (f *farm) start(ctx context.Context, d *daemon) error {
	ready := filepath.Join(d.dir, "run.json")
	if err := os.RemoveAll(ready); err != nil {
		return err
	}
	log, err := os.OpenFile(d.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"run", "--dir", d.dir}
	if d.program == "publisherd" {
		args = append(args, "--admin", "127.0.0.1:0")
	}
	d.cmd = exec.Command(filepath.Join(f.bin, d.program), args...)
	d.cmd.Stderr = log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		var where struct{ Listen, Public, Admin string }
		if b, err := os.ReadFile(ready); err == nil && json.Unmarshal(b, &where) == nil && where.Admin != "" {
			d.admin = where.Admin
			if d == &f.indexer {
				f.listen, f.public = where.Listen, "http://"+where.Public
			}
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%s is not ready; see %s", d.name, log.Name()), ctx.Err())
}

func (f *farm) daemons() []*daemon {
	all := []*daemon{&f.indexer}
	for _, p := range f.all {
		all = append(all, &p.daemon)
	}
	return all
}

// stop ends all of them, the publishers first.
func (f *farm) stop() error {
	var faults []error
	for _, p := range f.all {
		faults = append(faults, p.end())
	}
	return errors.Join(append(faults, f.indexer.end())...)
}

func (d *daemon) end() error {
	if d.cmd == nil || d.cmd.Process == nil {
		return nil
	}
	cmd := d.cmd
	d.cmd = nil
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		return fmt.Errorf("%s did not end in order: %w", d.name, err)
	}
	return nil
}
