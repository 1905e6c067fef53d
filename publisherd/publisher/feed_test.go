package publisher

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

const docs = "https://example.com/doc/"

func readList(t testing.TB, scope grants.ScopeType, lines ...string) *List {
	t.Helper()
	l, err := ReadList(strings.NewReader(strings.Join(lines, "\n")), scope, scopeOf(t, docs))
	check(t, err)
	return l
}

// listed renews the series for a list.
func (x *fixture) listed(sequence uint64, l *List) {
	x.t.Helper()
	pair := x.s.Grant(x.t, sequence, func(d *grants.Draft) { d.Scope = l.Scope })
	x.fake.pairs[pair.Grant.Object.ID] = pair
	x.rel.Pair = pair
	x.take(l)
}

// take takes a list up under the grant in force.
func (x *fixture) take(l *List) {
	x.t.Helper()
	check(x.t, x.rel.takeList(x.p.dir, l, x.rel.listed().Root, x.s.Now, x.s.Publisher))
	check(x.t, x.rel.write(x.p.dir))
}

// pushed pushes once, and compares what the indexer holds then.
func (x *fixture) pushed(sent, deleted int, pages ...string) {
	x.t.Helper()
	results, err := x.push()
	check(x.t, err)
	if r := results[0]; r.Sent != sent || r.Deleted != deleted || len(r.Refused) > 0 {
		x.t.Errorf("sent %d, deleted %d, refused %v; want %d and %d", r.Sent, r.Deleted, r.Refused, sent, deleted)
	}
	var held []string
	for url := range x.fake.pages {
		held = append(held, strings.TrimPrefix(url, docs))
	}
	slices.Sort(held)
	if !slices.Equal(held, pages) {
		x.t.Errorf("the indexer holds %q, want %q", held, pages)
	}
}

// shown checks that what was sent last came with paths in the list.
func (x *fixture) shown(l grants.Listed, n int) {
	x.t.Helper()
	puts := 0
	for _, it := range x.fake.offered {
		if it.Length == 0 {
			if it.ScopePath != nil {
				x.t.Errorf("the deletion of %s comes with a path", it.Url)
			}
			continue
		}
		puts++
		item := []byte(it.Url)
		if x.rel.feed() == nil {
			digest := x.fake.pages[it.Url].Digest
			item = digest[:]
		}
		path, err := hashes(it.GetScopePath().GetHashes())
		check(x.t, err)
		check(x.t, l.Holds(item, it.ScopeIndex, path))
	}
	if puts != n {
		x.t.Errorf("%d pages were sent, want %d", puts, n)
	}
}

func TestAFeedChoosesWhatIsPushed(t *testing.T) {
	x := newFixture(t)
	for _, name := range []string{"a", "b", "c"} {
		x.write(name, "words of "+name)
	}
	x.listed(1, readList(t, grants.InFeed, docs+"a.html", docs+"b.html", docs+"never.html"))
	x.pushed(2, 0, "a.html", "b.html")
	x.shown(x.rel.listed(), 2)
	x.pushed(0, 0, "a.html", "b.html")

	// Another feed under the same grant: what left it is deleted, what is new in
	// it is sent, and what stays is not sent again.
	x.take(readList(t, grants.InFeed, docs+"b.html", docs+"c.html"))
	if n := x.rel.Feed.Object.Sequence; n != 2 {
		t.Errorf("the second feed has sequence %d", n)
	}
	x.pushed(1, 1, "b.html", "c.html")
	x.shown(x.rel.listed(), 1)
	x.pushed(0, 0, "b.html", "c.html")

	// A change of a page is sent under the feed; one outside it is not.
	x.write("a", "other words")
	x.write("b", "other words")
	x.pushed(1, 0, "b.html", "c.html")
	x.take(readList(t, grants.InFeed))
	x.pushed(0, 2)
	x.receipts()
}

func TestAFeedSignedAnewChangesNothing(t *testing.T) {
	x := newFixture(t)
	x.write("a", "words")
	x.listed(1, readList(t, grants.InFeed, docs+"a.html"))
	x.pushed(1, 0, "a.html")
	epoch, batches := x.cursor().JournalEpoch, x.fake.batches
	x.take(readList(t, grants.InFeed, docs+"a.html"))
	x.pushed(0, 0, "a.html")
	if x.cursor().JournalEpoch != epoch || x.fake.batches != batches {
		t.Error("all pages were looked at again, for a feed that lists the same")
	}
}

func TestAHashSetHoldsContent(t *testing.T) {
	x := newFixture(t)
	x.write("a", "words of a")
	x.write("b", "words of b")
	x.pushed(2, 0, "a.html", "b.html")
	digest := func(name string) string {
		d := envelope.Hash(x.fake.pages[docs+name].Digest)
		return d.String()
	}
	a, b := digest("a.html"), digest("b.html")
	for _, tt := range []struct {
		name string
		list func(sequence uint64, digests ...string)
	}{
		{"digests in the grant", func(n uint64, d ...string) { x.listed(n, readList(t, grants.HashSet, d...)) }},
		{"digests by their root", func(n uint64, d ...string) {
			l := readList(t, grants.HashSet, d...)
			l.Scope = l.Scope.Brief()
			x.listed(n, l)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := x.rel.Pair.Grant.Object.Sequence
			x.write("a", "words of a")
			tt.list(n+1, a, b)
			_, err := x.push()
			check(t, err)
			// What is not in the set any more leaves, with the rebind or behind it.
			tt.list(n+2, a)
			_, err = x.push()
			check(t, err)
			x.pushed(0, 0, "a.html")
			tt.list(n+3, a, b)
			x.pushed(1, 0, "a.html", "b.html")
			if len(x.rel.Pair.Grant.Body.Scope.Digests) == 0 {
				x.shown(x.rel.listed(), 1)
			}
			// A page whose content changes is not what was granted.
			x.write("a", "words that nobody listed")
			x.pushed(0, 1, "b.html")
			x.receipts()
		})
	}
}

func TestARenewalForAFeedNarrows(t *testing.T) {
	x := newFixture(t)
	x.write("a", "words of a")
	x.write("b", "words of b")
	x.pushed(2, 0, "a.html", "b.html")
	x.listed(2, readList(t, grants.InFeed, docs+"b.html"))
	x.pushed(0, 1, "b.html")
	x.renew(3, docs)
	x.pushed(1, 0, "a.html", "b.html")
	x.receipts()
}

func TestMembershipOfACollectionCountsFromBatchToBatch(t *testing.T) {
	x := newFixture(t)
	x.write("a", "words of a")
	x.write("b", "words of b")
	scope, err := grants.CollectionScope("docs", docs)
	check(t, err)
	pair := x.s.Grant(t, 1, func(d *grants.Draft) { d.Scope = scope })
	x.fake.pairs[pair.Grant.Object.ID], x.rel.Pair = pair, pair
	check(t, x.rel.write(x.p.dir))
	x.pushed(2, 0, "a.html", "b.html")
	in, _, err := agreement{x.p.store, x.rel}.lookupAcked(x.p.store, urlHash(docs+"a.html"))
	check(t, err)

	// What leaves the source leaves the collection with the next batch, and what
	// comes into it comes with that batch: under the same grant.
	check(t, os.Remove(filepath.Join(x.site, "a.html")))
	x.write("c", "words of c")
	x.pushed(1, 1, "b.html", "c.html")
	out, _, err := agreement{x.p.store, x.rel}.lookupAcked(x.p.store, urlHash(docs+"a.html"))
	check(t, err)
	if in.Op != translog.OpPut || out.Op != translog.OpTombstone || in.Receipt == out.Receipt || in.Revision >= out.Revision {
		t.Errorf("receipts %s and %s do not tell when the page came and left", in.Receipt, out.Receipt)
	}
	x.write("a", "words of a")
	x.pushed(1, 0, "a.html", "b.html", "c.html")
	if x.rel.Pair.Grant.Object.Sequence != 1 {
		t.Error("it took another grant")
	}
	x.receipts()
}

func TestAListThatIsNotTheSignedOneSendsNothing(t *testing.T) {
	x := newFixture(t)
	x.write("a", "words")
	x.listed(1, readList(t, grants.InFeed, docs+"a.html"))
	path := listPath(x.p.dir, "docs-1", x.rel.listed().Root)
	for _, tt := range []struct{ name, text string }{
		{"another list", docs + "b.html\n"},
		{"an item more", docs + "a.html\n" + docs + "b.html\n"},
		{"nothing", ""},
	} {
		check(t, os.WriteFile(path, []byte(tt.text), 0o600))
		if _, err := x.push(); err == nil || !strings.Contains(err.Error(), "not the one that was signed") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	check(t, os.Remove(path))
	if _, err := x.push(); err == nil || x.fake.batches > 0 {
		t.Errorf("without its list %d batches are sent (%v)", x.fake.batches, err)
	}
}

func TestGrantsForListsAreIssuedAndRenewed(t *testing.T) {
	dir := newFolder(t)
	issue := func(l *List) *Relationship {
		r, _, err := IssueGrant(dir, GrantRequest{Indexer: peerName, Source: "docs", List: l, Purposes: grants.Purposes{grants.SearchIndex}}, noon)
		check(t, err)
		return r
	}
	lists := func(r *Relationship) int {
		kept, err := os.ReadDir(filepath.Join(dir, "grants", "lists", r.Series))
		check(t, err)
		return len(kept)
	}
	r := issue(readList(t, grants.InFeed, docs+"a", docs+"b"))
	back, err := FindGrant(dir, r.Series)
	check(t, err)
	if back.Feed.Body.Count != 2 || back.Feed.Body.Series != r.Series || back.Feed.Object.ID != r.Feed.Object.ID {
		t.Errorf("the feed is %+v", back.Feed.Body)
	}
	// Beside it there is room for others, over the same prefixes.
	issue(readList(t, grants.HashSet, strings.Repeat("1", 64)))
	mustIssue(t, dir, scopeOf(t, docs))

	again, _, err := NewFeed(dir, r.Series, readList(t, grants.InFeed, docs+"b", docs+"a"), noon)
	check(t, err)
	if again.Feed.Object.ID != r.Feed.Object.ID {
		t.Error("the same list made another feed")
	}
	for i, page := range []string{"c", "d", "e"} {
		next, warnings, err := NewFeed(dir, r.Series, readList(t, grants.InFeed, docs+page, "https://example.com/elsewhere"), noon)
		check(t, err)
		if next.Feed.Object.Sequence != uint64(i)+2 || len(warnings) != 1 || warnings[0].Code != WarnLeftOut || lists(next) != 2 {
			t.Errorf("feed %d has sequence %d, warnings %v, beside %d lists", i+2, next.Feed.Object.Sequence, warnings, lists(next))
		}
		if next.Pair.Grant.Object.ID != r.Pair.Grant.Object.ID {
			t.Error("another feed made another grant")
		}
	}
	renewed, _, err := RenewGrant(dir, r.Series, RenewRequest{}, noon)
	check(t, err)
	if renewed.Feed.Object.Sequence != 4 || renewed.Pair.Grant.Object.Sequence != 2 {
		t.Error("a renewal without a list does not keep the feed")
	}
	set, _, err := RenewGrant(dir, r.Series, RenewRequest{List: readList(t, grants.HashSet, strings.Repeat("2", 64))}, noon)
	check(t, err)
	if set.feed() != nil || set.Pair.Grant.Body.Scope.Type != grants.HashSet {
		t.Errorf("renewed for a %s", set.Pair.Grant.Body.Scope.Type)
	}
	if _, _, err := NewFeed(dir, r.Series, readList(t, grants.InFeed, docs+"a"), noon); grants.ReasonOf(err) != grants.ErrScopeType {
		t.Errorf("a feed for a hash set: %v", err)
	}
	back, _, err = RenewGrant(dir, r.Series, RenewRequest{List: readList(t, grants.InFeed, docs+"a")}, noon)
	check(t, err)
	if back.Feed.Object.Sequence != 5 {
		t.Errorf("the feed of a series goes on at sequence %d", back.Feed.Object.Sequence)
	}
	if _, _, err := RenewGrant(dir, set.Series, RenewRequest{Prefixes: []string{"https://example.com/other/"}}, noon); err != nil {
		t.Error(err)
	}
}

// TestFilesWithDifficultNamesAreInScopeUnderOneURL follows names from a folder
// to the scopes that decide on them.
func TestFilesWithDifficultNamesAreInScopeUnderOneURL(t *testing.T) {
	x := newFixture(t)
	urls := map[string]string{
		"operator+=":   "operator+=.html",
		"operator%2B=": "operator%252B=.html",
		"~x":           "~x.html",
		"%7Ey":         "%257Ey.html",
		"café":         "caf%C3%A9.html",
		"a b":          "a%20b.html",
		"operator<=>":  "operator%3C=%3E.html",
		"operator[]":   "operator%5B%5D.html",
		"what?":        "what%3F.html",
		"part#1":       "part%231.html",
		"50%":          "50%25.html",
		"operator*":    "operator*.html",
		"sub/semi;a":   "sub/semi;a.html",
		"sub/back\\s":  "sub/back%5Cs.html",
	}
	var lines, want []string
	for name, url := range urls {
		x.write(name, "words")
		lines, want = append(lines, docs+url), append(want, url)
	}
	slices.Sort(want)
	x.pushed(len(want), 0, want...)
	// The same under a feed that says each URL as a person might write it.
	lines = append(lines, docs+"%7Ex.html", docs+"café.html", docs+"./sub/../a b.html")
	l := readList(t, grants.InFeed, lines...)
	if n := len(l.items); n != len(want) {
		t.Errorf("%d URLs are listed, want %d: %q", n, len(want), l.items)
	}
	x.listed(2, l)
	x.pushed(0, 0, want...)
	x.receipts()
}

func TestDigestsOfPagesAreOfTheirPayloads(t *testing.T) {
	x := newFixture(t)
	x.write("a", "words")
	var line ScanLine
	s, err := ReadSource(x.p.dir, "docs")
	check(t, err)
	_, err = s.Scan(t.Context(), x.p.dir, func(l ScanLine) error { line = l; return nil })
	check(t, err)
	x.pushed(1, 0, "a.html")
	if got := x.fake.pages[docs+"a.html"].Digest; got != line.Digest || got == sha256.Sum256([]byte(line.URL)) {
		t.Errorf("scan prints digest %s, the payload has %x", line.Digest, got)
	}
}
