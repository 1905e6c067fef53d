//go:build system

package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// TestDiskFailureEndsTheDaemonAndLosesNothing takes from a running indexerd the
// right to write to any file (prlimit, of util-linux), while publishers push. It
// ends with the code of an I/O error and one sentence; started again it has
// everything that was acknowledged.
func TestDiskFailureEndsTheDaemonAndLosesNothing(t *testing.T) {
	const pages = 20
	p := newPrograms(t, pages)
	p.bin = buildPrograms(t)
	p.startIndexerd()
	if code, out := p.command("publisherd", "push", "--dir", p.Pub); code != cli.OK {
		t.Fatalf("push: %d, %s", code, out)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.indexer.Wait() }()
	pair.Check(t, exec.Command("prlimit", fmt.Sprintf("--pid=%d", p.indexer.Process.Pid), "--fsize=1:1").Run())
	for i := range pages {
		p.Write(i, "what nobody can store")
	}
	if code, out := p.command("publisherd", "push", "--dir", p.Pub); code == cli.OK {
		t.Errorf("a push that nobody can store: %s", out)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the daemon goes on without its disk")
	}
	said := strings.TrimSpace(p.indexer.Stderr.(*bytes.Buffer).String())
	if code := cli.Code(p.indexer.ProcessState.ExitCode()); code != cli.IO || !strings.Contains(said, syscall.EFBIG.Error()) {
		t.Errorf("the daemon ends with %d: %s", code, said)
	}
	p.startIndexerd()
	if code, out := p.command("publisherd", "push", "--dir", p.Pub); code != cli.OK {
		t.Errorf("a push at last: %d, %s", code, out)
	}
	p.EveryReceiptHolds()
}

// TestDiskThatIsReadOnlyIsToldAtTheStart starts indexerd on a file system that is
// mounted read-only.
func TestDiskThatIsReadOnlyIsToldAtTheStart(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	p := newPrograms(t, 1)
	p.bin = buildPrograms(t)
	pair.Check(t, syscall.Mount(p.Idx, p.Idx, "", syscall.MS_BIND, ""))
	pair.Check(t, syscall.Mount("", p.Idx, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	t.Cleanup(func() { pair.Check(t, syscall.Unmount(p.Idx, syscall.MNT_DETACH)) })
	code, out := p.command("indexerd", "run", "--dir", p.Idx)
	if code != cli.IO || !strings.Contains(out, syscall.EROFS.Error()) || strings.Count(strings.TrimSpace(out), "\n") > 0 {
		t.Errorf("run: %d, %s", code, out)
	}
}
