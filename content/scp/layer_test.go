package scp

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

func TestASorterOfManyRunsSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := sorter{dir: t.TempDir()}
	var all []entry
	for i := range 5000 {
		e := entry{url: fmt.Sprintf("https://example.com/%d", r.IntN(3000)), modified: noon.Add(time.Duration(r.IntN(3))), offset: int64(i)}
		all = append(all, e)
		if err := s.add(e); err != nil {
			t.Fatal(err)
		}
		if i%700 == 699 {
			if err := s.spill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out bytes.Buffer
	if err := s.finish(&out); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.url, b.url), b.modified.Compare(a.modified), cmp.Compare(a.offset, b.offset))
	})
	for i, want := range all {
		got, _, err := readEntry(&out)
		if err != nil || got != want {
			t.Fatalf("entry %d is %+v, %v; want %+v", i, got, err, want)
		}
	}
	if _, _, err := readEntry(&out); err != io.EOF {
		t.Errorf("behind the last: %v", err)
	}
	if files, err := os.ReadDir(s.dir); err != nil || len(files) > 0 {
		t.Errorf("%d files left behind (%v)", len(files), err)
	}
}

func TestALookupFindsWhatThereIs(t *testing.T) {
	var lines [][]byte
	for i := range 3 * waypointEvery {
		// A page of a great many versions spans a waypoint.
		lines = append(lines, line(fmt.Sprintf("https://example.com/%03d", min(i, 700)), "x", noon))
	}
	l := layerOf(t, file(snapshot(noon), lines...))
	for i := range 800 {
		url := fmt.Sprintf("https://example.com/%03d", i)
		e, ok, err := l.lookup(url)
		if err != nil || ok != (i <= 700) || ok && e.url != url {
			t.Fatalf("%s: %v, %v, %v", url, e.url, ok, err)
		}
	}
	for _, url := range []string{"", "https://example.com/", "z"} {
		if _, ok, err := l.lookup(url); ok || err != nil {
			t.Errorf("%q: %v, %v", url, ok, err)
		}
	}
	if _, ok, err := layerOf(t, file(snapshot(noon))).lookup("https://example.com/"); ok || err != nil {
		t.Errorf("in an empty layer: %v, %v", ok, err)
	}
}

func TestADamagedLayerIsNoticed(t *testing.T) {
	dir := t.TempDir()
	m, err := openMirror(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &refresh{s: &Source{config: SourceConfig{Quota: 1 << 30}}, m: m, now: noon}
	r.s.config.Skew = time.Hour
	if err := r.verify(bytes.NewReader(file(snapshot(noon), line("https://example.com/", "Words", noon))), "", offer{}); err != nil {
		t.Fatal(err)
	}
	l := m.layers()[0]
	path := m.path(m.state.Layers[0].Name + ".pages")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := l.lookup("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 0x40
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := l.read(&e); err == nil && (p.URL != e.url || p.Digest() != e.digest || p.Title != "A page" || p.Text() != "Words") {
			t.Fatalf("octet %d is another, and %q is read", at, p.Line)
		}
	}
	m.close()
}
