package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/site"
)

// A scanCase is a folder with its journal.
type scanCase struct {
	t    *testing.T
	dir  string
	j    journal
	mass bool
}

func newScanCase(t *testing.T) *scanCase {
	return &scanCase{t: t, dir: t.TempDir(), j: newTestJournal(t)}
}

func (c *scanCase) write(name, words string) {
	c.t.Helper()
	c.raw(name, "<!DOCTYPE html><html><head><title>T</title></head><body><p>"+words+"</p></body></html>")
}

func (c *scanCase) raw(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *scanCase) remove(name string) {
	c.t.Helper()
	if err := os.Remove(filepath.Join(c.dir, name)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *scanCase) scanner() *scanner {
	return &scanner{
		journal: c.j, source: &site.Site{Dir: c.dir, BaseURL: "https://a.test/", StripExt: true}, extractor: site.Version,
		cache: newPayloads(), now: func() time.Time { return testNow }, massDelete: c.mass, verify: defaultVerify,
	}
}

func (c *scanCase) scan() ScanReport {
	c.t.Helper()
	r, err := c.scanner().run(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// wants compares a scan's findings and the journal's revision.
func (c *scanCase) wants(what string, r ScanReport, pages, changed, deleted int, revision uint64) {
	c.t.Helper()
	if h := c.j.mustHead(c.t); r.Pages != pages || r.Changed != changed || r.Deleted != deleted || h.Revision != revision {
		c.t.Errorf("%s: %d pages, %d changed, %d deleted, revision %d; want %d, %d, %d, %d",
			what, r.Pages, r.Changed, r.Deleted, h.Revision, pages, changed, deleted, revision)
	}
}

func TestScanFindsWhatChanged(t *testing.T) {
	c := newScanCase(t)
	c.write("index.html", "one")
	c.write("a/b.html", "two")
	c.wants("the first", c.scan(), 2, 2, 0, 2)
	c.wants("without a change", c.scan(), 2, 0, 0, 2)

	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(c.dir, "index.html"), later, later); err != nil {
		t.Fatal(err)
	}
	c.wants("with a new time on a file", c.scan(), 2, 0, 0, 2)

	for i, words := range []string{"A", "B", "A"} {
		c.write("index.html", words)
		c.wants("edited to "+words, c.scan(), 2, 1, 0, uint64(3+i))
	}
	c.remove("a/b.html")
	c.wants("with a file gone", c.scan(), 1, 0, 1, 6)
	if row := c.j.mustPage(t, "https://a.test/a/b"); !row.Deleted || row.Revision != 6 {
		t.Errorf("the page that is gone: %+v", row)
	}
	c.write("a/b.html", "two")
	c.wants("with it back", c.scan(), 2, 1, 0, 7)
}

// rows reads the whole store.
func (c *scanCase) rows() string {
	c.t.Helper()
	all := ""
	for kv, err := range c.j.store.Scan([]byte{0}, []byte{0xff}) {
		if err != nil {
			c.t.Fatal(err)
		}
		all += fmt.Sprintf("%q %q\n", kv.Key, kv.Value)
	}
	return all
}

func TestScansOfAnUnchangedSiteWriteNothing(t *testing.T) {
	c := newScanCase(t)
	for i := range 30 {
		c.write(fmt.Sprintf("%d.html", i), fmt.Sprint("words ", i))
	}
	c.raw("broken.html", "\xff\xfe\xfd")
	c.scan()
	before := c.rows()
	// While another holds the journal, whoever wants to write to it waits for
	// ever, and a scan that has nothing to write ends.
	c.j.edits.Lock()
	defer c.j.edits.Unlock()
	for range 2 {
		c.scan()
	}
	if after := c.rows(); after != before {
		t.Errorf("rows before:\n%s\nafter:\n%s", before, after)
	}
}

func TestAFileThatMovesAndKeepsItsURLIsNoDeletion(t *testing.T) {
	c := newScanCase(t)
	c.write("a.html", "one")
	c.scan()
	if err := os.Rename(filepath.Join(c.dir, "a.html"), filepath.Join(c.dir, "a.htm")); err != nil {
		t.Fatal(err)
	}
	c.wants("moved", c.scan(), 1, 0, 0, 1)
	row := c.j.mustPage(t, "https://a.test/a")
	if row.Location != "a.htm" || row.Deleted {
		t.Errorf("%+v", row)
	}
	c.wants("afterwards", c.scan(), 1, 0, 0, 1)
	c.remove("a.htm")
	c.wants("gone", c.scan(), 0, 0, 1, 2)
}

func TestABrokenFileKeepsItsRevisionAndOneThatAsksIsWithdrawn(t *testing.T) {
	c := newScanCase(t)
	c.write("broken.html", "one")
	c.write("private.html", "two")
	c.scan()
	c.raw("broken.html", "\xc3\x28 no text at all")
	c.raw("private.html", `<html><head><meta name="robots" content="noindex"><title>T</title></head><body>two</body></html>`)
	r := c.scan()
	c.wants("then", r, 0, 0, 1, 3)
	if len(r.Skipped) != 2 {
		t.Errorf("skipped %v", r.Skipped)
	}
	if row := c.j.mustPage(t, "https://a.test/broken"); row.Deleted || row.Revision != 1 {
		t.Errorf("the broken one: %+v", row)
	}
	if row := c.j.mustPage(t, "https://a.test/private"); !row.Deleted {
		t.Errorf("the one that asks: %+v", row)
	}
}

func TestTooManyGoneAtOnceDeleteNothing(t *testing.T) {
	c := newScanCase(t)
	for i := range 40 {
		c.write(fmt.Sprintf("%02d.html", i), fmt.Sprint("words ", i))
	}
	c.scan()
	for i := range goneFloor {
		c.remove(fmt.Sprintf("%02d.html", i))
	}
	c.wants("as many as the floor", c.scan(), 30, 0, 10, 50)
	for i := goneFloor; i < 2*goneFloor+1; i++ {
		c.remove(fmt.Sprintf("%02d.html", i))
	}
	c.write("39.html", "other words")
	if _, err := c.scanner().run(t.Context()); !errors.Is(err, ErrMassDelete) {
		t.Errorf("error %v, want %v", err, ErrMassDelete)
	}
	if h := c.j.mustHead(t); h.Pages != 30 || h.Revision != 51 {
		t.Errorf("%+v: want the edit, and nothing deleted", h)
	}
	c.mass = true
	c.wants("on its owner's word", c.scan(), 19, 0, 11, 62)
}

func TestAScanThatIsCutShortKeepsWhatIsListedLater(t *testing.T) {
	c := newScanCase(t)
	c.write("a.html", "one")
	c.write("b.html", "two")
	c.scan()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.scanner().run(ctx); err == nil {
		t.Error("no error")
	}
	if h := c.j.mustHead(t); h.Pages != 2 || h.Revision != 2 {
		t.Errorf("%+v", h)
	}
}

func TestAnotherExtractionReadsEverythingAnew(t *testing.T) {
	c := newScanCase(t)
	c.write("a.html", "one")
	c.scan()
	s := c.scanner()
	s.extractor = "another"
	if r, err := s.run(t.Context()); err != nil || r.Changed != 0 || len(s.cache.pages) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if h := c.j.mustHead(t); h.Extractor != "another" || h.Revision != 1 {
		t.Errorf("%+v", h)
	}
}

func TestWhatAScanKeepsIsBoundedHoweverSmallThePages(t *testing.T) {
	c := newPayloads()
	octets := make([]byte, 10, 1<<10) // cut out of something larger
	for i := range 2 * payloadCache / keptOverhead {
		c.add(readPage{h: urlHash(fmt.Sprint(i)), payload: octets}, uint64(i+1))
	}
	if most := payloadCache / keptOverhead; len(c.pages) > most || len(c.pages) < most/2 || c.left < 0 {
		t.Errorf("%d pages are kept, at most %d are meant; %d octets left", len(c.pages), most, c.left)
	}
	for _, p := range c.pages {
		if cap(p.octets) > 64 {
			t.Fatalf("%d octets are held for a page of %d", cap(p.octets), len(p.octets))
		}
	}
	large := make([]byte, 1<<20)
	for i := range mostMissed/len(large) + 1 { // now most of the pages have to be read again
		c.add(readPage{h: urlHash(fmt.Sprint("large/", i)), payload: large}, 0)
	}
	c.add(readPage{h: urlHash("0"), payload: octets}, 0)
	if len(c.pages) > 0 {
		t.Errorf("%d pages are kept, %d octets were not", len(c.pages), c.missed)
	}
}

// TestManySmallPagesHaveTheOrderOfTheirHashes, and few that of the source. Either way
// each of them has one revision, and what changes later comes behind.
func TestManySmallPagesHaveTheOrderOfTheirHashes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3 * scanPages, scanSorts + 1} {
		c := newScanCase(t)
		name := func(i int) string { return fmt.Sprintf("%03d/%d.html", i/1000, i) }
		for i := range n {
			c.write(name(i), fmt.Sprint("words ", i))
		}
		c.wants("the first scan", c.scan(), n, n, 0, uint64(n))
		var last [32]byte
		var lastURL string
		seen, byHash, byURL := 0, true, true
		check(t, c.j.changes(c.j.store, 0, uint64(n), func(h [32]byte, row pageRow) (bool, error) {
			seen++
			byHash = byHash && bytes.Compare(last[:], h[:]) < 0
			byURL = byURL && filepath.Dir(lastURL) <= filepath.Dir(row.URL)
			last, lastURL = h, row.URL
			return true, nil
		}))
		if seen != n || byHash != (n >= scanSorts) || byURL == byHash {
			t.Errorf("%d of %d pages, by hashes %t, by URLs %t", seen, n, byHash, byURL)
		}
		c.write(name(5), "other words")
		c.remove(name(6))
		c.wants("the next scan", c.scan(), n-1, 1, 1, uint64(n+2))
	}
}
