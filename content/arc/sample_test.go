package arc

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// story is a text of many words.
func story(about string) string {
	var words []string
	for i := range 30 {
		words = append(words, fmt.Sprintf("%s%d", about, i))
	}
	return strings.Join(words, " ")
}

func TestASampleOfSnapshotsIsHeldAgainstTheirPages(t *testing.T) {
	w := newWeb(t)
	honest := w.page("/honest", story("plum"))
	w.page("/edited", story("pear")+" and more")
	w.page("/liar", story("apple"))
	other := w.page("/sum", story("quince"))
	snapshot := func(about string) string { return `"ai_snapshot":{"title":"T","content":"` + story(about) + `"}` }
	sum := func(html string) string { return `"ai_checksum":"` + Checksum([]byte(html)) + `"` }
	entries := []string{
		w.entry("/honest", sum(honest), snapshot("plum")), w.entry("/edited", snapshot("pear")), w.entry("/liar", snapshot("gold")),
		w.entry("/sum", sum(other+" "), snapshot("quince")), w.entry("/short", `"ai_snapshot":{"title":"Short","content":"words"}`),
		w.entry("/missing", snapshot("fig")),
	}
	w.page("/short", "nothing alike")
	w.sitemap(entries...)
	k := known{}
	s := w.source(func(c *SourceConfig) { c.Sample = 100 })
	r := w.run(s, k)
	if r.err != nil || len(r.pages) != 6 {
		t.Fatalf("%v, %d pages: a sample changes what is offered", r.err, len(r.pages))
	}
	told := strings.Join(s.Told().Warnings, "\n")
	for path, says := range map[string]string{"/liar": errOtherWords.Error(), "/sum": ErrChecksum.Error(), "/missing": "404"} {
		if !slices.ContainsFunc(s.Told().Warnings, func(line string) bool { return strings.Contains(line, path) && strings.Contains(line, says) }) {
			t.Errorf("%s is not told of, by %q:\n%s", path, says, told)
		}
	}
	for _, path := range []string{"/honest", "/edited", "/short"} {
		if strings.Contains(told, path) {
			t.Errorf("%s is told of:\n%s", path, told)
		}
	}
	w.since()
	if r := w.run(s, k); r.err != nil || r.unchanged != 6 || strings.Contains(w.since(), "/liar") {
		t.Errorf("where nothing has changed: %v, %d unchanged", r.err, r.unchanged)
	}
	// It is as large as was asked for, and the same for the same sitemap.
	var asked []string
	for range 2 {
		w.since()
		few := w.source(func(c *SourceConfig) { c.Sample, c.Dir = 2, t.TempDir() })
		w.run(few, known{})
		asked = append(asked, w.since())
	}
	pages := 0
	for _, path := range []string{"/honest", "/edited", "/liar", "/sum", "/short", "/missing"} {
		pages += strings.Count(asked[0], path)
	}
	if pages != 2 || asked[0] != asked[1] {
		t.Errorf("a sample of two asks for %q, and then for %q", asked[0], asked[1])
	}
}
