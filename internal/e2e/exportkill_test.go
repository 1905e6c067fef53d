package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// Bounds of the pages that are exported: so large that an export takes a while.
const (
	killedPages = 24
	killedSize  = 400 << 10 // octets
)

// manyWords is a text that hardly shrinks.
func manyWords(seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 0))
	var b strings.Builder
	for b.Len() < killedSize {
		fmt.Fprintf(&b, "%x ", random.Uint64())
	}
	return b.String()
}

// An exporter runs the real export over the store of an indexer that does not run.
type exporter struct {
	*programs
	format string
	cards  []*identity.Card
}

// command exports to a folder. What the formats say of their time is told, so that two
// exports of the same pages are the same.
func (e *exporter) command(dir string, at int) *exec.Cmd {
	generated := time.Date(2026, 11, 3, 12, 0, at, 0, time.UTC).Format(time.RFC3339)
	return exec.Command(filepath.Join(e.bin, "indexerd"), "export", "--purpose", "search.index", "--format", e.format, "--out", dir,
		"--generated", generated, "--dir", e.Idx)
}

func (e *exporter) export(dir string, at int) {
	e.t.Helper()
	if out, err := e.command(dir, at).CombinedOutput(); err != nil {
		e.t.Fatalf("export: %v: %s", err, out)
	}
	e.verifies(dir)
}

func (e *exporter) verifies(dir string) {
	e.t.Helper()
	if r := exported.Verify(dir, e.cards, time.Now()); r.Verdict != "signed" || r.Manifest.Pages.Count != killedPages {
		e.t.Errorf("%s: %s, %d pages, %q", dir, r.Verdict, r.Manifest.Pages.Count, r.Reasons)
	}
}

// fresh is how many octets the successor of an export has in files of its own: what it
// shares with the older one has two names.
func fresh(dir string) (octets int64) {
	filepath.WalkDir(dir+".next", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it comes and goes meanwhile
		}
		if info, err := d.Info(); err == nil && info.Sys().(*syscall.Stat_t).Nlink == 1 {
			octets += info.Size()
		}
		return nil
	})
	return octets
}

// killAt starts an export, and kills it as soon as its successor has so many octets of
// its own. It has to be seen there, or it is tried again.
func (e *exporter) killAt(dir string, at int, octets int64) {
	e.t.Helper()
	for range 10 {
		c := e.command(dir, at)
		pair.Check(e.t, c.Start())
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for alive := true; alive; {
			select {
			case <-ended:
				alive = false
			case <-time.After(time.Millisecond):
				if fresh(dir) >= octets {
					pair.Check(e.t, c.Process.Kill())
					if err := <-ended; err != nil {
						if _, err := os.Lstat(dir + ".next"); err == nil {
							return
						}
					}
					alive = false
				}
			}
		}
	}
	e.t.Fatalf("the export was never seen with %d octets", octets)
}

// same compares two exports, but for the signed manifest, which says when it was made.
func (e *exporter) same(a, b string) {
	e.t.Helper()
	files := func(dir string) map[string][]byte {
		all := make(map[string][]byte)
		pair.Check(e.t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == exported.ManifestFile {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err == nil {
				all[name], err = os.ReadFile(path)
			}
			return err
		}))
		return all
	}
	one, other := files(a), files(b)
	for name := range one {
		if !bytes.Equal(one[name], other[name]) {
			e.t.Errorf("%s is not the same", name)
		}
	}
	if len(one) != len(other) || len(one) < 2 {
		e.t.Errorf("%d files, and %d", len(one), len(other))
	}
}

// TestAKilledExportLeavesTheOldOneWhole kills a real export when its successor has grown
// to some sizes. What was there is whole and verifies each time; the next one comes to its
// end, and is the same as one that was never killed.
func TestAKilledExportLeavesTheOldOneWhole(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 0)
	p.bin = buildPrograms(t)
	local, err := identity.Load(p.Idx, time.Now())
	pair.Check(t, err)
	cards := []*identity.Card{local.Card}
	push := func(version uint64) {
		for i := range killedPages {
			if version == 1 || i%2 == 0 {
				p.Write(i, manyWords(version*1000+uint64(i)))
			}
		}
		p.StartIndexer()
		p.Push()
		p.StopIndexer()
	}
	push(1)
	formats := []string{"jsonl", "tct", "scp"}
	old, never := make(map[string]string), make(map[string]string)
	for _, format := range formats {
		e := &exporter{p, format, cards}
		dir := filepath.Join(t.TempDir(), format)
		old[format], never[format] = filepath.Join(dir, "out"), filepath.Join(dir, "never")
		e.killAt(old[format], 1, 100<<10) // where there is none yet
		if _, err := os.Lstat(old[format]); err == nil {
			t.Errorf("%s: something is there that was not whole", format)
		}
		e.export(old[format], 1)
		e.export(never[format], 1)
		e.same(old[format], never[format])
	}
	push(2)
	for _, format := range formats {
		e := &exporter{p, format, cards}
		dir, before := old[format], filepath.Join(t.TempDir(), "before")
		pair.CopyDir(t, dir, before)
		for _, octets := range []int64{1, killedPages / 2 * killedSize / 3} {
			e.killAt(dir, 2, octets)
			e.verifies(dir)
			e.same(dir, before)
		}
		e.export(dir, 2)
		e.export(never[format], 2)
		e.same(dir, never[format])
		if left, err := filepath.Glob(dir + ".*"); err != nil || len(left) != 1 || left[0] != dir+".lock" {
			t.Errorf("%s: beside it lie %q, %v", format, left, err)
		}
	}
}
