//go:build system

package site

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// cppreference is where the Debian package cppreference-doc-en-html puts its
// pages.
const cppreference = "/usr/share/cppreference/doc/html/en"

func TestExtractionAgreesWithATreeOnCppreference(t *testing.T) {
	s := &Site{Dir: cppreference, BaseURL: "https://cppreference.example/"}
	pages, differ, moved := 0, 0, 0
	for page, err := range s.Pages(context.Background(), nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		pages++
		src, err := os.ReadFile(filepath.Join(cppreference, page.Location))
		if err != nil {
			t.Fatal(err)
		}
		got, want := extractWords(src), treeWords(t, src, DefaultRules())
		if slices.Equal(got, want) {
			continue
		}
		// What stands in a table and in no cell is moved before the table by a
		// browser; we leave it where its author put it.
		g, w := firstDifference(got, want)
		slices.Sort(got)
		slices.Sort(want)
		if slices.Equal(got, want) {
			moved++
		} else if differ++; differ <= 5 {
			t.Errorf("%s\n got %s\nwant %s", page.Location, g, w)
		}
	}
	if differ > 0 || moved > pages/1000 || pages == 0 {
		t.Errorf("of %d pages %d differ, and %d have their words in another order", pages, differ, moved)
	}
}

// BenchmarkCppreference reads the folder as a publisher does: files in, pages
// out, on all processors.
func BenchmarkCppreference(b *testing.B) {
	s := &Site{Dir: cppreference, BaseURL: "https://cppreference.example/"}
	var size, payload int64
	err := filepath.WalkDir(cppreference, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		payload = 0
		for page, err := range s.Pages(context.Background(), nil, nil) {
			if err != nil {
				b.Fatal(err)
			}
			payload += int64(len(page.Payload))
		}
	}
	b.ReportMetric(float64(payload), "payload-bytes")
}
