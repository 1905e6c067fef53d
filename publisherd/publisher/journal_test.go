package publisher

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

var testNow = time.Unix(1_800_000_000, 0).UTC()

// newTestJournal makes an empty journal.
func newTestJournal(t testing.TB) journal {
	t.Helper()
	store, err := durable.Open(t.TempDir(), durable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return journal{store, "site", new(sync.Mutex)}
}

// testPage is a page whose words are text.
func testPage(url, location, text string) content.Page {
	return content.Page{
		URL: url, Location: location, SourceHash: urlHash(text), Format: content.FormatTCT,
		Payload: []byte(text), Digest: urlHash(text), Fingerprint: urlHash(text),
	}
}

func (j journal) mustPut(t testing.TB, p content.Page) {
	t.Helper()
	e, err := j.edit()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := putPage(e, p); err != nil {
		t.Fatal(err)
	}
	if err := e.commit(); err != nil {
		t.Fatal(err)
	}
}

func (j journal) mustHead(t testing.TB) head {
	t.Helper()
	h, err := j.head(j.store)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (j journal) mustPage(t testing.TB, url string) pageRow {
	t.Helper()
	row, ok, err := j.page(j.store, urlHash(url))
	if err != nil || !ok {
		t.Fatalf("page %s: %t, %v", url, ok, err)
	}
	return row
}

// live reads every revision row: revision to URL.
func (j journal) live(t testing.TB) map[uint64]string {
	t.Helper()
	all := make(map[uint64]string)
	err := j.changes(j.store, 0, j.mustHead(t).Revision, func(_ [32]byte, row pageRow) (bool, error) {
		all[row.Revision] = row.URL
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestJournalGivesEachChangeOneRevision(t *testing.T) {
	j := newTestJournal(t)
	lives := 0
	rapid.Check(t, func(rt *rapid.T) {
		lives++
		j.coll = fmt.Sprintf("site-%d", lives)
		held := make(map[string]string) // what each URL holds; gone is ""
		revision := make(map[string]uint64)
		var last, epoch, pages uint64
		for range rapid.IntRange(1, 20).Draw(rt, "changes") {
			url := rapid.SampledFrom([]string{"https://a.test/1", "https://a.test/2", "https://a.test/3"}).Draw(rt, "url")
			text := rapid.SampledFrom([]string{"", "A", "B"}).Draw(rt, "text")
			e, err := j.edit()
			if err != nil {
				rt.Fatal(err)
			}
			var changed bool
			if text == "" {
				changed, err = e.remove("at "+url, urlHash(url))
			} else {
				changed, err = putPage(e, testPage(url, "at "+url, text))
			}
			if err = errors.Join(err, e.commit()); err != nil {
				rt.Fatal(err)
			}
			if want := held[url] != text; changed != want {
				rt.Fatalf("%s from %q to %q: changed %t", url, held[url], text, changed)
			}
			if changed {
				last++
				held[url], revision[url] = text, last
			}
			h := j.mustHead(t)
			if epoch == 0 {
				epoch = h.Epoch
			}
			if h.Revision != last || h.Epoch != epoch {
				rt.Fatalf("head %+v, want revision %d of epoch %d", h, last, epoch)
			}
		}
		live := j.live(t)
		for url, r := range revision {
			if live[r] != url {
				rt.Errorf("revision %d names %q, want %s", r, live[r], url)
			}
			if held[url] != "" {
				pages++
			}
		}
		if h := j.mustHead(t); len(live) != len(revision) || h.Pages != pages {
			rt.Errorf("%d live revisions of %d URLs; %d pages, want %d", len(live), len(revision), h.Pages, pages)
		}
	})
}

func TestAPageThatGoesBackHasThreeRevisions(t *testing.T) {
	j := newTestJournal(t)
	for i, text := range []string{"A", "B", "A"} {
		j.mustPut(t, testPage("https://a.test/", "index.html", text))
		if r := j.mustPage(t, "https://a.test/").Revision; r != uint64(i+1) {
			t.Errorf("%q has revision %d, want %d", text, r, i+1)
		}
	}
	if live := j.live(t); len(live) != 1 {
		t.Errorf("live rows %v, want the last alone", live)
	}
}

func TestAnOtherSourceOfTheSameWordsIsNoChange(t *testing.T) {
	j := newTestJournal(t)
	p := testPage("https://a.test/", "index.html", "A")
	j.mustPut(t, p)
	p.SourceHash = urlHash("the same words in other markup")
	j.mustPut(t, p)
	row := j.mustPage(t, p.URL)
	if row.Revision != 1 || row.Source != p.SourceHash {
		t.Errorf("revision %d of source %s", row.Revision, row.Source)
	}
}

func TestTimesAloneMakeNoRevision(t *testing.T) {
	j := newTestJournal(t)
	p := testPage("https://a.test/", "index.html", "A")
	j.mustPut(t, p)
	p.Payload = append(p.Payload, " at another time"...)
	p.Digest = sha256.Sum256(p.Payload)
	j.mustPut(t, p)
	row := j.mustPage(t, p.URL)
	if row.Revision != 1 || row.Digest != envelope.Hash(p.Digest) || row.Size != len(p.Payload) {
		t.Errorf("revision %d, digest %s, size %d: want the first revision, and the payload as it is now", row.Revision, row.Digest, row.Size)
	}
}

func TestAnEditWithoutCommitLeavesNothing(t *testing.T) {
	j := newTestJournal(t)
	j.mustPut(t, testPage("https://a.test/", "index.html", "A"))
	before := j.mustHead(t)
	e, err := j.edit()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := putPage(e, testPage("https://a.test/", "index.html", "B")); err != nil {
		t.Fatal(err)
	}
	e.batch.Close()
	e.batch.Close() // a second time unlocks nothing that another holds
	if after := j.mustHead(t); after != before {
		t.Errorf("head %v, want %v", after, before)
	}
	j.mustPut(t, testPage("https://a.test/", "index.html", "B"))
	if r := j.mustHead(t).Revision; r != 2 {
		t.Errorf("revision %d, want 2", r)
	}
}

func TestEditsSideBySideShareNoRevision(t *testing.T) {
	j := newTestJournal(t)
	const writers, each = 8, 10
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			for i := range each {
				url := "https://a.test/" + string(rune('a'+w)) + string(rune('a'+i))
				e, err := j.edit()
				if err == nil {
					if _, err = putPage(e, testPage(url, url, "words")); err == nil {
						err = e.commit()
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if h, live := j.mustHead(t), j.live(t); h.Revision != writers*each || len(live) != writers*each || h.Pages != writers*each {
		t.Errorf("head %+v with %d live rows, want %d", h, len(live), writers*each)
	}
}

// What the source holds at send time is not what was scanned.
func TestAnEditBetweenScanAndSend(t *testing.T) {
	const url = "https://a.test/"
	other := testPage("https://a.test/other", "index.html", "B")
	edited, same := testPage(url, "index.html", "B"), testPage(url, "index.html", "A")
	for _, tt := range []struct {
		name     string
		now      *content.Page
		revision uint64
		digest   [32]byte
		known    bool // the next scan need not read the file
	}{
		{"an edited page gets a revision of its own", &edited, 2, edited.Digest, true},
		{"a page that was changed and changed back keeps its own", &same, 1, same.Digest, true},
		{"a page that cannot be read is passed over until a scan decides", nil, 2, same.Digest, false},
		{"a file that is another page now is passed over as well", &other, 2, same.Digest, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newTestJournal(t)
			j.mustPut(t, same)
			if err := j.again(urlHash(url), tt.now, testNow); err != nil {
				t.Fatal(err)
			}
			row := j.mustPage(t, url)
			if row.Revision != tt.revision || row.Digest != tt.digest || row.Source.IsZero() == tt.known {
				t.Errorf("revision %d, digest %s, source %s", row.Revision, row.Digest, row.Source)
			}
			if live := j.live(t); len(live) != 1 || live[tt.revision] != url {
				t.Errorf("live rows %v", live)
			}
		})
	}
	j := newTestJournal(t)
	if err := j.again(urlHash(url), &edited, testNow); err != nil || j.mustHead(t).Revision != 0 {
		t.Errorf("a page that the journal does not know: %v, revision %d", err, j.mustHead(t).Revision)
	}
}

func TestAStrangerThatTwoSessionsFindHasOneRevision(t *testing.T) {
	j := newTestJournal(t)
	const gone, back = "https://a.test/gone", "https://a.test/back"
	j.mustPut(t, testPage(back, "back.html", "A")) // a scan found it after the session had looked
	for range 2 {
		e, err := j.edit()
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{gone, back} {
			if err := e.removeStranger(urlHash(url), url, uint8(content.FormatTCT)); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.commit(); err != nil {
			t.Fatal(err)
		}
	}
	if h := j.mustHead(t); h.Revision != 2 {
		t.Errorf("the journal stands at revision %d, want 2: a page and a tombstone", h.Revision)
	}
	if row := j.mustPage(t, gone); !row.Deleted || row.Revision != 2 {
		t.Errorf("the stranger has the row %+v, want a tombstone of revision 2", row)
	}
	if row := j.mustPage(t, back); row.Deleted {
		t.Error("a page that came back is deleted as a stranger")
	}
}

func putPage(e *edit, p content.Page) (bool, error) { return e.put(urlHash(p.URL), rowOf(p, testNow)) }
