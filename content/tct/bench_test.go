package tct_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"io"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// manyItems is a sitemap of 50,000 items, plain and compressed.
func manyItems(b *testing.B) (plain, zipped []byte) {
	b.Helper()
	all := numbered(50_000)
	for i := range all {
		// No two hashes are alike in a real one, and no processor learns them.
		all[i].Hash = tct.FormatHash(sha256.Sum256([]byte(all[i].CURL)))
	}
	files, _ := write(b, all, tct.Bounds{})
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(files[0])
	w.Close()
	return files[0], z.Bytes()
}

func unzip(b *testing.B, zipped []byte) io.Reader {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkSitemapRead is to be seen beside what it cannot be faster than:
// decompression alone, and decompression with a pass over the tokens.
func BenchmarkSitemapRead(b *testing.B) {
	plain, zipped := manyItems(b)
	b.Run("decompression", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			if _, err := io.Copy(io.Discard, unzip(b, zipped)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tokens", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			d := jsontext.NewDecoder(unzip(b, zipped))
			for {
				if _, err := d.ReadToken(); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("items", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			n := 0
			_, err := tct.ReadSitemap(unzip(b, zipped), tct.Limits{}, tct.Visitor{Item: func(tct.Item) error { n++; return nil }})
			if err != nil || n != 50_000 {
				b.Fatal(n, err)
			}
		}
	})
}

// BenchmarkSitemapWrite is to be seen beside the hash that every sitemap needs.
func BenchmarkSitemapWrite(b *testing.B) {
	all := numbered(50_000)
	plain, _ := manyItems(b)
	b.Run("hash", func(b *testing.B) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			sha256.Sum256(plain)
		}
	})
	b.Run("items", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			if _, err := tct.WriteSitemaps(items(all), tct.Bounds{}, func(int) (io.WriteCloser, error) { return closer{io.Discard}, nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	d := tct.Document{URL: helloURL, Title: "t", Content: longText + longText + longText}
	payload, _ := tct.Encode(nil, d)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		payload, _ = tct.Encode(payload[:0], d)
	}
}

func BenchmarkDecode(b *testing.B) {
	payload, _ := tct.Encode(nil, tct.Document{URL: helloURL, Title: "t", Content: longText + longText + longText})
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, err := tct.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHandler(b *testing.B) {
	h, _ := openSite(b, nil)
	for _, bb := range []struct {
		name   string
		fields []string
	}{{"200", nil}, {"304", []string{"If-None-Match: *"}}, {"gzip", []string{"Accept-Encoding: gzip"}}} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				ask(h, "GET", "/long/llm.json", bb.fields...)
			}
		})
	}
}
