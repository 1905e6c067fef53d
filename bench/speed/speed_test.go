package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
)

func TestEveryAimNeedsWhatIsPrinted(t *testing.T) {
	printed := make(map[string]bool)
	for _, l := range lines() {
		printed[l.Name] = true
	}
	for _, a := range aims() {
		for _, name := range a.Needs {
			if !printed[name] {
				t.Errorf("%q needs %q, which is not measured", a.Claim, name)
			}
		}
	}
}

// TestAMeasurementThatFailsLosesNoOther has one fail in its first round, with a figure
// in hand: the others are made in both, and no aim is judged by it.
func TestAMeasurementThatFailsLosesNoOther(t *testing.T) {
	broken, made := errors.New("broken"), 0
	all := []bout{
		{name: "pipeline", run: func(context.Context, string, input) (ratio.Round, error) {
			made++
			return ratio.Round{"pipeline": {Rate: 7}, "inside": {}}, broken
		}},
		{name: "floor", run: func(_ context.Context, dir string, _ input) (ratio.Round, error) {
			return ratio.Round{"floor": {Rate: 14}}, os.Mkdir(filepath.Join(dir, "own"), 0o755)
		}},
	}
	samples := make(map[string][]load.Sample)
	o := options{rounds: 2, pages: 10, only: regexp.MustCompile("")}
	err := measure(t.Context(), t.TempDir(), o, all, samples, t.Logf)
	if !errors.Is(err, broken) || made != 1 {
		t.Errorf("%v, made %d times", err, made)
	}
	if len(samples["floor"]) != 2 || len(samples["pipeline"]) != 1 || len(samples["inside"]) != 0 {
		t.Errorf("%v", samples)
	}
	for _, a := range aims() {
		if v, ok := a.Judge(samples, o.rounds); ok {
			t.Errorf("judged: %v", v)
		}
	}
}

func TestTheCollectionIsSoundAndEachPageOfItsSize(t *testing.T) {
	const pages = 50
	path := filepath.Join(t.TempDir(), "pages.scp.zst")
	if err := writeCollection(path, pages); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := scp.Verify(f, scp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if size := c.Size / pages; c.Pages != pages || size < pageSize*9/10 || size > pageSize*11/10 {
		t.Errorf("%d pages of %d octets", c.Pages, size)
	}
}

func TestTheFloorTakesEveryPage(t *testing.T) {
	const pages = 2000 // more than one frame
	dir := t.TempDir()
	in := input{options: options{pages: pages}, collection: filepath.Join(dir, "pages.scp.zst")}
	if err := writeCollection(in.collection, pages); err != nil {
		t.Fatal(err)
	}
	for _, packed := range []bool{false, true} {
		r, err := floor(t.TempDir(), in, packed)
		if err != nil || len(r) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		in.pages++
		if _, err := floor(t.TempDir(), in, packed); err == nil {
			t.Error("a page less than there should be was taken for all")
		}
		in.pages--
	}
}

func TestFormatsReadWhatWasWritten(t *testing.T) {
	items, _, err := writeSitemap(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := pack(items)
	if err != nil {
		t.Fatal(err)
	}
	if err := readSitemap(packed, sitemapItems); err != nil {
		t.Error(err)
	}
	if err := readSitemap(packed, sitemapItems+1); err == nil {
		t.Error("fewer items than there should be were taken for all")
	}
}
