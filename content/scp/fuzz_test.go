package scp

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// seeds adds the examples of the text.
func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/seed/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzLine: what is read as a page is written, read again, and then written as
// the same; and Check accepts it for its own URL and no other.
func FuzzLine(f *testing.F) {
	seeds(f)
	f.Add([]byte(good("a")))
	f.Fuzz(func(t *testing.T, line []byte) {
		kept := bytes.Clone(line)
		p, err := ParsePage(line)
		if !bytes.Equal(line, kept) {
			t.Fatal("the line was changed")
		}
		if err != nil {
			return
		}
		if err := Check(line, p.URL); err != nil && bytes.Equal(bytes.TrimSpace(line), line) && bytes.IndexByte(line, '\n') < 0 {
			t.Fatalf("not accepted for its own URL: %v", err)
		}
		if Check(line, p.URL+"x") == nil {
			t.Fatal("accepted for another URL")
		}
		p.Content()
		blocks, _ := p.Blocks()
		one, err := AppendPage(nil, &p, blocks)
		if err != nil || bytes.IndexByte(one, '\n') >= 0 {
			return // what is read leniently is not always fit to be written
		}
		q, err := ParsePage(one)
		if err != nil {
			t.Fatalf("written and not read: %v\n%s", err, one)
		}
		blocks, _ = q.Blocks()
		two, err := AppendPage(nil, &q, blocks)
		if err != nil || !bytes.Equal(one, two) || q.URL != p.URL || q.Title != p.Title || !q.Modified.Equal(p.Modified) || q.Text() != p.Text() {
			t.Fatalf("written twice:\n%s\n%s\n%v", one, two, err)
		}
	})
}

// FuzzFile: a file is rejected or read, and nothing else; what Open hands out
// is what Verify counted.
func FuzzFile(f *testing.F) {
	seeds(f)
	text := []byte(goodMeta + "\n" + good("a") + "\n" + good("b"))
	for _, c := range []Compression{Plain, Gzip, Zstd} {
		f.Add(packed(f, c, text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := Limits{Packed: 1 << 20, Plain: 4 << 20}
		v, err := Verify(bytes.NewReader(b), Options{Limits: limits})
		if err != nil {
			if !errors.Is(err, ErrRejected) {
				t.Fatalf("error %v", err)
			}
			return
		}
		o, err := Open(bytes.NewReader(b), Options{Limits: limits})
		if err != nil {
			t.Fatalf("verified, and not opened: %v", err)
		}
		defer o.Close()
		n := int64(0)
		for p, err := range o.Each() {
			if err != nil {
				t.Fatal(err)
			}
			if Check(p.Line, p.URL) != nil {
				t.Fatalf("a page that no receiver accepts: %s", p.Line)
			}
			n++
		}
		if n != v.Pages || o.Collection != v.Collection {
			t.Fatalf("%d pages of %d", n, v.Pages)
		}
	})
}

// FuzzSitemap: what is read and can be written is read as the same again.
func FuzzSitemap(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ReadSitemap(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrSitemap) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var one, two bytes.Buffer
		if s.Write(&one) != nil {
			return
		}
		again, err := ReadSitemap(bytes.NewReader(one.Bytes()))
		if err != nil {
			t.Fatalf("written and not read: %v\n%s", err, one.Bytes())
		}
		if err := again.Write(&two); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Fatalf("written twice:\n%s\n%s", one.Bytes(), two.Bytes())
		}
	})
}

// FuzzDelta: whatever two collections hold, folding them once, twice and in
// either order of the same delta gives the index of the printed procedure.
func FuzzDelta(f *testing.F) {
	f.Add([]byte("aAbB"), []byte("bBcC"))
	f.Add([]byte("a1a2"), []byte("a2a1"))
	f.Fuzz(func(t *testing.T, old, new []byte) {
		if len(old) > 200 || len(new) > 200 {
			return
		}
		make := func(c Collection, b []byte) ([][]byte, []version, []string) {
			var lines [][]byte
			var pages []version
			var names []string
			for ; len(b) >= 2; b = b[2:] {
				v := version{noon.Add(time.Duration(b[1]) * time.Second), string("xy"[b[1]&1])}
				url := "https://example.com/" + string(rune('a'+b[0]%8))
				lines = append(lines, line(url, v.text, v.modified))
				v.modified = Plausible(v.modified, c.Generated)
				pages, names = append(pages, v), append(names, url)
			}
			return lines, pages, names
		}
		first, second := snapshot(noon.Add(time.Hour)), delta(noon, noon.Add(2*time.Hour))
		index := map[string]version{}
		l1, p1, n1 := make(first, old)
		l2, p2, n2 := make(second, new)
		reference(index, p1, n1)
		reference(index, p2, n2)
		a, b := layerOf(t, file(first, l1...)), layerOf(t, file(second, l2...))
		for _, layers := range [][]*layer{{a, b}, {a, b, b}} {
			n := 0
			for got, err := range fold(layers) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; !got.modified.Equal(index[got.url].modified) {
					t.Fatalf("%s is of %v, want %v", got.url, got.modified, index[got.url].modified)
				}
			}
			if n != len(index) {
				t.Fatalf("%d pages, want %d", n, len(index))
			}
		}
	})
}
