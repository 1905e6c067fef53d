package scp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

func source(t *testing.T, c SourceConfig) *Source {
	t.Helper()
	s, err := NewSource(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// contents reads a source: the last part of a URL → words.
func contents(t *testing.T, s *Source) map[string]string {
	t.Helper()
	all, _ := read(t, s)
	return all
}

// read reads a source, and what it skipped.
func read(t *testing.T, s *Source) (all map[string]string, skipped []string) {
	t.Helper()
	all = make(map[string]string)
	last := ""
	for p, err := range s.Pages(t.Context(), nil, func(k content.Skipped) { skipped = append(skipped, k.Location+": "+k.Reason) }) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Location <= last || Check(p.Payload, p.URL) != nil || p.Format != content.FormatSCP || p.SourceHash != p.Digest {
			t.Errorf("page %+v behind %s", p, last)
		}
		last = p.Location
		again, err := s.Fetch(t.Context(), p.Location)
		if err != nil || string(again.Payload) != string(p.Payload) {
			t.Errorf("%s once more: %v", p.Location, err)
		}
		line, err := ParsePage(p.Payload)
		if err != nil {
			t.Fatal(err)
		}
		all[p.URL[strings.LastIndexByte(p.URL, '/')+1:]] = line.Text()
	}
	return all, skipped
}

func words(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func page(name, text string, modified time.Time) []byte {
	return line("https://example.com/"+name, text, modified)
}

func TestAFolderOfCollectionsIsASource(t *testing.T) {
	dir, now := t.TempDir(), noon.Add(10*time.Hour)
	s := source(t, SourceConfig{Location: dir, Dir: t.TempDir(), Now: func() time.Time { return now }})
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	expect := func(step string, want map[string]string) {
		t.Helper()
		if got := contents(t, s); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	put(t, dir, "z.scp.zst", string(packed(t, Zstd, file(snapshot(noon), page("a", "1", noon), page("b", "1", noon)))))
	expect("a snapshot", words("a", "1", "b", "1"))
	put(t, dir, "y.scp", string(file(delta(noon, noon.Add(time.Hour)), page("b", "2", noon.Add(time.Hour)), page("c", "1", noon.Add(time.Hour)))))
	expect("a delta", words("a", "1", "b", "2", "c", "1"))
	put(t, dir, "x.scp.gz", string(packed(t, Gzip, file(delta(noon.Add(time.Hour), noon.Add(2*time.Hour)), page("b", "too old", noon), page("a", "same time", noon)))))
	expect("a delta of older pages", words("a", "1", "b", "2", "c", "1"))
	if err := os.Remove(filepath.Join(dir, "y.scp")); err != nil {
		t.Fatal(err)
	}
	expect("a delta that is gone has been applied all the same", words("a", "1", "b", "2", "c", "1"))
	put(t, dir, "w.scp", string(file(snapshot(noon.Add(3*time.Hour)), page("a", "1", noon), page("c", "1", noon.Add(time.Hour)))))
	expect("a newer snapshot shows what was deleted", words("a", "1", "c", "1"))
	put(t, dir, "w.scp", string(file(snapshot(noon.Add(3*time.Hour)), page("a", "3", noon))))
	expect("a file that was replaced under its name and time", words("a", "3"))
	put(t, dir, "v.scp", string(file(snapshot(now.Add(time.Hour)), page("f", "1", noon))))
	expect("a snapshot from the future", words("a", "3"))
	other := snapshot(noon.Add(time.Hour))
	other.Section = "blog"
	put(t, dir, "u.scp", string(file(other, page("a", "blog", noon.Add(-time.Hour)), page("p", "1", noon))))
	expect("another section deletes nothing of the first", words("a", "3", "p", "1"))
}

func TestAPageOfADeltaSurvivesASnapshotFromBeforeIt(t *testing.T) {
	dir, now := t.TempDir(), noon.Add(10*time.Hour)
	s := source(t, SourceConfig{Location: dir, Dir: t.TempDir(), Now: func() time.Time { return now }})
	put(t, dir, "a.scp", string(file(snapshot(noon), page("a", "1", noon), page("b", "1", noon))))
	put(t, dir, "b.scp", string(file(delta(noon, noon.Add(3*time.Hour)), page("c", "1", noon.Add(3*time.Hour)))))
	if got := contents(t, s); !maps.Equal(got, words("a", "1", "b", "1", "c", "1")) {
		t.Fatalf("%v", got)
	}
	put(t, dir, "c.scp", string(file(snapshot(noon.Add(2*time.Hour)), page("a", "1", noon))))
	now = now.AddDate(0, 0, 8)
	if got := contents(t, s); !maps.Equal(got, words("a", "1", "c", "1")) {
		t.Errorf("%v, want the page of the later delta, and not the one that the snapshot lacks", got)
	}
}

func TestABrokenCollectionLeavesTheMirrorAsItWas(t *testing.T) {
	dir, mirror, now := t.TempDir(), t.TempDir(), noon.Add(10*time.Hour)
	c := SourceConfig{Location: dir, Dir: mirror, Now: func() time.Time { return now }}
	s := source(t, c)
	put(t, dir, "a.scp", string(file(snapshot(noon), page("a", "1", noon))))
	before := contents(t, s)
	state, err := os.ReadDir(mirror)
	if err != nil {
		t.Fatal(err)
	}
	whole := write(t, delta(noon, noon.Add(time.Hour)), Packing{}, page("a", "2", noon.Add(time.Hour)), page("b", "2", noon.Add(time.Hour)))
	for name, text := range map[string]string{
		"a line is no JSON":    string(whole[:len(whole)-1]),
		"a checksum is wrong":  strings.Replace(string(whole), `"2"`, `"3"`, 1),
		"the last has no url":  string(file(delta(noon, noon.Add(time.Hour)), page("a", "2", noon.Add(time.Hour)), []byte(`{}`))),
		"it is cut off packed": string(packed(t, Gzip, whole)[:200]),
	} {
		put(t, dir, "d.scp", text)
		got, skipped := read(t, s)
		if !maps.Equal(got, before) || len(skipped) == 0 || !strings.Contains(strings.Join(skipped, " "), "rejected") {
			t.Errorf("%s: %v, told %q", name, got, skipped)
		}
		now = now.Add(2 * time.Hour) // what was rejected is left alone for an hour
	}
	after, err := os.ReadDir(mirror)
	if err != nil || len(after) != len(state) {
		t.Errorf("%d files in the mirror, before %d (%v)", len(after), len(state), err)
	}
	put(t, dir, "d.scp", string(whole))
	if got := contents(t, s); !maps.Equal(got, words("a", "2", "b", "2")) {
		t.Errorf("when it is whole: %v", got)
	}
	s.Close()
	now = now.Add(time.Hour)
	if got := contents(t, source(t, c)); !maps.Equal(got, words("a", "2", "b", "2")) {
		t.Errorf("after a restart: %v", got)
	}
}

func TestADamagedMirrorIsReadAnew(t *testing.T) {
	dir, mirror := t.TempDir(), t.TempDir()
	c := SourceConfig{Location: dir, Dir: mirror, Now: func() time.Time { return noon }}
	put(t, dir, "a.scp", string(file(snapshot(noon), page("a", "1", noon))))
	contents(t, source(t, c))
	for _, state := range []string{"", "{", `{"version":"scp-mirror/1"}`, `{"version":"scp-mirror/2","layers":[{"name":"../x"}]}`, `{"version":"scp-mirror/2","layers":[{"name":"gone"}]}`} {
		put(t, mirror, "state.json", state)
		if got := contents(t, source(t, c)); !maps.Equal(got, words("a", "1")) {
			t.Errorf("state %q: %v", state, got)
		}
	}
}

func TestWhatIsKnownIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.scp", string(file(snapshot(noon), page("a", "1", noon), page("b", "1", noon))))
	s := source(t, SourceConfig{Location: filepath.Join(dir, "a.scp"), Dir: t.TempDir(), Now: func() time.Time { return noon }})
	a, err := ParsePage(page("a", "1", noon))
	if err != nil {
		t.Fatal(err)
	}
	known := func(location string) ([32]byte, bool) { return a.Digest(), location == a.URL }
	for p, err := range s.Pages(t.Context(), known, nil) {
		if err != nil || p.Unchanged != (p.URL == a.URL) || p.Unchanged != (p.Payload == nil) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if _, err := s.Fetch(t.Context(), "https://example.com/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a page that is not there: %v", err)
	}
}

func TestASourceThatCannotBeReadYieldsNoPage(t *testing.T) {
	empty := t.TempDir()
	broken := filepath.Join(t.TempDir(), "a.scp")
	put(t, filepath.Dir(broken), "a.scp", goodMeta+"\n{")
	for _, location := range []string{empty, broken, filepath.Join(empty, "none.scp")} {
		s := source(t, SourceConfig{Location: location, Dir: t.TempDir(), Now: func() time.Time { return noon }})
		n := 0
		for p, err := range s.Pages(t.Context(), nil, nil) {
			if n++; err == nil {
				t.Errorf("%s gives %s", location, p.URL)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d errors", location, n)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	put(t, dir, "a.scp", string(file(snapshot(noon), page("a", "1", noon))))
	s := source(t, SourceConfig{Location: dir, Dir: t.TempDir(), Now: func() time.Time { return noon }})
	for _, err := range s.Pages(stopped, nil, nil) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
	}
}

func TestALayerSurvivesItsRefreshWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	now := noon
	s := source(t, SourceConfig{Location: dir, Dir: t.TempDir(), Now: func() time.Time { return now }})
	var lines [][]byte
	for i := range 1000 {
		lines = append(lines, page(fmt.Sprintf("%04d", i), strings.Repeat("x", 200), noon))
	}
	put(t, dir, "a.scp", string(file(snapshot(noon), lines...)))
	n := 0
	for p, err := range s.Pages(t.Context(), nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			now = now.Add(time.Hour)
			put(t, dir, "b.scp", string(file(snapshot(now), lines[0])))
			if got := contents(t, s); len(got) != 1 {
				t.Errorf("another reader sees %d pages", len(got))
			}
		}
		if want := fmt.Sprintf("https://example.com/%04d", n-1); p.URL != want {
			t.Fatalf("page %d is %s", n, p.URL)
		}
	}
	if n != 1000 {
		t.Errorf("%d pages", n)
	}
}

func TestAQuotaIsKept(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.scp", string(file(snapshot(noon), page("a", "1", noon))))
	put(t, dir, "b.scp", string(file(delta(noon, noon.Add(time.Minute)), page("b", strings.Repeat("x", 5000), noon))))
	s := source(t, SourceConfig{Location: dir, Dir: t.TempDir(), Quota: 3000, Now: func() time.Time { return noon.Add(time.Hour) }})
	got, skipped := read(t, s)
	if !maps.Equal(got, words("a", "1")) || !strings.Contains(strings.Join(skipped, " "), "limit") {
		t.Errorf("%v, told %q", got, skipped)
	}
}

func TestAnIndexerChecksWhatASourceGives(t *testing.T) {
	p, err := ParsePage(page("a", "1", noon))
	if err != nil {
		t.Fatal(err)
	}
	c := p.Content()
	if err := tct.Check(c.Payload, c.URL); err == nil {
		t.Error("a page line passes for a TCT payload")
	}
}
