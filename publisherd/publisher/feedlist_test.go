package publisher

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestListsAreRead(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	scanned := `{"url":"` + docs + `b","title":"B","digest":"sha256:` + two + `","warnings":[]}`
	elsewhere := `{"url":"https://example.com/blog/","digest":"sha256:` + one + `"}`
	for _, tt := range []struct {
		name  string
		scope grants.ScopeType
		lines []string
		want  []string
		left  int
	}{
		{"URLs in any order, once each", grants.InFeed, []string{docs + "b", docs + "a", docs + "b"}, []string{docs + "a", docs + "b"}, 0},
		{"comments, empty lines and line ends of others", grants.InFeed, []string{"# all of it", "", docs + "a\r", "  " + docs + "b"}, []string{docs + "a", docs + "b"}, 0},
		{"URLs that are not canonical", grants.InFeed, []string{"HTTPS://EXAMPLE.com:443/doc/x/../%7Ea?"}, []string{docs + "~a"}, 0},
		{"URLs outside the prefixes", grants.InFeed, []string{docs + "a", "https://example.com/blog/", docs + "a?q"}, []string{docs + "a"}, 2},
		{"what a scan prints", grants.InFeed, []string{scanned, elsewhere, `{"pages":2,"bytes":1}`}, []string{docs + "b"}, 1},
		{"no URL at all", grants.InFeed, nil, nil, 0},
		{"digests with and without the function's name", grants.HashSet, []string{two, "sha256:" + one, one}, []string{"sha256:" + one, "sha256:" + two}, 0},
		{"the digests of what a scan prints", grants.HashSet, []string{scanned, elsewhere, `{"pages":2,"bytes":1}`}, []string{"sha256:" + two}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := readList(t, tt.scope, tt.lines...)
			if !slices.Equal(l.items, tt.want) || l.LeftOut != tt.left || l.Scope.Type != tt.scope {
				t.Errorf("read as a %s of %q, without %d", l.Scope.Type, l.items, l.LeftOut)
			}
		})
	}
}

func TestListsThatSaySomethingElseAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		scope grants.ScopeType
		text  string
	}{
		{"a line that is no URL", grants.InFeed, "doc/a"},
		{"a URL with a password", grants.InFeed, "https://a:b@example.com/doc/a"},
		{"a line that is no digest", grants.HashSet, docs + "a"},
		{"a digest in upper case", grants.HashSet, strings.Repeat("A", 64)},
		{"half a digest", grants.HashSet, strings.Repeat("1", 32)},
		{"a hash set of nothing", grants.HashSet, "# nothing"},
		{"an object that is no page", grants.InFeed, `{"location":"a"}`},
		{"an object that is none", grants.InFeed, `{"url":`},
		{"a line of more than a megabyte", grants.InFeed, docs + strings.Repeat("a", maxListLine)},
		{"a URL of more than 8 KiB", grants.InFeed, docs + strings.Repeat("a", grants.MaxURL)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if l, err := ReadList(strings.NewReader(tt.text), tt.scope, scopeOf(t, docs)); err == nil {
				t.Errorf("read as %q", l.items)
			}
		})
	}
}

// endless repeats a line.
type endless struct {
	line string
	at   int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.line[e.at:])
	e.at = (e.at + n) % len(e.line)
	return n, nil
}

func TestListsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    io.Reader
	}{
		{"an endless comment", &endless{line: "#" + strings.Repeat("a", maxListLine-2) + "\n"}},
		{"an endless line", &endless{line: strings.Repeat("a", 4096)}},
		{"endlessly many digests", &endless{line: strings.Repeat(strings.Repeat("1", 64)+"\n", 100)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ReadList(tt.r, grants.HashSet, scopeOf(t, docs)); err == nil {
				t.Error("it was read to its end")
			}
		})
	}
}

// FuzzReadList holds that whatever is read as a list names canonical URLs in
// scope, or digests, in ascending order and once each.
func FuzzReadList(f *testing.F) {
	f.Add(docs+"a\n"+docs+"b", true)
	f.Add(`{"url":"`+docs+`a","digest":"sha256:`+strings.Repeat("1", 64)+`"}`, true)
	f.Add(strings.Repeat("1", 64)+"\nsha256:"+strings.Repeat("2", 64), false)
	f.Fuzz(func(t *testing.T, text string, feed bool) {
		scope := grants.HashSet
		if feed {
			scope = grants.InFeed
		}
		l, err := ReadList(strings.NewReader(text), scope, scopeOf(t, docs))
		if err != nil {
			return
		}
		if err := l.Scope.Validate(); err != nil {
			t.Fatal(err)
		}
		if l.listed().Count != uint64(len(l.items)) || !slices.IsSorted(l.items) || len(slices.Compact(slices.Clone(l.items))) != len(l.items) {
			t.Fatalf("listed in the order %q", l.items)
		}
		for _, it := range l.items {
			if !feed {
				if _, err := envelope.ParseHash(it); err != nil {
					t.Fatal(err)
				}
			} else if content.IsCanonical(it) != nil || l.Scope.Match(it) != nil {
				t.Fatalf("%q is listed", it)
			}
		}
	})
}
