//go:build linux

package e2e

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"debug/elf"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// inodes are the sockets among the open files of a process.
func inodes(t *testing.T, pid int) (all []string) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	pair.Check(t, err)
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue // closed meanwhile
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			all = append(all, strings.TrimSuffix(inode, "]"))
		}
	}
	return all
}

// listening is how the kernel writes that state of TCP.
const listening = "0A"

// openPorts are the sockets of a process that a packet from elsewhere could
// reach without having been asked for: those of TCP that listen, and all of UDP.
func openPorts(t *testing.T, pid int) (open []string) {
	t.Helper()
	own := inodes(t, pid)
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if os.IsNotExist(err) && strings.HasSuffix(table, "6") {
			continue // a machine without IPv6
		}
		pair.Check(t, err)
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			row := strings.Fields(lines.Text()) // sl local remote state … inode
			if len(row) < 10 || !slices.Contains(own, row[9]) {
				continue
			}
			if strings.HasPrefix(table, "udp") || row[3] == listening {
				open = append(open, table+" "+row[1])
			}
		}
		pair.Check(t, f.Close())
	}
	return open
}

// ask runs one command and decodes the JSON line that it prints.
func (p *programs) ask(into any, program string, args ...string) error {
	out, err := exec.Command(filepath.Join(p.bin, program), args...).Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// delivered waits until publisherd, which runs, has nothing left to offer.
func (p *programs) delivered(pages uint64) {
	p.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var s struct {
			Indexers []struct{ Backlog, Pages uint64 }
		}
		err := p.ask(&s, "publisherd", "status", "--json", "--dir", p.Pub)
		if err == nil && len(s.Indexers) == 1 && s.Indexers[0].Backlog == 0 && s.Indexers[0].Pages == pages {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("not delivered: %v, %+v", err, s)
		}
	}
}

// published waits until the public side answers for a path.
func (p *programs) published(url string) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := fetch(p.t.Context(), url)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatal(err)
		}
	}
}

// waitForRun waits for the file that tells a daemon's addresses.
func waitForRun(t *testing.T, dir string) (r struct{ Public, Admin string }) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(filepath.Join(dir, "run.json"))
		if err == nil && json.Unmarshal(b, &r) == nil {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: the daemon does not start: %v", dir, err)
		}
	}
}

// TestPublisherdOpensNoPort runs the daemon while it delivers a site and an
// edit of it: it dials the indexer, and the log whose address is in that
// indexer's card, and no port of its own can be reached (UZPIF-OI 3, 7, 12.1).
// With --admin there is one, on loopback, which shows that the look would find it.
func TestPublisherdOpensNoPort(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 5)
	p.bin = buildPrograms(t)
	p.startIndexerd()
	daemon := watched(t, filepath.Join(p.bin, "publisherd"), "run", "--dir", p.Pub)
	waitForRun(t, p.Pub)
	p.delivered(5)
	p.Write(7, "something new")
	p.delivered(6)
	if open := openPorts(t, daemon.Process.Pid); len(open) > 0 {
		t.Errorf("publisherd can be reached at %q", open)
	}
	if bound := daemon.bound(t); len(bound) > 0 {
		t.Errorf("publisherd has bound %v", bound)
	}
	sessions, log := netip.MustParseAddrPort(p.Address), netip.MustParseAddrPort(strings.TrimPrefix(p.public, "http://"))
	dialled := daemon.dialled(t)
	if !slices.Contains(dialled, sessions) {
		t.Error("publisherd was not seen to dial, and yet it delivered")
	}
	for _, a := range dialled {
		if a != sessions && a != log {
			t.Errorf("publisherd dialled %v; its indexer is at %v, that indexer's log at %v", a, sessions, log)
		}
	}
	pair.Check(t, daemon.Process.Signal(os.Interrupt))
	<-daemon.ended

	pair.Check(t, os.RemoveAll(filepath.Join(p.Pub, "run.json")))
	admin := watched(t, filepath.Join(p.bin, "publisherd"), "run", "--admin", "127.0.0.1:0", "--dir", p.Pub)
	waitForRun(t, p.Pub)
	if open := openPorts(t, admin.Process.Pid); len(open) != 1 || !strings.HasPrefix(open[0], "tcp 0100007F:") {
		t.Errorf("with --admin 127.0.0.1:0 the open ports are %q, want one on loopback", open)
	}
}

// TestIndexerdDialsNobody counts what indexerd connects to while it is pushed
// to, revoked to and asked, and is restarted in between: nothing, over any
// network (UZPIF-OI 6, 12.3).
func TestIndexerdDialsNobody(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 5)
	p.bin = buildPrograms(t)
	for round := range 2 {
		pair.Check(t, os.RemoveAll(filepath.Join(p.Idx, "run.json")))
		daemon := watched(t, filepath.Join(p.bin, "indexerd"), "run", "--dir", p.Idx)
		public := "http://" + waitForRun(t, p.Idx).Public
		p.Write(round, "words of another round")
		p.pushAll()
		for _, path := range []string{"/", "/checkpoint", "/proof/inclusion?index=0&size=1", "/card.json"} {
			p.published(public + path)
		}
		if round == 1 {
			pair.Check(t, exec.Command(filepath.Join(p.bin, "publisherd"), "grant", "revoke", "--all", "--disposition", "delete", "--dir", p.Pub).Run())
		}
		if open := openPorts(t, daemon.Process.Pid); len(open) != 2 {
			t.Errorf("indexerd can be reached at %q, want its address for sessions and its public one", open)
		}
		pair.Check(t, daemon.Process.Signal(os.Interrupt))
		<-daemon.ended
		if dialled := daemon.dialled(t); len(dialled) > 0 {
			t.Errorf("indexerd dialled %v", dialled)
		}
	}
}

// TestIndexerdDialsItsWitnessesAlone names a witness, which refuses: indexerd
// asks it, and goes nowhere else.
func TestIndexerdDialsItsWitnessesAlone(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 3)
	p.bin = buildPrograms(t)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not today", http.StatusForbidden)
	}))
	defer refusing.Close()
	key, err := witness.NewKey("w.test", ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey))
	pair.Check(t, err)
	policy := filepath.Join(p.Idx, "witnesses.txt")
	pair.Check(t, os.WriteFile(policy, []byte(fmt.Sprintf("witness W %s %s\nquorum W\n", key, refusing.URL)), 0o600))
	config := filepath.Join(p.Idx, "indexerd.yaml")
	text, err := os.ReadFile(config)
	pair.Check(t, err)
	pair.Check(t, os.WriteFile(config, fmt.Appendf(text, "witnesses: %s\n", policy), 0o600))
	daemon := watched(t, filepath.Join(p.bin, "indexerd"), "run", "--dir", p.Idx)
	waitForRun(t, p.Idx)
	p.pushAll()
	want := netip.MustParseAddrPort(strings.TrimPrefix(refusing.URL, "http://"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(daemon.dialled(t)) == 0 {
		if ctx.Err() != nil {
			t.Fatal("indexerd did not ask its witness")
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, a := range daemon.dialled(t) {
		if a != want {
			t.Errorf("indexerd dialled %v; its witness is at %v", a, want)
		}
	}
}

// TestIndexerdHoldsNoFetcher looks for the functions of our HTTP client for
// sources in the programs as they were linked. The formats' packages know it,
// because publishers read sources by them; what indexerd uses of these packages
// does not reach it. In publisherd it is found, which shows that it would be.
func TestIndexerdHoldsNoFetcher(t *testing.T) {
	t.Parallel()
	bin := buildPrograms(t)
	count := func(program string) (n int) {
		file, err := elf.Open(filepath.Join(bin, program))
		pair.Check(t, err)
		defer file.Close()
		symbols, err := file.Symbols()
		pair.Check(t, err)
		for _, s := range symbols {
			if strings.HasPrefix(s.Name, "github.com/uzpif-oi/uzpif-oi/content/fetch.") {
				n++
			}
		}
		return n
	}
	if n := count("publisherd"); n == 0 {
		t.Error("publisherd fetches nothing")
	}
	for _, program := range []string{"indexerd", "auditor"} {
		if n := count(program); n > 0 {
			t.Errorf("%s holds %d functions and variables of content/fetch", program, n)
		}
	}
}
