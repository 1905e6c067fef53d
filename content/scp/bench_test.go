package scp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// benchPages is a collection of about 16 MB: pages like those of a manual, of
// words that compress about five to one.
func benchPages(b *testing.B) (lines [][]byte, size int64) {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4000)
	for i := range words {
		w := make([]byte, 2+r.IntN(9))
		for j := range w {
			w[j] = "etaoinshrdlucmfw"[min(r.IntN(16), r.IntN(16))]
		}
		words[i] = string(w)
	}
	text := func(n int) string {
		s := make([]string, n)
		for i := range s {
			s[i] = words[min(r.IntN(len(words)), r.IntN(len(words)))]
		}
		return strings.Join(s, " ")
	}
	for i := 0; size < 16<<20; i++ {
		p := Page{URL: fmt.Sprintf("https://example.com/manual/%s/%d.html", words[i%100], i), Title: text(5), Description: text(12), Language: "en", Modified: noon}
		blocks := []Block{&Heading{1, p.Title}}
		for range 4 + r.IntN(20) {
			blocks = append(blocks, &Text{text(20 + r.IntN(60))})
		}
		blocks = append(blocks, &List{false, []string{text(6), text(7), text(8)}}, &Code{"go", text(30)})
		line, err := AppendPage(nil, &p, blocks)
		if err != nil {
			b.Fatal(err)
		}
		lines, size = append(lines, line), size+int64(len(line))+1
	}
	return lines, size
}

func benchFile(b *testing.B, c Compression) (file []byte, size int64) {
	lines, size := benchPages(b)
	w, err := NewWriter(snapshot(noon), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for _, l := range lines {
		if err := w.Add(l); err != nil {
			b.Fatal(err)
		}
	}
	var out bytes.Buffer
	if _, _, err := w.Finish(&out, Packing{Compression: c}); err != nil {
		b.Fatal(err)
	}
	return out.Bytes(), size
}

// benchCompressions runs f once for each compression.
func benchCompressions(b *testing.B, f func(b *testing.B, file []byte)) {
	for _, c := range []Compression{Plain, Gzip, Zstd} {
		b.Run("scp"+strings.TrimPrefix(c.Extension(), ".scp"), func(b *testing.B) {
			file, size := benchFile(b, c)
			b.SetBytes(size)
			b.ReportAllocs()
			b.ResetTimer()
			f(b, file)
		})
	}
}

// BenchmarkFloor is what no reader can do without: to decompress, and to look
// at each token.
func BenchmarkFloor(b *testing.B) {
	benchCompressions(b, func(b *testing.B, file []byte) {
		for b.Loop() {
			u, err := unpack(bytes.NewReader(file), Limits{})
			if err != nil {
				b.Fatal(err)
			}
			d := jsontext.NewDecoder(u, jsontext.AllowDuplicateNames(true))
			for {
				if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
			u.close()
		}
	})
}

// BenchmarkRead opens a collection, verifies it, and takes each page out.
func BenchmarkRead(b *testing.B) {
	benchCompressions(b, func(b *testing.B, file []byte) {
		dir := b.TempDir()
		for b.Loop() {
			f, err := Open(bytes.NewReader(file), Options{Spool: dir})
			if err != nil {
				b.Fatal(err)
			}
			n := int64(0)
			for _, err := range f.Each() {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != f.Pages || n == 0 {
				b.Fatalf("%d pages of %d", n, f.Pages)
			}
			f.Close()
		}
	})
}

// BenchmarkVerify checks a collection and keeps nothing.
func BenchmarkVerify(b *testing.B) {
	benchCompressions(b, func(b *testing.B, file []byte) {
		for b.Loop() {
			if _, err := Verify(bytes.NewReader(file), Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWrite writes a collection of lines that exist.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []Compression{Plain, Gzip, Zstd} {
		b.Run("scp"+strings.TrimPrefix(c.Extension(), ".scp"), func(b *testing.B) {
			lines, size := benchPages(b)
			dir := b.TempDir()
			b.SetBytes(size)
			for b.Loop() {
				w, err := NewWriter(snapshot(noon), dir)
				if err != nil {
					b.Fatal(err)
				}
				for _, l := range lines {
					if err := w.Add(l); err != nil {
						b.Fatal(err)
					}
				}
				if _, _, err := w.Finish(io.Discard, Packing{Compression: c}); err != nil {
					b.Fatal(err)
				}
				w.Close()
			}
		})
	}
}
