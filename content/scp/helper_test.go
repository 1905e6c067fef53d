package scp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// noon is when tests take place.
var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

// line makes a page line.
func line(url, text string, modified time.Time) []byte {
	return fmt.Appendf(nil, `{"url":%q,"title":"A page","description":"","modified":%q,"language":"en","content":[{"type":"text","text":%q}]}`,
		url, formatTime(modified), text)
}

// file makes a collection without a checksum.
func file(c Collection, lines ...[]byte) []byte {
	return append(append(c.appendLine(nil, ""), '\n'), bytes.Join(lines, []byte("\n"))...)
}

func snapshot(generated time.Time) Collection {
	return Collection{ID: "s", Section: "all", Type: Snapshot, Generated: generated}
}

func delta(since, generated time.Time) Collection {
	return Collection{ID: "d", Section: "all", Type: Delta, Since: since, Generated: generated}
}

// layerOf verifies a collection into a layer.
func layerOf(t testing.TB, text []byte) *layer {
	t.Helper()
	spool, err := durable.Unnamed(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	index, err := durable.Unnamed(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := layerWriter{spool: newSpoolWriter(spool), sorter: sorter{dir: t.TempDir()}}
	f, err := verify(bytes.NewReader(text), Options{Accept: func(c *Collection) error {
		w.generated = c.Generated
		return nil
	}}, &w)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.sorter.finish(index); err != nil {
		t.Fatal(err)
	}
	l := newLayer(f.Collection.Generated, spool, index)
	t.Cleanup(l.release)
	return l
}

// packed compresses b.
func packed(t testing.TB, c Compression, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := pack(&out, Packing{Compression: c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// open opens a collection until the test ends.
func open(t testing.TB, b []byte, o Options) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(b), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// urls lists the pages of a file.
func urls(t testing.TB, f *File) string {
	t.Helper()
	var all []string
	for p, err := range f.Each() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimPrefix(p.URL, "https://example.com/"))
	}
	return strings.Join(all, " ")
}
