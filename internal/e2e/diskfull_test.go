//go:build system

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// insideVariable says that the test runs in a mount namespace of its own.
const insideVariable = "E2E_OWN_MOUNTS"

// ownMounts runs the test again where it may mount what it likes, and reports
// whether this is that run. Elsewhere than on Linux with user namespaces it
// fails: there is no disk that could be filled.
func ownMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-rm", os.Args[0], "-test.v", "-test.count=1", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%v: this test mounts a small tmpfs, and needs Linux with user namespaces (unshare -rm, of util-linux)", err)
	}
	return false
}

// A diskRig is the real programs with the indexer's folder on a small disk.
type diskRig struct {
	*programs
	stderr *bytes.Buffer
}

// What the disk has, and what of it is kept, in MiB.
const (
	diskSize    = 64
	diskBallast = 12
	diskLow     = 16
)

func newDiskRig(t *testing.T, pages int) *diskRig {
	t.Helper()
	p := newPrograms(t, pages)
	aside := p.Idx + ".aside"
	pair.CopyDir(t, p.Idx, aside)
	pair.Check(t, syscall.Mount("none", p.Idx, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", diskSize)))
	t.Cleanup(func() {
		if err := syscall.Unmount(p.Idx, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, name := range entriesOf(t, aside) {
		pair.Check(t, exec.Command("cp", "-a", filepath.Join(aside, name), p.Idx).Run())
	}
	config := fmt.Sprintf("listen: %s\npublic: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlog_level: error\npublish_interval: 100ms\nballast_mib: %d\nlow_water_mib: %d\n",
		p.Address, diskBallast, diskLow)
	pair.Check(t, os.WriteFile(filepath.Join(p.Idx, "indexerd.yaml"), []byte(config), 0o644))
	p.bin = buildPrograms(t)
	return &diskRig{programs: p}
}

func entriesOf(t *testing.T, dir string) (names []string) {
	all, err := os.ReadDir(dir)
	pair.Check(t, err)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// start starts the daemon; it keeps what it writes to stderr.
func (r *diskRig) start() {
	r.t.Helper()
	r.startIndexerd()
	r.stderr = r.indexer.Stderr.(*bytes.Buffer)
}

func (r *diskRig) fillerPath() string { return filepath.Join(r.Idx, "filler") }

// takeReserve takes away what the file system has set aside for the store's log,
// behind what is written of it: some MiB, in which a daemon goes on for long on a
// disk that is full for everybody else.
func (r *diskRig) takeReserve() {
	r.t.Helper()
	logs, err := filepath.Glob(filepath.Join(r.Idx, "store", "*.log"))
	pair.Check(r.t, err)
	for _, name := range logs {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		pair.Check(r.t, err)
		info, err := f.Stat()
		pair.Check(r.t, err)
		pair.Check(r.t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, info.Size(), 1<<30))
		pair.Check(r.t, f.Close())
	}
}

// fill takes what is free but for so many octets, and the reserve with the last.
func (r *diskRig) fill(left int64) {
	r.t.Helper()
	if left == 0 {
		r.takeReserve()
	}
	f, err := os.OpenFile(r.fillerPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	pair.Check(r.t, err)
	defer f.Close()
	chunk := make([]byte, 4096)
	for r.free() > left {
		if _, err := f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *diskRig) free() int64 {
	var st syscall.Statfs_t
	pair.Check(r.t, syscall.Statfs(r.Idx, &st))
	return int64(st.Bavail) * int64(st.Bsize)
}

func (r *diskRig) empty() {
	r.t.Helper()
	pair.Check(r.t, os.Remove(r.fillerPath()))
}

// disk is what `indexerd status` says of it.
func (r *diskRig) disk() indexer.DiskStatus {
	r.t.Helper()
	code, out := r.command("indexerd", "status", "--json", "--dir", r.Idx)
	var s struct{ Disk indexer.DiskStatus }
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != cli.OK {
		r.t.Fatalf("status: %d, %v, %s", code, err, out)
	}
	return s.Disk
}

// ready is what /readyz answers.
func (r *diskRig) ready() (int, string) {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.Idx, "run.json"))
	pair.Check(r.t, err)
	var run struct{ Admin string }
	pair.Check(r.t, json.Unmarshal(b, &run))
	resp, err := http.Get("http://" + run.Admin + "/readyz")
	pair.Check(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	pair.Check(r.t, err)
	return resp.StatusCode, string(body)
}

// until waits for what the daemon comes to by itself.
func (r *diskRig) until(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited in vain for %s: %+v; %s", what, r.disk(), r.stderr)
		}
	}
}

// revoke withdraws consent for one page.
func (r *diskRig) revoke(page int) (cli.Code, string) {
	r.t.Helper()
	rel, err := filepath.Glob(filepath.Join(r.Pub, "grants", "*.json"))
	pair.Check(r.t, err)
	series := strings.TrimSuffix(filepath.Base(rel[0]), ".json")
	return r.command("publisherd", "grant", "revoke", series, "--scope", pair.PageURL(page), "--json", "--dir", r.Pub)
}

// TestDiskFullIsReadOnlyAndHeals fills the indexer's disk while a publisher
// pushes. The indexer says so, turns pages away, and serves its log; the
// publisher comes back by itself when there is room, and nothing is lost.
func TestDiskFullIsReadOnlyAndHeals(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	const pages = 200
	r := newDiskRig(t, pages)
	r.start()
	if code, out := r.command("publisherd", "push", "--dir", r.Pub); code != cli.OK {
		t.Fatalf("push: %d, %s", code, out)
	}
	if d := r.disk(); d.ReadOnly || d.BallastBytes != diskBallast<<20 {
		t.Errorf("with room: %+v", d)
	}
	publisherd := exec.CommandContext(t.Context(), filepath.Join(r.bin, "publisherd"), "run", "--dir", r.Pub)
	pair.Check(t, publisherd.Start())
	r.fill(diskLow<<20 - 1<<20)
	r.until("the end of the room", func() bool { return r.disk().ReadOnly })
	if code, body := r.ready(); code != http.StatusServiceUnavailable || !strings.Contains(body, "nearly full") {
		t.Errorf("/readyz: %d, %s", code, body)
	}
	for i := range pages {
		r.Write(i, "what comes too early")
	}
	r.until("the publisher to be ready for commands", func() bool {
		_, err := os.Stat(filepath.Join(r.Pub, "run.json"))
		return err == nil
	})
	if code, out := r.command("publisherd", "push", "--dir", r.Pub); code != cli.Temporary || !strings.Contains(out, "nearly full") {
		t.Errorf("push to a full disk: %d, %s", code, out)
	}
	r.keepNote()
	if len(r.notes) != 1 {
		t.Error("the log is not served")
	}
	r.empty()
	r.until("room", func() bool { return !r.disk().ReadOnly })
	if code, body := r.ready(); code != http.StatusOK {
		t.Errorf("/readyz: %d, %s", code, body)
	}
	r.until("the publisher to come back", func() bool {
		var s indexer.Status
		_, out := r.command("indexerd", "status", "--json", "--dir", r.Idx)
		pair.Check(t, json.Unmarshal([]byte(out), &s))
		return s.TreeSize > 1
	})
	pair.Check(t, publisherd.Process.Signal(syscall.SIGTERM))
	pair.Check(t, publisherd.Wait())
	var files []string
	for i := range pages {
		location, err := filepath.Rel(r.Site, r.Page(i))
		pair.Check(t, err)
		files = append(files, location)
	}
	r.checkAll(files)
}

// TestDiskFullGivesTheBallastAndThenEnds fills the disk to the last octet. A
// withdrawn consent is taken all the same, in the room of the ballast; when that
// is used up as well, the daemon ends with its own code, and does not start
// until there is room.
func TestDiskFullGivesTheBallastAndThenEnds(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	const pages = 60
	r := newDiskRig(t, pages)
	r.start()
	if code, out := r.command("publisherd", "push", "--dir", r.Pub); code != cli.OK {
		t.Fatalf("push: %d, %s", code, out)
	}
	r.fill(0)
	revoked := 0
	for ; r.disk().BallastBytes > 0 && revoked < pages/2; revoked++ {
		if code, out := r.revoke(revoked); code != cli.OK {
			t.Fatalf("revocation %d: %d, %s", revoked, code, out)
		}
	}
	if d := r.disk(); d.BallastBytes != 0 || !d.ReadOnly {
		t.Fatalf("after %d revocations on a full disk: %+v", revoked, d)
	}
	t.Logf("revocation %d took the ballast", revoked)
	r.empty()
	r.until("a new ballast", func() bool { return r.disk().BallastBytes == diskBallast<<20 && !r.disk().ReadOnly })

	ended := make(chan error, 1)
	go func() { ended <- r.indexer.Wait() }()
	over := false
	acked := revoked
	for page := revoked; page < pages && !over; page++ {
		r.fill(0)
		if code, _ := r.revoke(page); code == cli.OK {
			acked++
		}
		select {
		case <-ended:
			over = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	if code := r.indexer.ProcessState.ExitCode(); !over || cli.Code(code) != cli.DiskFull {
		t.Fatalf("with no room at all the daemon ends (%t) with %d: %s", over, code, r.stderr)
	}
	if said := strings.TrimSpace(r.stderr.String()); !strings.Contains(said, "free some room and start again") {
		t.Errorf("it says %s", said)
	}
	t.Logf("it ended behind revocation %d: %s", acked, r.stderr)
	if code, out := r.command("indexerd", "run", "--dir", r.Idx); code != cli.DiskFull || strings.Count(strings.TrimSpace(out), "\n") > 0 {
		t.Errorf("a start without room: %d, %s", code, out)
	}
	r.empty()
	r.start()
	// What it failed to publish as it ended is published with the next turn.
	var last translog.Tree
	r.until("a batch and all revocations that were acknowledged to be published", func() bool {
		r.keepNote()
		if len(r.notes) > 0 {
			var err error
			last, err = translog.OpenNote(r.notes[len(r.notes)-1], r.VKey())
			pair.Check(t, err)
		}
		return last.Size >= uint64(1+acked)
	})
	if code, out := r.command("publisherd", "push", "--dir", r.Pub); code != cli.OK {
		t.Errorf("a push at last: %d, %s", code, out)
	}
	r.EveryReceiptHolds()
}
