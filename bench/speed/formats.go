package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// sitemapItems is how many a TCT sitemap has at most.
const sitemapItems = 50_000

// formats reads and writes SCP and TCT, beside the least that a reader or writer of
// compressed JSON does: each token once, and the compression. Rates are of plain
// octets, in MB.
func formats(_ context.Context, dir string, in input) (ratio.Round, error) {
	packed, err := os.ReadFile(in.collection)
	if err != nil {
		return nil, err
	}
	plain, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	sitemap, items, err := writeSitemap(nil)
	if err != nil {
		return nil, err
	}
	packedMap, err := pack(sitemap)
	if err != nil {
		return nil, err
	}
	r := make(ratio.Round)
	for _, m := range []struct {
		name   string
		octets int
		run    func() error
	}{
		{"scp/read/floor", len(plain), func() error { return tokenisePacked(packed) }},
		{"scp/read", len(plain), func() error {
			_, err := scp.Verify(bytes.NewReader(packed), scp.Options{})
			return err
		}},
		{"scp/write/floor", len(plain), func() error { return tokeniseAndPack(plain) }},
		{"scp/write", len(plain), func() error { return writeLines(dir, plain) }},
		{"tct/read/floor", len(sitemap), func() error { return tokenisePacked(packedMap) }},
		{"tct/read", len(sitemap), func() error { return readSitemap(packedMap, len(items)) }},
		{"tct/write/floor", len(sitemap), func() error { return tokeniseAndPack(sitemap) }},
		{"tct/write", len(sitemap), func() error {
			octets, _, err := writeSitemap(items)
			if err == nil {
				_, err = pack(octets)
			}
			return err
		}},
	} {
		began, used := time.Now(), cpuTime()
		const times = 3
		for range times {
			if err := m.run(); err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
		}
		mb := times * float64(m.octets) / 1e6
		r[m.name] = load.Sample{Rate: mb / time.Since(began).Seconds(), CPU: time.Duration(float64(cpuTime()-used) / mb)}
	}
	return r, nil
}

func unpack(packed []byte) ([]byte, error) {
	d, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(d)
}

// pack compresses as a collection is.
func pack(plain []byte) ([]byte, error) {
	var out bytes.Buffer
	e, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err == nil {
		_, err = e.Write(plain)
	}
	if err == nil {
		err = e.Close()
	}
	return out.Bytes(), err
}

func tokenisePacked(packed []byte) error {
	d, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	defer d.Close()
	return tokenise(bufio.NewReaderSize(d, 256<<10))
}

func tokeniseAndPack(plain []byte) error {
	if err := tokenise(bytes.NewReader(plain)); err != nil {
		return err
	}
	_, err := pack(plain)
	return err
}

// tokenise reads each token of one JSON value or more.
func tokenise(in io.Reader) error {
	d := jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// writeLines writes the lines of a plain collection as a new one.
func writeLines(dir string, plain []byte) error {
	w, err := scp.NewWriter(scp.Collection{ID: "bench", Section: "all", Type: scp.Snapshot, Generated: time.Now().Truncate(time.Second), Version: scp.Version}, dir)
	if err != nil {
		return err
	}
	defer w.Close()
	first := true
	for line := range bytes.Lines(plain) {
		if first {
			first = false
			continue
		}
		if err := w.Add(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, "written.scp.zst"))
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, err = w.Finish(f, scp.Packing{Compression: scp.Zstd})
	return err
}

// writeSitemap writes a sitemap of the items, or of new ones if there are none.
func writeSitemap(items []tct.Item) ([]byte, []tct.Item, error) {
	for i := len(items); i < sitemapItems; i++ {
		url := fmt.Sprintf("https://%s/d%03d/p%07d.html", host, i%311, i)
		_, h := tct.Encode(nil, tct.Document{URL: url, Title: "Page", Content: fmt.Sprint(i)})
		items = append(items, tct.Item{CURL: url, MURL: url + "/llm/", Modified: time.Unix(1_760_000_000, 0).UTC(), Hash: tct.FormatHash(h)})
	}
	out := &closer{}
	_, err := tct.WriteSitemaps(func(yield func(tct.Item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
	}, tct.Bounds{}, func(int) (io.WriteCloser, error) { return out, nil })
	return out.Bytes(), items, err
}

type closer struct{ bytes.Buffer }

func (*closer) Close() error { return nil }

func readSitemap(packed []byte, want int) error {
	d, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	defer d.Close()
	n := 0
	_, err = tct.ReadSitemap(d, tct.Limits{}, tct.Visitor{Item: func(tct.Item) error { n++; return nil }})
	if err == nil && n != want {
		err = fmt.Errorf("%d items of %d", n, want)
	}
	return err
}
