package scp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// repeat reads text over and over, n octets in all.
type repeat struct {
	text string
	at   int
	n    int64
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), r.n)], r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	r.n -= int64(n)
	return n, nil
}

// counted counts what is read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// zeros packs n zeros, behind head.
func zeros(t *testing.T, c Compression, head string, n int64) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if c == Zstd {
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := io.Copy(w, io.MultiReader(strings.NewReader(head), &repeat{text: strings.Repeat("\x00", 1<<16), n: n})); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// allocated is how much f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestBombsAreRefusedEarly(t *testing.T) {
	wide := append([]byte(goodMeta+"\n"), []byte(strings.Replace(good("a"), `[{`, `[`+strings.Repeat(`{"type":"text","text":"x"},`, 1000)+`{`, 1))...)
	deep := goodMeta + "\n" + strings.Replace(good("a"), `"title"`, `"schema":{"a":`+strings.Repeat("[", 1_000_000)+strings.Repeat("]", 1_000_000)+`},"title"`, 1)
	for _, tt := range []struct {
		name   string
		file   []byte
		limits Limits
		most   uint64 // octets that may be allocated
	}{
		{"24 MB of zeros by gzip", zeros(t, Gzip, goodMeta+"\n", 24<<20), Limits{}, 32 << 20},
		{"24 MB of zeros by zstd", zeros(t, Zstd, goodMeta+"\n", 24<<20), Limits{}, 32 << 20},
		{"small members of gzip, many of them", append(packed(t, Gzip, []byte(goodMeta+"\n")), bytes.Repeat(zeros(t, Gzip, "", 1<<20), 20)...), Limits{}, 32 << 20},
		{"a frame of nine octets that asks for 512 MiB", []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 19 << 3, 0x01, 0x00, 0x00}, Limits{}, 2 << 20},
		{"a frame that says its content has 16 EiB", []byte{0x28, 0xB5, 0x2F, 0xFD, 0xE0, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0}, Limits{}, 2 << 20},
		{"1,001 blocks", wide, Limits{}, 4 << 20},
		{"a million arrays in one another", []byte(deep), Limits{}, 16 << 20},
		{"more packed than is allowed", packed(t, Gzip, wide), Limits{Packed: 50}, 4 << 20},
		{"more in it than is allowed", packed(t, Gzip, wide), Limits{Plain: 2000}, 4 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = Verify(bytes.NewReader(tt.file), Options{Limits: tt.limits}) })
			if !errors.Is(err, ErrRejected) || !errors.Is(err, ErrLimit) {
				t.Errorf("error %v, want a limit", err)
			}
			if got > tt.most {
				t.Errorf("%d octets allocated, at most %d", got, tt.most)
			}
		})
	}
}

func TestARatioThatTheTextAllowsIsRead(t *testing.T) {
	text := goodMeta + "\n" + strings.Replace(good("a"), "Words", strings.Repeat("w ", 400_000), 1)
	if _, err := Verify(bytes.NewReader(packed(t, Gzip, []byte(text))), Options{}); err != nil {
		t.Errorf("below a MiB the ratio does not count: %v", err)
	}
}

func TestALineOf100MBIsRefusedAtTheLimit(t *testing.T) {
	head := goodMeta + "\n" + `{"url":"https://example.com/a","title":"`
	in := &counted{Reader: io.MultiReader(strings.NewReader(head), &repeat{text: strings.Repeat("x", 1<<16), n: 4 * MaxPage})}
	var err error
	got := allocated(func() { _, err = Verify(in, Options{}) })
	if !errors.Is(err, ErrLimit) || in.n > MaxPage+1<<20 {
		t.Errorf("error %v after %d octets", err, in.n)
	}
	// What doubles takes twice its size in all, and the race detector a little more.
	if got > 4*MaxPage {
		t.Errorf("%d octets allocated", got)
	}
}

func TestMemoryStaysFlat(t *testing.T) {
	// 24 MB of pages, of which the last is broken: nothing of it may show, and
	// what is held must not follow what is read.
	page := good("a") + "\n"
	text := io.MultiReader(strings.NewReader(goodMeta+"\n"), &repeat{text: page, n: int64(len(page)) * (24 << 20 / int64(len(page)))}, strings.NewReader("{"))
	runtime.GC()
	var peak uint64
	watch := readerFunc(func(p []byte) (int, error) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
		return text.Read(p)
	})
	_, err := Open(bufio.NewReaderSize(watch, 1<<20), Options{Spool: t.TempDir()})
	if !errors.Is(err, ErrRejected) {
		t.Fatalf("error %v", err)
	}
	if peak > 16<<20 {
		t.Errorf("%d octets held", peak)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestXMLTricksAreRefused(t *testing.T) {
	wrap := func(s string) string {
		return `<urlset xmlns="` + sitemapNamespace + `" xmlns:scp="` + Namespace + `">` + s + `</urlset>`
	}
	entities := `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">`
	for i := range 9 {
		entities += fmt.Sprintf(`<!ENTITY %c "%s">`, 'b'+i, strings.Repeat(fmt.Sprintf("&%c;", 'a'+i), 10))
	}
	for _, tt := range []struct{ name, text, why string }{
		{"a billion laughs", entities + `]>` + wrap(`<url><loc>&j;</loc></url>`), "document type"},
		{"an entity from outside", `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>` + wrap(`<url><loc>&e;</loc></url>`), "document type"},
		{"an entity that nobody declared", wrap(`<url><loc>&e;</loc></url>`), "invalid character entity"},
		{"a document type from outside", `<!DOCTYPE x SYSTEM "http://127.0.0.1/x.dtd">` + wrap(""), "document type"},
		{"elements deep in one another", wrap(strings.Repeat("<x>", 1_000_000)), "deep"},
		{"a million attributes", wrap(`<x ` + strings.Repeat(`a="" `, 1_000_000) + `/>`), "octets"},
		{"a hundred thousand collections", wrap(strings.Repeat(`<scp:section name="a"/>`, 100_000)), "sections and collections"},
		{"another character set", `<?xml version="1.0" encoding="UTF-7"?>` + wrap(""), "encoding"},
		{"an end that is not there", `<urlset xmlns="` + sitemapNamespace + `">`, "EOF"},
		{"a root of another kind", `<feed/>`, "the root"},
		{"nothing", ``, "no element"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = ReadSitemap(strings.NewReader(tt.text)) })
			if !errors.Is(err, ErrSitemap) || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("error %.300v, want one with %q", err, tt.why)
			}
			if got > 64<<20 {
				t.Errorf("%d octets allocated", got)
			}
		})
	}
	bomb := packed(t, Gzip, []byte(wrap(strings.Repeat(" ", 8<<20))))
	if _, err := ReadSitemap(bytes.NewReader(bomb)); !errors.Is(err, ErrLimit) {
		t.Errorf("a bomb of a sitemap: %v", err)
	}
}
