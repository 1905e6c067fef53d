package tct_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"pgregory.net/rapid"
)

type closer struct{ io.Writer }

func (closer) Close() error { return nil }

// numbered makes n items.
func numbered(n int) []tct.Item {
	all := make([]tct.Item, n)
	for i := range all {
		all[i] = tct.Item{
			CURL: fmt.Sprintf("https://example.com/%d/", i), MURL: fmt.Sprintf("https://example.com/%d/llm.json", i),
			Modified: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, i%400), Hash: fooHash[:len(fooHash)-8] + fmt.Sprintf("%08x", i),
		}
	}
	return all
}

func items(all []tct.Item) iter.Seq2[tct.Item, error] {
	return func(yield func(tct.Item, error) bool) {
		for _, i := range all {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// write writes items into sitemaps in memory.
func write(t interface{ Fatalf(string, ...any) }, all []tct.Item, b tct.Bounds) (files [][]byte, written []tct.Written) {
	var buffers []*bytes.Buffer
	written, err := tct.WriteSitemaps(items(all), b, func(n int) (io.WriteCloser, error) {
		if n != len(buffers) {
			t.Fatalf("sitemap %d is opened behind %d", n, len(buffers))
		}
		buffers = append(buffers, &bytes.Buffer{})
		return closer{buffers[n]}, nil
	})
	if err != nil || len(written) != len(buffers) {
		t.Fatalf("WriteSitemaps = %d sitemaps, %v", len(written), err)
	}
	for _, b := range buffers {
		files = append(files, b.Bytes())
	}
	return files, written
}

func TestASitemapIsWrittenByBothNames(t *testing.T) {
	files, written := write(t, numbered(1), tct.Bounds{})
	h := fooHash[:len(fooHash)-8] + "00000000"
	want := `{"version":1,"profile":"tct-1","items":[{"cUrl":"https://example.com/0/","mUrl":"https://example.com/0/llm.json",` +
		`"modified":"2026-01-01T00:00:00Z","contentHash":"` + h + `","etag":"` + h + `"}]}`
	if string(files[0]) != want || written[0].Items != 1 || written[0].Size != int64(len(want)) {
		t.Errorf("wrote %s (%+v), want %s", files[0], written[0], want)
	}
	if empty, _ := write(t, nil, tct.Bounds{}); string(empty[0]) != `{"version":1,"profile":"tct-1","items":[]}` {
		t.Errorf("an empty site has %s", empty[0])
	}
}

func TestSitemapsAreSplitWithinTheirBounds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		n      int
		bounds tct.Bounds
		want   int
	}{
		{"50,000 items are one sitemap", 50_000, tct.Bounds{}, 1},
		{"50,001 are two", 50_001, tct.Bounds{}, 2},
		{"a budget of items", 10, tct.Bounds{MaxItems: 3}, 4},
		{"a budget of octets", 1000, tct.Bounds{MaxSize: 64 << 10}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := numbered(tt.n)
			files, written := write(t, all, tt.bounds)
			if len(files) != tt.want {
				t.Fatalf("%d sitemaps, want %d", len(files), tt.want)
			}
			var got readAll
			for i, f := range files {
				if tt.bounds.MaxSize > 0 && int64(len(f)) > tt.bounds.MaxSize || int64(len(f)) != written[i].Size {
					t.Errorf("sitemap %d has %d octets: %+v", i, len(f), written[i])
				}
				if err := got.read(bytes.NewReader(f), tct.Limits{}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got.items, all) {
				t.Error("the union of the sitemaps is not what was written")
			}
		})
	}
	if _, err := tct.WriteSitemaps(items(nil), tct.Bounds{MaxItems: 50_001}, nil); err == nil {
		t.Error("a budget of 50,001 items is accepted")
	}
	long := tct.Item{CURL: "https://example.com/" + strings.Repeat("a", 20_000), Hash: fooHash}
	if _, err := tct.WriteSitemaps(items([]tct.Item{long}), tct.Bounds{}, func(int) (io.WriteCloser, error) { return closer{io.Discard}, nil }); err == nil {
		t.Error("an item of 20,000 octets is written")
	}
}

func TestAFailedWriteOfASitemapIsAnError(t *testing.T) {
	broken := errors.New("disk full")
	for failing := range 3 {
		_, err := tct.WriteSitemaps(items(numbered(10)), tct.Bounds{MaxItems: 4}, func(n int) (io.WriteCloser, error) {
			if n == failing {
				return nil, broken
			}
			return closer{io.Discard}, nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("creating sitemap %d fails: %v", failing, err)
		}
	}
	failed := func(yield func(tct.Item, error) bool) { yield(tct.Item{}, broken) }
	if _, err := tct.WriteSitemaps(failed, tct.Bounds{}, func(int) (io.WriteCloser, error) { return closer{io.Discard}, nil }); !errors.Is(err, broken) {
		t.Errorf("the items fail: %v", err)
	}
}

func TestASitemapIsReadAsOthersWriteIt(t *testing.T) {
	const head, c, m = `{"version":1,"items":[{`, `"cUrl":"https://example.com/a",`, `"mUrl":"https://example.com/a.json",`
	weak := `W/\"` + fooHash + `\"`
	for _, tt := range []struct {
		name                string
		text                string
		items, skipped, odd int
	}{
		{"the name of draft-00", head + c + m + `"contentHash":"` + fooHash + `"}]}`, 1, 0, 0},
		{"the name of draft-01", head + c + m + `"etag":"` + fooHash + `"}]}`, 1, 0, 0},
		{"both that agree", head + c + m + `"etag":"` + fooHash + `","contentHash":"` + fooHash + `"}]}`, 1, 0, 0},
		{"both that differ", head + c + m + `"etag":"` + fooHash + `","contentHash":"` + strings.ToUpper(fooHash) + `"}]}`, 0, 1, 0},
		{"a weak tag", head + c + m + `"etag":"` + weak + `"}]}`, 1, 0, 1},
		{"neither", head + c + m + `"modified":"2026-01-01T00:00:00Z"}]}`, 0, 1, 0},
		{"no mUrl", head + c + `"etag":"` + fooHash + `"}]}`, 0, 1, 0},
		{"a cUrl that is a number", head + `"cUrl":1,` + m + `"etag":"` + fooHash + `"}]}`, 0, 1, 0},
		{"a cUrl that is no URL", head + `"cUrl":"javascript:alert(1)",` + m + `"etag":"` + fooHash + `"}]}`, 0, 1, 0},
		{"a member twice", head + c + c + m + `"etag":"` + fooHash + `"}]}`, 0, 1, 0},
		{"an item that is no object", `{"version":1,"items":[7,null,[],"x"]}`, 0, 4, 0},
		{"members that nobody knows", `{"a":{"items":[1,{"b":[]}]},"version":1,"items":[{"x":[{"cUrl":1}],` + c + m + `"etag":"` + fooHash + `"}],"z":"` + strings.Repeat("z", 10_000) + `"}`, 1, 0, 0},
		{"items before the version", `{"items":[{` + c + m + `"etag":"` + fooHash + `"}],"version":1}`, 1, 0, 0},
		{"another version", `{"version":2,"items":[]}`, 0, 0, 1},
		{"a version in words, and so none", `{"version":"1","items":[]}`, 0, 0, 2},
		{"an unknown profile", `{"version":1,"profile":"tct-9","items":[]}`, 0, 0, 1},
		{"a time of another form", head + c + m + `"modified":"2026-01-01 05:31+0100","etag":"` + fooHash + `"}]}`, 1, 0, 1},
		{"a time that is none", head + c + m + `"modified":"yesterday","etag":"` + fooHash + `"}]}`, 1, 0, 1},
		{"an entry of a size", "{\n \"version\" : 1 ,\n \"items\" : [ ] }\r\n", 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got readAll
			if err := got.read(strings.NewReader(tt.text), tct.Limits{}); err != nil {
				t.Fatal(err)
			}
			if len(got.items) != tt.items || len(got.skipped) != tt.skipped || len(got.odd) != tt.odd {
				t.Errorf("items %v, skipped %q, odd %q", got.items, got.skipped, got.odd)
			}
		})
	}
}

func TestABrokenSitemapIsAnError(t *testing.T) {
	whole, _ := write(t, numbered(3), tct.Bounds{})
	for n := range len(whole[0]) {
		var got readAll
		if err := got.read(bytes.NewReader(whole[0][:n]), tct.Limits{}); !errors.Is(err, tct.ErrSitemap) {
			t.Fatalf("cut short at %d octets: %v", n, err)
		}
	}
	for _, text := range []string{
		`[]`, `null`, `{}`, `{"items":{}}`, `{"items":"x"}`, `{"items":[],"items":[]}`, `{"items":[]}x`, `{"items":[]}{}`, `{"items":[{]}`,
		`{"version":NaN,"items":[]}`, "{\"items\":[\"\xff\"]}", `{"sitemaps":[{"etag":"x"}]}`, `{"sitemaps":[7]}`, "\ufeff{}",
	} {
		var got readAll
		if err := got.read(strings.NewReader(text), tct.Limits{}); !errors.Is(err, tct.ErrSitemap) {
			t.Errorf("%s: %v, want ErrSitemap", text, err)
		}
	}
	stop := errors.New("enough")
	_, err := tct.ReadSitemap(bytes.NewReader(whole[0]), tct.Limits{}, tct.Visitor{Item: func(tct.Item) error { return stop }})
	if !errors.Is(err, stop) || errors.Is(err, tct.ErrSitemap) {
		t.Errorf("an error of the visitor's comes back as %v", err)
	}
}

// endless repeats a block between a head and nothing.
type endless struct {
	head  io.Reader
	block []byte
	at    int
	sent  int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.head != nil {
		n, err := e.head.Read(p)
		if err == nil {
			return n, nil
		}
		e.head = nil
	}
	n := 0
	for n < len(p) {
		c := copy(p[n:], e.block[e.at:])
		n, e.at = n+c, (e.at+c)%len(e.block)
	}
	e.sent += int64(n)
	return n, nil
}

func TestAHostileSitemapTakesLittle(t *testing.T) {
	item := `{"cUrl":"https://example.com/a","mUrl":"https://example.com/a.json","etag":"` + fooHash + `"},`
	for _, tt := range []struct {
		name, head, block string
		limits            tct.Limits
		most              int64 // octets that are read of the block
	}{
		{"a string without end", `{"version":1,"x":"`, "aaaaaaaaaaaaaaaaaaaaaaaaa", tct.Limits{}, 1 << 20},
		{"an item without end", `{"version":1,"items":[{"cUrl":"`, "aaaaaaaaaaaaaaaaaaaaaaaaa", tct.Limits{}, 1 << 20},
		{"white space without end", `{"version":1,"items":[`, " \n", tct.Limits{}, 1 << 20},
		{"arrays without end", `{"version":1,"x":`, "[", tct.Limits{}, 1 << 20},
		{"arrays in an item without end", `{"version":1,"items":[{"x":`, "[", tct.Limits{}, 1 << 20},
		{"a number without end", `{"version":`, "1", tct.Limits{}, 1 << 20},
		{"members without end", `{"version":1`, `,"x":1`, tct.Limits{MaxSize: 8 << 20}, 8<<20 + 4096},
		{"items without end", `{"version":1,"items":[`, item, tct.Limits{MaxItems: 10_000}, 4 << 20},
		{"bad items without end", `{"version":1,"items":[`, "7,", tct.Limits{MaxSize: 2 << 20}, 2<<20 + 4096},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			r := &endless{head: strings.NewReader(tt.head), block: []byte(tt.block)}
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := tct.ReadSitemap(r, tt.limits, tct.Visitor{Item: func(tct.Item) error { return nil }})
			runtime.GC()
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tct.ErrSitemap) {
				t.Errorf("ReadSitemap = %v, want ErrSitemap", err)
			}
			if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); r.sent > tt.most || kept > 4<<20 {
				t.Errorf("read %d octets, kept %d", r.sent, kept)
			}
		})
	}
}

func TestSitemapsSurviveARoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []tct.Item
		for i := range rapid.IntRange(0, 40).Draw(t, "n") {
			item := tct.Item{
				CURL: fmt.Sprintf("https://example.com/%d", i), MURL: rapid.StringN(1, 50, 200).Draw(t, "mUrl"),
				Hash: fooHash[:63] + rapid.StringMatching("[0-9a-f]{8}").Draw(t, "hash"),
			}
			if rapid.Bool().Draw(t, "has a time") {
				item.Modified = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "modified"), 0).UTC()
			}
			all = append(all, item)
		}
		files, _ := write(t, all, tct.Bounds{MaxItems: rapid.IntRange(1, 50).Draw(t, "most")})
		var got readAll
		for _, f := range files {
			if err := got.read(bytes.NewReader(f), tct.Limits{}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got.items, all) || len(got.skipped)+len(got.odd) > 0 {
			t.Fatalf("wrote %v, read %v, skipped %q, odd %q", all, got.items, got.skipped, got.odd)
		}
	})
}

func FuzzReadSitemap(f *testing.F) {
	files, _ := write(f, numbered(2), tct.Bounds{})
	f.Add(files[0])
	f.Add([]byte(`{"version":1,"sitemaps":[{"url":"https://example.com/a","etag":"x"}]}`))
	f.Add([]byte(`{"items":[{"cUrl":"https://a/","mUrl":"x","etag":"W/\"` + fooHash + `-gzip\"","modified":"2026-01-01"}],"a":[[]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got readAll
		if err := got.read(bytes.NewReader(b), tct.Limits{}); err != nil {
			return
		}
		for i := range got.items {
			got.items[i].MURL = strings.ToValidUTF8(got.items[i].MURL, "")
		}
		again := readAll{}
		var buf bytes.Buffer
		_, err := tct.WriteSitemaps(items(got.items), tct.Bounds{}, func(int) (io.WriteCloser, error) { return closer{&buf}, nil })
		if err == nil {
			err = again.read(&buf, tct.Limits{})
		}
		if err != nil || !slices.Equal(again.items, got.items) {
			t.Fatalf("read %v, wrote and read %v, %v", got.items, again.items, err)
		}
	})
}
