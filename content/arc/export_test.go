package arc

import (
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

func somePolicy() *Policy {
	var uses preferences.Statement
	uses.State(content.PurposeAITrain, content.No, "here")
	uses.State(content.PurposeSearchIndex, content.Yes, "here")
	return &Policy{Site: base, Updated: noon, RetentionDays: 30, Uses: uses, Rate: 1, Contact: "mailto:a@example.com", Consumers: []string{"ExampleBot"}}
}

func threePages(t testing.TB) []content.Page {
	old := noon.Add(-24 * time.Hour)
	return []content.Page{pageAt(t, "", "home", old), pageAt(t, "a", "words of a", old), pageAt(t, "b/", "words of b", old)}
}

func TestWhatIsWrittenConformsToTheSchema(t *testing.T) {
	dir := t.TempDir()
	c := ExportConfig{Dir: dir, Generated: noon, YAML: true, Policy: somePolicy(), Rate: 1.0 / 3, Contact: "mailto:a@example.com"}
	exportTo(t, c, threePages(t)...)
	c.Generated = noon.Add(time.Hour)
	r := exportTo(t, c, threePages(t)[:2]...)
	schema := theirs(t)
	for _, name := range []string{SitemapFile, r.Delta} {
		text := readFile(t, dir, name)
		found, err := Validate(strings.NewReader(text))
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
		if err := schema(text); err != nil {
			t.Errorf("%s by the text's schema: %v", name, err)
		}
		f, err := os.Open(filepath.Join(dir, name+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(z); err != nil || string(plain) != text {
			t.Errorf("%s.gz is another: %v", name, err)
		}
	}
	j, y := read(readFile(t, dir, SitemapFile), Limits{}), read(readFile(t, dir, YAMLFile), Limits{})
	if len(j.odd)+len(y.odd) > 0 || j.Head != y.Head || len(j.entries) != 2 || len(y.entries) != 2 {
		t.Errorf("JSON and YAML: %q, %q, %+v, %+v", j.odd, y.odd, j.Head, y.Head)
	}
	for i := range j.entries {
		if string(j.entries[i].Line) != string(y.entries[i].Line) {
			t.Errorf("%s is not %s", y.entries[i].Line, j.entries[i].Line)
		}
	}
	set, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	if found, err := violations(set.policy, []byte(readFile(t, dir, ".well-known/arc-policy.json"))); err != nil || len(found) > 0 {
		t.Errorf("policy: %v, %v", found, err)
	}
	if at, err := ReadDescriptor([]byte(readFile(t, dir, DescriptorFile)), "https://x.test/"); err != nil || at != base+SitemapFile {
		t.Errorf("descriptor: %q, %v", at, err)
	}
}

func TestAnARCExportIsDeterministic(t *testing.T) {
	pages := threePages(t)
	one, two := t.TempDir(), t.TempDir()
	for _, x := range []struct {
		dir   string
		pages []content.Page
	}{{one, pages}, {two, []content.Page{pages[2], pages[0], pages[1]}}} {
		c := ExportConfig{Dir: x.dir, Generated: noon, Policy: somePolicy()}
		exportTo(t, c, x.pages...)
		c.Generated = noon.Add(time.Hour)
		exportTo(t, c, append(slices.Clone(x.pages), pageAt(t, "c", "more", noon))...)
	}
	a, b := tree(t, one), tree(t, two)
	if len(a) != 6 || !maps.Equal(a, b) {
		t.Errorf("%d and %d files", len(a), len(b))
	}
}

// tree is the text of all files of a folder.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			all[name] = readFile(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAnExportWritesOnlyWhatHasChanged(t *testing.T) {
	dir := t.TempDir()
	pages := threePages(t)
	at := func(hours int) ExportConfig {
		return ExportConfig{Dir: dir, Generated: noon.Add(time.Duration(hours) * time.Hour)}
	}
	if r := exportTo(t, at(0), pages...); r.Pages != 3 || r.Written != 3 || r.Removed != 0 || r.Delta != "" {
		t.Errorf("the first: %+v", r)
	}
	before := tree(t, dir)
	moved := slices.Clone(pages)
	for i := range moved {
		moved[i].Modified = noon.Add(time.Minute)
	}
	if r := exportTo(t, at(1), moved...); r.Written != 0 || r.Delta != "" || !maps.Equal(tree(t, dir), before) {
		t.Errorf("a rebuild that only moves times: %+v", r)
	}
	edited := slices.Clone(moved)
	edited[1] = pageAt(t, "a", "other words", pages[1].Modified) // a clock that stood still
	if r := exportTo(t, at(2), edited...); r.Written != 1 || r.Delta != "arc-sitemap-deltas/2026-01-02.json" {
		t.Errorf("an edit: %+v", r)
	}
	d := read(readFile(t, dir, "arc-sitemap-deltas/2026-01-02.json"), Limits{})
	if len(d.entries) != 1 || d.entries[0].URL != base+"a" || !d.Since.Equal(noon) || !d.Generated.Equal(noon.Add(2*time.Hour)) {
		t.Fatalf("the delta: %+v", d)
	}
	if m := d.entries[0].Modified; !m.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("a page that changed keeps the time %v", m)
	}
	for _, e := range read(readFile(t, dir, SitemapFile), Limits{}).entries {
		i := slices.IndexFunc(pages, func(p content.Page) bool { return p.URL == e.URL })
		if i != 1 && !e.Modified.Equal(pages[i].Modified) {
			t.Errorf("%s has not changed, and its time moved to %v", e.URL, e.Modified)
		}
	}
	// Another change on the same day, and one that takes a page away.
	if r := exportTo(t, at(3), edited[:2]...); r.Removed != 1 {
		t.Errorf("a removal: %+v", r)
	}
	d = read(readFile(t, dir, "arc-sitemap-deltas/2026-01-02.json"), Limits{})
	if len(d.entries) != 2 || !d.entries[0].Indexable || d.entries[1].URL != base+"b/" || d.entries[1].Indexable || !d.Since.Equal(noon) {
		t.Errorf("the delta of the day: %+v", d)
	}
	// The next day has a delta of its own, and after a month it is gone.
	exportTo(t, at(24), edited...)
	d = read(readFile(t, dir, "arc-sitemap-deltas/2026-01-03.json"), Limits{})
	if len(d.entries) != 1 || !d.Since.Equal(noon.Add(3*time.Hour)) {
		t.Errorf("the next day's delta: %+v", d)
	}
	exportTo(t, at(24*32), edited[:1]...)
	var deltas []string
	for name := range tree(t, dir) {
		if strings.HasPrefix(name, deltaFolder) && !strings.HasSuffix(name, ".gz") {
			deltas = append(deltas, name)
		}
	}
	if slices.Sort(deltas); !slices.Equal(deltas, []string{"arc-sitemap-deltas/2026-02-03.json"}) {
		t.Errorf("deltas %q", deltas)
	}
	// A clock that goes back does not take times with it.
	exportTo(t, at(0), edited...)
	if got := read(readFile(t, dir, SitemapFile), Limits{}).Generated; !got.Equal(noon.Add(24*32*time.Hour + time.Second)) {
		t.Errorf("generated_at went to %v", got)
	}
}

func TestAnExportThatEndedEarlyIsMended(t *testing.T) {
	whole, broken := t.TempDir(), t.TempDir()
	pages := threePages(t)
	edited := append(slices.Clone(pages[:1]), pageAt(t, "a", "other words", noon))
	for _, dir := range []string{whole, broken} {
		exportTo(t, ExportConfig{Dir: dir, Generated: noon}, pages...)
	}
	later := ExportConfig{Generated: noon.Add(time.Hour)}
	later.Dir = whole
	exportTo(t, later, edited...)
	for _, keep := range []string{"arc-sitemap-deltas/2026-01-02.json.gz", "arc-sitemap-deltas/2026-01-02.json", SitemapFile + ".gz"} {
		// Up to here the export has come, and left its traces.
		writeFile(t, readFile(t, whole, keep), broken, keep)
		writeFile(t, "half", broken, ".arc-123")
		writeFile(t, "", broken, markFile)
	}
	later.Dir = broken
	exportTo(t, later, edited...)
	if a, b := tree(t, whole), tree(t, broken); !maps.Equal(a, b) {
		t.Errorf("%q and %q", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	}
}

func TestAnExportTouchesNothingElse(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, "mine", dir, "mine.txt")
	if _, err := OpenExport(ExportConfig{Dir: dir, BaseURL: base, Generated: noon}); !errors.Is(err, ErrNotExport) {
		t.Errorf("a folder with something else: %v", err)
	}
	for name, c := range map[string]ExportConfig{
		"no slash": {BaseURL: "https://example.com", Generated: noon}, "a query": {BaseURL: base + "?a/", Generated: noon}, "no time": {BaseURL: base},
	} {
		c.Dir = t.TempDir()
		if _, err := OpenExport(c); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	out := t.TempDir()
	exportTo(t, ExportConfig{Dir: out, Generated: noon}, threePages(t)...)
	writeFile(t, "mine", out, "mine", "arc-sitemap.yaml")
	writeFile(t, "mine", out, ".well-known", "security.txt")
	exportTo(t, ExportConfig{Dir: out, Generated: noon.Add(time.Hour)}, threePages(t)[:1]...)
	if all := tree(t, out); all["mine/arc-sitemap.yaml"] != "mine" || all[".well-known/security.txt"] != "mine" {
		t.Errorf("files of others are gone: %q", slices.Sorted(maps.Keys(all)))
	}
}

func TestWhatIsNotForAllIsLeftOut(t *testing.T) {
	arcPage := func(members ...string) content.Page {
		e := mustEntry(t, entryOf("x", members...))
		return content.Page{URL: e.URL, Format: content.FormatARC, Payload: e.Line, Modified: noon}
	}
	dir := t.TempDir()
	r := exportTo(t, ExportConfig{Dir: dir, Generated: noon}, arcPage(`"ai_tags":["sensitive"]`, `"ai_snapshot":{"content":"secret"}`))
	if len(r.Withheld) != 1 || strings.Contains(readFile(t, dir, SitemapFile), "x") && strings.Contains(readFile(t, dir, SitemapFile), "secret") {
		t.Errorf("%+v", r)
	}
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"an address": {"write to jo.doe@example.org", 1}, "a card": {"4111 1111 1111 1111", 1},
		"a number that is no card": {"4111 1111 1111 1112", 0}, "an at sign": {"a @ b", 0}, "a date": {"2026-01-02 12:00", 0},
	} {
		r := exportTo(t, ExportConfig{Dir: t.TempDir(), Generated: noon}, pageAt(t, "a", tt.text, noon))
		if len(r.Personal) != tt.want {
			t.Errorf("%s: %q", name, r.Personal)
		}
	}
}

func TestWithoutSnapshotsAgentsReadThePages(t *testing.T) {
	dir := t.TempDir()
	html := pageHTML("Title of a", "words of a")
	r := exportTo(t, ExportConfig{Dir: dir, Generated: noon, Summaries: true}, pageAt(t, "a", "words of a", noon))
	if text := readFile(t, dir, SitemapFile); strings.Contains(text, "ai_snapshot") || !strings.Contains(text, Checksum([]byte(html))) || len(r.Lost) != 1 {
		t.Errorf("%s\n%v", text, r.Lost)
	}
	writeFile(t, html, dir, "a.html")
	s, err := NewSource(SourceConfig{Location: dir, Dir: t.TempDir(), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := runSource(t, s, nil); got.err != nil || !strings.Contains(string(got.pages[base+"a"].Payload), `"content":"words of a"`) {
		t.Errorf("%v, %v, skipped %v", got.err, got.pages, got.skipped)
	}
}

// A served export is followed by its deltas, and the sitemap as a whole is asked
// for only once a day, or where they do not lead on.
func TestDeltasStandInForTheSitemap(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var asked []string
	h := &Handler{Dir: root, Served: func(r *http.Request, status int) {
		if r.URL.Path != "/robots.txt" && r.URL.Path != PolicyPath && status != http.StatusNotFound {
			asked = append(asked, filepath.Base(r.URL.Path)+" "+http.StatusText(status))
		}
	}}
	server := httptest.NewServer(h)
	defer server.Close()
	w := &web{t: t, server: server, dir: t.TempDir(), now: noon}
	s := w.source(func(c *SourceConfig) { c.BaseURL = base })
	k := known{}
	hours := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	step := func(name string, at, pages, changed int, want ...string) {
		t.Helper()
		w.now, asked = hours(at), nil
		r := w.run(s, k)
		if r.err != nil || len(r.pages) != pages || len(r.pages)-r.unchanged != changed {
			t.Errorf("%s: %v, %d pages, %d changed", name, r.err, len(r.pages), len(r.pages)-r.unchanged)
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%s: answered %q, want %q", name, asked, want)
		}
	}
	export := func(at int, pages ...content.Page) {
		exportTo(t, ExportConfig{Dir: dir, Generated: hours(at)}, pages...)
	}
	pages := threePages(t)
	export(0, pages...)
	step("the first reading", 0, 3, 3, "arc-sitemap.json OK")
	step("nothing has changed", 1, 3, 0, "arc-sitemap.json Not Modified")
	edited := append(slices.Clone(pages[:2]), pageAt(t, "c", "new", hours(2)))
	export(2, edited...)
	step("one page is gone, and one is new", 2, 3, 1, "2026-01-02.json OK")
	step("nothing has changed since", 3, 3, 0, "2026-01-02.json Not Modified")
	export(4, edited[:2]...)
	export(13, append(edited[:2:2], pageAt(t, "d", "next day", hours(13)))...)
	step("changes of two days at once", 14, 3, 1, "2026-01-02.json OK", "2026-01-03.json OK")
	step("the day after", 15, 3, 0, "2026-01-03.json Not Modified")
	step("once a day, the whole", 30, 3, 0, "arc-sitemap.json OK")
	step("and not again", 31, 3, 0, "2026-01-03.json OK")
	// A gap: the delta that leads on from what is held is lost.
	export(40, edited[:2]...)
	export(41, pages...)
	if err := os.Remove(filepath.Join(dir, deltaFile(hours(40)))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, deltaFile(hours(40))+".gz")); err != nil {
		t.Fatal(err)
	}
	export(42, edited[:2]...)
	step("a gap between the deltas", 42, 2, 0, "2026-01-03.json Not Modified", "2026-01-04.json OK", "arc-sitemap.json OK")
	// Deltas that cannot be followed.
	export(43, pages...)
	name := deltaFile(hours(43))
	whole := readFile(t, dir, name)
	if err := os.Remove(filepath.Join(dir, name+".gz")); err != nil {
		t.Fatal(err)
	}
	for why, change := range map[string][2]string{
		"an entry that cannot be used":       {`"ai_indexable"`, `"x"`},
		"it does not say where it begins":    {`"delta_since"`, `"x"`},
		"it is of another site":              {`"` + base + `"`, `"https://elsewhere.test/"`},
		"it begins later than what is held":  {`"delta_since"`, `"delta_since":"2026-02-01T00:00:00Z","x"`},
		"it is broken":                       {`]`, ``},
		"it is of a version that is unknown": {`"2.1"`, `"3.0"`},
	} {
		other := strings.ReplaceAll(whole, change[0], change[1])
		if other == whole {
			t.Fatalf("%s: %s is not in the delta", why, change[0])
		}
		writeFile(t, other, dir, name)
		w.now, asked = hours(43), nil
		if r := w.run(s, k); r.err != nil || !slices.Contains(asked, "arc-sitemap.json OK") && !slices.Contains(asked, "arc-sitemap.json Not Modified") {
			t.Errorf("%s: %v, %q", why, r.err, asked)
		}
	}
}
