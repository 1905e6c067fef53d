package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// writeLarge gives the i-th page 17 MiB of words, which is more than may share
// a batch.
func writeLarge(p *pair.Pair, i int, seed string) {
	var b strings.Builder
	for n := 0; b.Len() < 17<<20; n++ {
		fmt.Fprintf(&b, "<p>Paragraph %d of the %s version, %s.", n, seed, strings.Repeat("which goes on and on, ", 400))
	}
	p.Write(i, b.String())
}

// files counts the files of large pages that the indexer has.
func files(t *testing.T, p *pair.Pair) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(p.Idx, "large", "*", "*"))
	pair.Check(t, err)
	return len(names)
}

func TestALargePageIsPushedChangedAndWithdrawn(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 3)
	writeLarge(p, 1, "first")
	if r := p.Push(); r.Sent != 3 || len(r.Refused) != 0 || p.Pages() != 3 || files(t, p) != 1 {
		t.Fatalf("first push: %+v, %d files", r, files(t, p))
	}
	if r := p.Push(); r.Sent != 0 || len(r.Receipts) != 0 {
		t.Errorf("nothing changed: %+v", r)
	}
	writeLarge(p, 1, "second")
	p.Write(2, "small and new")
	if r := p.Push(); r.Sent != 2 {
		t.Errorf("an update: %+v", r)
	}
	p.StopIndexer()
	p.StartIndexer()
	p.SameFile("d1/p1.html")
	if n := files(t, p); n != 1 {
		t.Errorf("%d files after the update", n)
	}
	pair.Check(t, os.Remove(p.Page(1)))
	if r := p.Push(); r.Deleted != 1 || p.Pages() != 2 {
		t.Errorf("a deletion: %+v", r)
	}
	for deadline := time.Now().Add(20 * time.Second); files(t, p) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the file stays")
		}
	}
	p.ReceiptsHold(6)
}
