//go:build system

package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// What a push may move, counted at the connection, both ways and with its
// handshake. `rsync -az` from a daemon moves 155 KB for the same edit, and 110 KB
// where nothing changed.
const (
	mostFirst   = 2_200_000
	mostNothing = 8 << 10
	mostEdited  = 155_000 / 8
)

// TestSyncOnCppreference edits one page in a hundred of 4,424.
func TestSyncOnCppreference(t *testing.T) {
	p := pair.New(t, 1)
	pair.CopyDir(t, "/usr/share/cppreference/doc/html/en", p.Site)
	first := p.Push()
	if n := first.WireOut + first.WireIn; first.Sent < 4000 || n > mostFirst {
		t.Errorf("%d pages took %d octets, at most %d are meant", first.Sent, n, mostFirst)
	}
	nothing := p.Push()
	if n := nothing.WireOut + nothing.WireIn; nothing.Sent != 0 || n > mostNothing {
		t.Errorf("nothing took %d octets, at most %d are meant: %+v", n, mostNothing, nothing)
	}
	var pages []string
	pair.Check(t, filepath.WalkDir(p.Site, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".html" {
			pages = append(pages, path)
		}
		return err
	}))
	edits := 0
	for i := 7; i < len(pages) && edits < 44; i += len(pages) / 60 {
		html, err := os.ReadFile(pages[i])
		pair.Check(t, err)
		edited := bytes.Replace(html, []byte("<p>"), fmt.Appendf(nil, "<p>Sentence %d of an edit, which was not there before. ", i), 1)
		if bytes.Equal(html, edited) {
			continue
		}
		pair.Check(t, os.WriteFile(pages[i], edited, 0o644))
		edits++
	}
	r := p.Push()
	n := r.WireOut + r.WireIn
	t.Logf("first %d octets, nothing %d, %d edited pages %d (%d out, %d in)", first.WireOut+first.WireIn, nothing.WireOut+nothing.WireIn, r.Sent, n, r.WireOut, r.WireIn)
	if r.Sent < 40 || r.Patched != r.Sent || n > mostEdited {
		t.Errorf("%d edits: %d sent, %d as patches, %d octets, at most %d are meant", edits, r.Sent, r.Patched, n, mostEdited)
	}
	p.EveryReceiptHolds()
}
