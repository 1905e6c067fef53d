package indexer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/thief"
)

// TestAThiefOpensNoLargePageThatWasDeleted deletes one of two large pages, which are
// files of their own, and one of two small ones. A thief with the disk from before or
// behind that, and with all keys that are left, gets the pages open that stay, and no
// other.
func TestAThiefOpensNoLargePageThatWasDeleted(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	gone, kept := largePage(site+"old/large", 20<<10, 1), largePage(site+"new/large", 20<<10, 2)
	c.pushAlone(s, gone)
	c.pushAlone(s, kept)
	c.push(s, change{url: site + "old/small", text: "heliotrope"}, change{url: site + "new/small", text: "quicksilver"})
	stolen := func() string {
		r.close()
		disk := filepath.Join(t.TempDir(), "disk")
		if err := os.CopyFS(disk, os.DirFS(r.dir)); err != nil {
			t.Fatal(err)
		}
		r.open()
		return disk
	}
	finds := func(when string, l *thief.Loot, old, stay bool) {
		t.Helper()
		for words, want := range map[string]bool{gone.text[:40]: old, "heliotrope": old, kept.text[:40]: stay, "quicksilver": stay} {
			if l.Has(words) != want {
				t.Errorf("%s: %q is found: %t (%d of %d opened with %d keys)", when, words, !want, l.Opened, l.Sealed, l.Keys)
			}
		}
	}
	before := stolen()
	finds("before", thief.Try(t, before, before), true, true)
	p.settled(p.revocation(s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(site+"old/")), grants.DispositionDelete)))
	after := stolen()
	finds("behind it", thief.Try(t, after, after), false, true)
	finds("the disk from before, with the keys that are left", thief.Try(t, before, after), false, false)
	if files := r.files(); files != 1 {
		t.Errorf("%d files are left", files)
	}
}
