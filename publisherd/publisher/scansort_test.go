package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/internal/packed"
)

// drawPages draws pages of which several have one URL.
func drawPages(t *rapid.T, most int) []readPage {
	pages := make([]readPage, rapid.IntRange(0, most).Draw(t, "pages"))
	for i := range pages {
		p := testPage(fmt.Sprint("https://docs.test/", rapid.IntRange(0, 40).Draw(t, "url")), fmt.Sprint(i), strings.Repeat("words ", 1+i%700))
		if i%3 > 0 {
			p.Stamp = content.Stamp{Size: int64(i), Modified: int64(i) << 20, Changed: 7, Device: 8, Inode: 9}
		}
		pages[i] = readPage{urlHash(p.URL), rowOf(p, testNow), p.Payload}
	}
	return pages
}

func comparePages(a, b readPage) int { return bytes.Compare(a.h[:], b.h[:]) }

// samePage reports whether two are the same; want may have a payload that got lacks.
func samePage(got, want readPage) bool {
	return got.h == want.h && bytes.Equal(got.row.append(nil), want.row.append(nil)) && got.row.stamp == want.row.stamp &&
		(bytes.Equal(got.payload, want.payload) || got.payload == nil)
}

// TestPagesAreSortedWhereTheyAre, and those of one URL stay in their order, so that the
// same one counts in each scan.
func TestPagesAreSortedWhereTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := drawPages(t, 60)
		want := slices.Clone(pages)
		slices.SortStableFunc(want, comparePages)
		sortByHash(pages)
		for i := range want {
			if !samePage(pages[i], want[i]) {
				t.Fatalf("page %d is %+v, want %+v", i, pages[i].row, want[i].row)
			}
		}
	})
}

// drained takes all pages out of a sorter.
func drained(s *pageSorter) (pages []readPage, err error) {
	for some, err := range s.sorted() {
		if err != nil {
			return pages, err
		}
		for _, p := range some {
			p.payload = bytes.Clone(p.payload)
			pages = append(pages, p)
		}
	}
	return pages, nil
}

// TestASorterGivesAllThatWasGiven by the hash of the URL, and can be used again.
func TestASorterGivesAllThatWasGiven(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := newPageSorter(dir, 0, rapid.Bool().Draw(t, "payloads"))
		defer s.close()
		for range 2 {
			if s.has() || !s.ready() {
				t.Fatal("it takes nothing")
			}
			pages := drawPages(t, 500)
			for _, p := range pages {
				s.add(p)
			}
			got, err := drained(s)
			if err != nil || len(got) != len(pages) {
				t.Fatalf("%d of %d pages, %v", len(got), len(pages), err)
			}
			slices.SortStableFunc(pages, comparePages)
			for i, p := range pages {
				if !samePage(got[i], p) || got[i].payload == nil == s.payloads {
					t.Fatalf("page %d is %+v, want %+v", i, got[i].row, p.row)
				}
			}
			s.reset()
		}
	})
}

// TestWhatTheDiskRefusesIsSortedFromMemory: what it has taken before is there as well.
func TestWhatTheDiskRefusesIsSortedFromMemory(t *testing.T) {
	t.Parallel()
	s := newPageSorter(t.TempDir(), 0, true)
	if !s.ready() {
		t.Fatal("it takes nothing")
	}
	name := filepath.Join(t.TempDir(), "chunks")
	check(t, errors.Join(s.file.Close(), os.WriteFile(name, nil, 0o600)))
	var err error
	s.file, err = os.OpenFile(name, os.O_RDWR, 0)
	check(t, err)
	defer s.close()
	page := func(i int) readPage {
		p := testPage(fmt.Sprint("https://docs.test/", i), fmt.Sprint(i), strings.Repeat("w", 3000))
		return readPage{urlHash(p.URL), rowOf(p, testNow), p.Payload}
	}
	n := 0
	for ; len(s.parts[5].chunks) < 2; n++ {
		s.add(page(n))
	}
	file := s.file
	s.file, err = os.Open(name) // no more is written
	check(t, errors.Join(err, file.Close()))
	for ; !s.full(); n++ {
		s.add(page(n))
	}
	s.add(page(n))
	got, err := drained(s)
	if err != nil || len(got) != n+1 || !slices.IsSortedFunc(got, comparePages) {
		t.Fatalf("%d of %d pages, %v", len(got), n+1, err)
	}
	for _, p := range got {
		if len(p.payload) != 3000 {
			t.Fatalf("a payload of %d octets", len(p.payload))
		}
	}
	if s.reset(); s.ready() {
		t.Error("it takes more where the disk has refused some")
	}
}

// TestADamagedRecordEndsTheScan, whichever octet of it the disk has changed.
func TestADamagedRecordEndsTheScan(t *testing.T) {
	t.Parallel()
	s := newPageSorter(t.TempDir(), 0, true)
	if !s.ready() {
		t.Fatal("it takes nothing")
	}
	defer s.close()
	p := testPage("https://docs.test/", "index.html", "words")
	s.add(readPage{urlHash(p.URL), rowOf(p, testNow), p.Payload})
	part := &s.parts[urlHash(p.URL)[0]>>1]
	for i := range part.tail {
		for _, bit := range []byte{1, 0x80} {
			part.tail[i] ^= bit
			if got, err := drained(s); !errors.Is(err, packed.ErrDamaged) {
				t.Errorf("octet %d: %d pages, %v", i, len(got), err)
			}
			part.tail[i] ^= bit
		}
	}
	whole := part.tail
	for n := 1; n < len(whole); n++ {
		part.tail = whole[:n]
		if got, err := drained(s); err == nil {
			t.Errorf("cut off behind %d octets: %d pages", n, len(got))
		}
	}
	part.tail = whole
	if got, err := drained(s); err != nil || len(got) != 1 {
		t.Errorf("%d pages, %v", len(got), err)
	}
}

// TestAPartLargerThanMemoryIsSortedInStretches: all pages of one URL have one hash, and
// the last of them counts.
func TestAPartLargerThanMemoryIsSortedInStretches(t *testing.T) {
	t.Parallel()
	s := newPageSorter(t.TempDir(), 0, true)
	if !s.ready() {
		t.Fatal("it takes nothing")
	}
	defer s.close()
	const n = 2*scanBytes/30_000 + 1
	for i := range n {
		p := testPage("https://docs.test/", fmt.Sprintf("%06d", i), strings.Repeat("w", 30_000))
		s.add(readPage{urlHash(p.URL), rowOf(p, testNow), p.Payload})
	}
	stretches, last := 0, ""
	for pages, err := range s.sorted() {
		check(t, err)
		stretches++
		for _, p := range pages {
			if p.row.Location <= last {
				t.Fatalf("%s stands behind %s", p.row.Location, last)
			}
			last = p.row.Location
		}
	}
	if stretches < 2 || last != fmt.Sprintf("%06d", n-1) {
		t.Errorf("%d stretches, the last page is %s", stretches, last)
	}
}

// crowd is a source of many small pages, by ascending location.
type crowd struct {
	n    int
	page func(i int) content.Page
}

func (c *crowd) Check() error       { return nil }
func (c *crowd) Extraction() string { return "crowd/1" }
func (c *crowd) Fetch(context.Context, string) (content.Page, error) {
	return content.Page{}, errors.New("no page is fetched")
}

func (c *crowd) Pages(context.Context, func(string) ([32]byte, bool), func(content.Skipped)) iter.Seq2[content.Page, error] {
	return func(yield func(content.Page, error) bool) {
		for i := range c.n {
			if !yield(c.page(i), nil) {
				return
			}
		}
	}
}

// TestACrowdOfPagesHasTheOrderOfItsHashes, all of it, be it more than fits into memory: its
// revisions, and its payloads in the spool. Of pages of one URL the last counts, and where
// there is no room on the disk each portion is sorted for itself.
func TestACrowdOfPagesHasTheOrderOfItsHashes(t *testing.T) {
	t.Parallel()
	const n = scanAhead + scanAhead/4
	for _, room := range []bool{true, false} {
		source := &crowd{n, func(i int) content.Page {
			return testPage(fmt.Sprint("https://docs.test/", i%(n-9)), fmt.Sprintf("%06d", i), fmt.Sprint("words ", i))
		}}
		j := newTestJournal(t)
		c := newPayloads()
		c.left, c.pages, c.spool = 0, nil, newSpool(t.TempDir(), 0)
		defer c.spool.close()
		var free uint64
		if !room {
			free = scanBytes
		}
		s := &scanner{journal: j, source: source, extractor: source.Extraction(), cache: c, now: func() time.Time { return testNow }, sorter: newPageSorter(t.TempDir(), free, true)}
		report, err := s.run(t.Context())
		if err != nil || report.Pages != n {
			t.Fatalf("%+v, %v", report, err)
		}
		var last [32]byte
		seen, falls, inSpool := 0, 0, spoolReader{s: c.spool}
		check(t, j.changes(j.store, 0, 2*n, func(h [32]byte, row pageRow) (bool, error) {
			seen++
			if bytes.Compare(last[:], h[:]) >= 0 {
				falls++
			}
			last = h
			i := 0
			fmt.Sscanf(row.URL, "https://docs.test/%d", &i)
			if i < 9 {
				i += n - 9
			}
			if row.Location != fmt.Sprintf("%06d", i) || string(inSpool.payload(row.Revision, h, row.Digest)) != fmt.Sprint("words ", i) {
				t.Errorf("%s is %s", row.URL, row.Location)
			}
			return true, nil
		}))
		if want := n - 9; seen != want || room && falls > 0 || !room && falls != 1 {
			t.Errorf("room %t: %d of %d pages, %d times the hashes begin anew", room, seen, want, falls)
		}
		if s.sorter.file != nil {
			t.Error("the file is still there")
		}
	}
}

// TestAScanThatIsCutOffTakesNothingOfWhatItSorts, and the next has all of it.
func TestAScanThatIsCutOffTakesNothingOfWhatItSorts(t *testing.T) {
	t.Parallel()
	const n = scanAhead + 10
	ctx, cancel := context.WithCancel(t.Context())
	source := &crowd{n, func(i int) content.Page {
		if i == n-1 {
			cancel()
		}
		return testPage(fmt.Sprint("https://docs.test/", i), fmt.Sprintf("%06d", i), fmt.Sprint("words ", i))
	}}
	j := newTestJournal(t)
	scan := func(ctx context.Context) error {
		s := &scanner{journal: j, source: source, extractor: source.Extraction(), cache: newPayloads(), now: func() time.Time { return testNow }, sorter: newPageSorter(t.TempDir(), 0, true)}
		_, err := s.run(ctx)
		return err
	}
	if err := scan(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("it ended with %v", err)
	}
	if h := j.mustHead(t); h.Revision != 0 {
		t.Errorf("revision %d behind it", h.Revision)
	}
	check(t, scan(t.Context()))
	if h := j.mustHead(t); h.Revision != n || h.Pages != n {
		t.Errorf("%+v behind the next", h)
	}
}
