package scp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// version is what a reference index holds: the time and the words of a page.
type version struct {
	modified time.Time
	text     string
}

// reference applies a collection's pages as the text prints the procedure.
func reference(index map[string]version, pages []version, urls []string) {
	for i, p := range pages {
		local, found := index[urls[i]]
		if !found || p.modified.After(local.modified) {
			index[urls[i]] = p
		}
	}
}

func TestFoldIsDeltaApplication(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		index := make(map[string]version)
		var layers []*layer
		generated := noon
		for n := range rapid.IntRange(1, 5).Draw(rt, "collections") {
			generated = generated.Add(time.Minute)
			var pages []version
			var names []string
			var lines [][]byte
			for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 8, rapid.ID[int]).Draw(rt, "urls") {
				v := version{
					noon.Add(time.Duration(rapid.IntRange(-5, 10).Draw(rt, "minutes")) * time.Minute),
					rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "text"),
				}
				url := fmt.Sprintf("https://example.com/%d", k)
				lines = append(lines, line(url, v.text, v.modified))
				v.modified = Plausible(v.modified, generated)
				pages, names = append(pages, v), append(names, url)
			}
			c := snapshot(generated)
			if n > 0 {
				c = delta(noon, generated)
			}
			layers = append(layers, layerOf(t, file(c, lines...)))
			reference(index, pages, names)
		}
		var got []string
		for f, err := range fold(layers) {
			if err != nil {
				rt.Fatal(err)
			}
			p, err := f.layer.read(&f.entry)
			if err != nil {
				rt.Fatal(err)
			}
			want := index[f.url]
			if !f.modified.Equal(want.modified) || p.Text() != want.text {
				rt.Fatalf("%s is %v %q, want %v", f.url, f.modified, p.Text(), want)
			}
			again, ok, err := find(layers, f.url)
			if !ok || err != nil || again.entry != f.entry {
				rt.Fatalf("find gives %+v, %v, %v", again, ok, err)
			}
			got = append(got, f.url)
		}
		if want := slices.Sorted(maps.Keys(index)); !slices.Equal(got, want) {
			rt.Fatalf("pages %v, want %v", got, want)
		}
	})
}

func TestApply(t *testing.T) {
	held := &Held{noon, [32]byte{1}}
	zone := time.FixedZone("", 2*3600)
	for _, tt := range []struct {
		name string
		held *Held
		page Held
		want Verdict
	}{
		{"an unknown URL", nil, Held{noon, [32]byte{2}}, Insert},
		{"a second later", held, Held{noon.Add(time.Second), [32]byte{2}}, Replace},
		{"a nanosecond later", held, Held{noon.Add(1), [32]byte{2}}, Replace},
		{"the same once more", held, *held, Ignore},
		{"the same instant in another zone", held, Held{noon.In(zone), [32]byte{1}}, Ignore},
		{"the same time, and other words", held, Held{noon, [32]byte{2}}, Conflict},
		{"a clock that shows more, and is behind", held, Held{noon.Add(-30 * time.Minute).In(zone), [32]byte{2}}, Ignore},
	} {
		if got := Apply(tt.held, tt.page); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestATimeFromTheFutureDoesNotWinForEver(t *testing.T) {
	ahead := layerOf(t, file(snapshot(noon), line("https://example.com/", "ahead", noon.AddDate(50, 0, 0))))
	next := layerOf(t, file(delta(noon, noon.Add(time.Hour)), line("https://example.com/", "next", noon.Add(time.Minute))))
	f, _, err := find([]*layer{ahead, next}, "https://example.com/")
	if err != nil || f.layer != next {
		t.Errorf("the page is still the one from the future (%v)", err)
	}
}

func TestOfOnePageTwiceInAFileTheLatestCounts(t *testing.T) {
	l := layerOf(t, file(snapshot(noon),
		line("https://example.com/", "old", noon.Add(-2*time.Hour)), line("https://example.com/", "new", noon.Add(-time.Hour)),
		line("HTTPS://example.com", "first of two", noon.Add(-time.Hour))))
	n := 0
	for e, err := range l.entries(0) {
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.read(&e)
		if n++; err != nil || p.Text() != "new" {
			t.Errorf("page %q, %v", p.Text(), err)
		}
	}
	if n != 1 {
		t.Errorf("%d pages", n)
	}
}

func TestPlan(t *testing.T) {
	at := func(h int) time.Time { return noon.Add(time.Duration(h) * time.Hour) }
	s := func(h int) Listing { return Listing{Type: Snapshot, URL: fmt.Sprintf("s%d", h), Generated: at(h)} }
	d := func(since, h int) Listing {
		return Listing{Type: Delta, URL: fmt.Sprintf("d%d", h), Since: at(since), Generated: at(h)}
	}
	gone := func(l Listing, h int) Listing {
		l.Expires = at(h)
		return l
	}
	const week = 7 * 24
	for _, tt := range []struct {
		name     string
		progress Progress
		now      int
		listed   []Listing
		want     string
	}{
		{"the first time, the latest snapshot and what follows it", Progress{}, 5, []Listing{s(0), d(3, 4), s(2), d(2, 3)}, "s2 d3 d4"},
		{"the first time, and there are deltas alone", Progress{}, 5, []Listing{d(3, 4), d(2, 3)}, "d3 d4"},
		{"nothing is new", Progress{at(2), at(4), at(4)}, 5, []Listing{s(2), d(2, 3), d(3, 4)}, ""},
		{"one delta is new", Progress{at(2), at(3), at(4)}, 5, []Listing{s(2), d(2, 3), d(3, 4)}, "d4"},
		{"three were missed, listed in disorder", Progress{at(2), at(2), at(2)}, 5, []Listing{d(4, 5), d(2, 3), s(2), d(3, 4)}, "d3 d4 d5"},
		{"some are not listed any more", Progress{at(0), at(1), at(1)}, 9, []Listing{s(6), d(5, 7), d(7, 8)}, "s6 d7 d8"},
		{"they are not, and the snapshot is no newer", Progress{at(0), at(1), at(1)}, 9, []Listing{s(0), d(5, 7), d(7, 8)}, "d7 d8"},
		{"the snapshot leads further than the deltas", Progress{at(0), at(1), at(1)}, 9, []Listing{s(6), d(1, 3)}, "s6"},
		{"deltas lead as far, and the snapshot may wait", Progress{at(0), at(1), at(1)}, 9, []Listing{s(3), d(1, 3)}, "d3"},
		{"it may not wait for more than a week", Progress{at(0), at(1), at(0)}, week, []Listing{s(3), d(1, 3)}, "s3"},
		{"an older snapshot is a replay", Progress{at(4), at(4), at(4)}, 5, []Listing{s(2)}, ""},
		{"an older delta is one too", Progress{at(4), at(4), at(4)}, 5, []Listing{d(2, 3)}, ""},
		{"what has expired is not asked for", Progress{at(0), at(0), at(0)}, 5, []Listing{gone(s(3), 4), d(0, 1)}, "d1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, l := range Plan(tt.progress, tt.listed, at(tt.now), week*time.Hour) {
				got = append(got, l.URL)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("plan %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReplaysAndTheFutureAreStale(t *testing.T) {
	c := snapshot(noon)
	for _, tt := range []struct {
		name string
		now  time.Time
		want error
	}{
		{"at once", noon, nil},
		{"a clock that is five minutes behind", noon.Add(-5 * time.Minute), nil},
		{"a second more", noon.Add(-5*time.Minute - time.Second), ErrStale},
		{"thirty days later", noon.AddDate(0, 0, 30), nil},
		{"a second more than thirty days later", noon.AddDate(0, 0, 30).Add(time.Second), ErrStale},
	} {
		if err := Fresh(&c, tt.now, 5*time.Minute, 30*24*time.Hour); err != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := Fresh(&c, noon.AddDate(90, 0, 0), 0, 0); err != nil {
		t.Errorf("no age is bounded: %v", err)
	}
}
