package arc

import (
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

func TestOnlyWhatHasChangedIsFetched(t *testing.T) {
	w := newWeb(t)
	a, b := w.page("/a", "first"), w.page("/b", "second")
	w.page("/c", "third")
	w.page("/d", "fourth")
	sum := func(html string) string { return `"ai_checksum":"` + Checksum([]byte(html)) + `"` }
	entries := []string{
		w.entry("/a", sum(a), `"lastmod":"2026-01-01T00:00:00Z"`),               // by its checksum
		w.entry("/b", sum(b), `"ai_snapshot":{"title":"B","content":"second"}`), // nothing is fetched
		w.entry("/c", `"lastmod":"2026-01-01T00:00:00Z"`),                       // by its time
		w.entry("/d"), // only its server knows
	}
	w.sitemap(entries...)
	k := known{}
	s := w.source(nil)
	r := w.run(s, k)
	if r.err != nil || len(r.pages) != 4 || r.unchanged != 0 || len(r.skipped) != 0 {
		t.Fatalf("%v, %d pages, skipped %v", r.err, len(r.pages), r.skipped)
	}
	if !slices.IsSorted(r.order) {
		t.Errorf("the order is %q", r.order)
	}
	steps := func(name, asked string, changed ...string) {
		t.Helper()
		w.since()
		r := w.run(s, k)
		var got []string
		for u, p := range r.pages {
			if !p.Unchanged {
				got = append(got, strings.TrimPrefix(u, w.server.URL))
			}
		}
		slices.Sort(got)
		if r.err != nil || len(r.skipped) != 0 || len(r.pages) != 4 || !slices.Equal(got, changed) {
			t.Errorf("%s: %v, changed %q, want %q; skipped %v", name, r.err, got, changed, r.skipped)
		}
		if got := w.since(); got != asked {
			t.Errorf("%s: asked for %q, want %q", name, got, asked)
		}
	}
	const sitemap = "/arc-sitemap-deltas/2026-01-02.json, /arc-sitemap.json if"
	steps("nothing has changed", sitemap+", /d if")
	s.Close()
	s = w.source(nil)
	steps("after a restart", sitemap+", /d if")
	w.page("/d", "fourth, changed")
	steps("a page changes that only its server knows of", sitemap+", /d if", "/d")
	w.sitemap(append(slices.Clone(entries[:2]), w.entry("/c", `"lastmod":"2026-01-02T00:00:00Z"`), entries[3])...)
	steps("a time moves and the page has not", sitemap+", /c if, /d if")
	w.sitemap(w.entry("/a", sum(a), `"lastmod":"2026-01-02T00:00:00Z"`), entries[1], entries[2], entries[3])
	steps("a rebuild moves only lastmod", sitemap+", /c if, /d if")
	changed := w.page("/a", "first, changed")
	w.sitemap(w.entry("/a", sum(changed)), entries[1], entries[2], entries[3])
	steps("a checksum changes", sitemap+", /a, /d if", "/a")
	w.sitemap(w.entry("/a", sum(changed)), w.entry("/b", `"ai_snapshot":{"title":"B","content":"anew"}`), entries[2], entries[3])
	steps("a snapshot changes", sitemap+", /d if", "/b")
	k = known{}
	w.since()
	w.run(s, k)
	if got := w.since(); got != sitemap+", /a, /c, /d" {
		t.Errorf("a caller that has forgotten all: asked for %q", got)
	}
}

func TestAPageIsTakenOnlyIfItsChecksumHolds(t *testing.T) {
	w := newWeb(t)
	good := w.page("/good", "words")
	w.page("/other", "other words than were hashed")
	latin := "<html><head><meta charset=iso-8859-1><title>caf\xe9</title><p>caf\xe9"
	w.serve("/latin", "text/html; charset=iso-8859-1", latin)
	stale := pageHTML("Stale", "new words")
	asked := 0
	w.handle("/stale", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		if asked++; r.Header.Get("Cache-Control") == "no-cache" {
			rw.Write([]byte(stale))
			return
		}
		rw.Write([]byte(pageHTML("Stale", "old words")))
	})
	sum := func(html string) string { return `"ai_checksum":"` + Checksum([]byte(html)) + `"` }
	w.sitemap(
		w.entry("/good", sum(good)), w.entry("/other", sum(good)), w.entry("/stale", sum(stale)),
		w.entry("/latin", sum("<html><head><meta charset=iso-8859-1><title>café</title><p>café")),
	)
	r := w.run(w.source(nil), nil)
	if r.err != nil || len(r.pages) != 3 || asked != 2 {
		t.Errorf("%v: %q, skipped %v; a stale copy was asked for %d times", r.err, slices.Sorted(maps.Keys(r.pages)), r.skipped, asked)
	}
	if k := r.skipped[w.url("/other")]; !errors.Is(k.Err, ErrChecksum) {
		t.Errorf("a page that is another: %v", k.Err)
	}
	p := r.pages[w.url("/good")]
	if FormatChecksum(p.HTMLChecksum) != Checksum([]byte(good)) || p.Title != "Title of /good" || p.Language != "en" || p.Format != content.FormatARC {
		t.Errorf("%+v", p)
	}
	if err := Check(p.Payload, p.URL); err != nil {
		t.Error(err)
	}
	if title := r.pages[w.url("/latin")].Title; title != "café" {
		t.Errorf("the page in Latin-1 is called %q", title)
	}
}

func TestAPageWithoutASnapshotGetsOneOfItsHTML(t *testing.T) {
	w := newWeb(t)
	w.serve("/form", "text/html", `<html lang=de><head><title>Sign up</title><meta name=content-usage content="train-ai=n"></head>
<body data-ai-summary="  Collects an
 address. " data-ai-tags="signup, account"><form data-ai-intent="register_user" data-ai-fields="email"><p>Words</form><p data-aiother=x></body>`)
	w.serve("/closed", "text/html", `<body data-ai-indexable="FALSE"><p>Words`)
	w.serve("/secret", "text/html", `<body data-ai-tags="sensitive"><p>Words`)
	w.serve("/robots", "text/html", `<meta name=robots content=noindex><p>Words`)
	w.handle("/header", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		rw.Header().Set("X-Robots-Tag", "otherbot: noindex")
	})
	w.handle("/gone", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusGone) })
	w.handle("/login", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) })
	w.serve("/image", "image/png", "x")
	w.sitemap(w.entry("/form"), w.entry("/closed"), w.entry("/secret"), w.entry("/robots"), w.entry("/header"), w.entry("/gone"), w.entry("/login"),
		w.entry("/image"), w.entry("/missing"), w.entry("/auth", `"auth_required":true`))
	r := w.run(w.source(nil), nil)
	if r.err != nil || len(r.pages) != 1 {
		t.Fatalf("%v, %d pages", r.err, len(r.pages))
	}
	p := r.pages[w.url("/form")]
	e := mustEntry(t, string(p.Payload))
	if p.Title != "Sign up" || p.Language != "de" || e.Summary != "Collects an address." || !slices.Equal(e.Tags, []string{"signup", "account"}) {
		t.Errorf("%s", p.Payload)
	}
	const elements = `"elements":[{"data":{"summary":"  Collects an\n address. ","tags":"signup, account"},"element":"body"},{"data":{"fields":"email","intent":"register_user"},"element":"form"}]`
	if !strings.Contains(string(p.Payload), elements) || !strings.Contains(string(p.Payload), `"content":"Words"`) {
		t.Errorf("%s", p.Payload)
	}
	if a, _ := p.Preferences.About(content.PurposeAITrain); a != content.No {
		t.Error("the page's own preference is lost")
	}
	for path, withdrawn := range map[string]bool{
		"/closed": true, "/secret": true, "/robots": true, "/header": true, "/gone": true, "/auth": true, "/login": false, "/image": false, "/missing": false,
	} {
		if k, ok := r.skipped[w.url(path)]; !ok || (k.Err == nil) != withdrawn {
			t.Errorf("%s: %+v", path, k)
		}
	}
	if asked := w.since(); strings.Contains(asked, "/auth") || strings.Count(asked, "/login") != 1 {
		t.Errorf("asked for %s", asked)
	}
}

func TestABrokenSitemapLeavesTheMirrorAsItWas(t *testing.T) {
	w := newWeb(t)
	snapshot := `"ai_snapshot":{"content":"words"}`
	w.sitemap(w.entry("/a", snapshot), w.entry("/b", snapshot))
	s := w.source(nil)
	if r := w.run(s, nil); r.err != nil || len(r.pages) != 2 {
		t.Fatalf("%v, %d pages", r.err, len(r.pages))
	}
	before := readFile(t, w.dir, "state.json")
	for name, text := range map[string]string{
		"cut off":         sitemapOf(entryOf("a"))[:150],
		"another version": strings.Replace(sitemapOf(), `"2.1"`, `"3.0"`, 1),
		"a page of HTML":  "<!DOCTYPE html><p>Sorry",
		"nothing":         "",
	} {
		w.serve("/arc-sitemap.json", "application/json", text)
		if r := w.run(s, nil); r.err == nil || len(r.pages) != 0 {
			t.Errorf("%s: %v, %d pages", name, r.err, len(r.pages))
		}
		if readFile(t, w.dir, "state.json") != before {
			t.Errorf("%s: the mirror has changed", name)
		}
		if p, err := s.Fetch(t.Context(), w.url("/a")); err != nil || p.URL != w.url("/a") {
			t.Errorf("%s: a page that is held: %v", name, err)
		}
	}
	// One entry that is broken keeps what was of it, round after round.
	w.sitemap(w.entry("/a", snapshot), w.entry("/b", `"ai_summary":7`))
	for range 2 {
		r := w.run(s, nil)
		if k := r.skipped[w.url("/b")]; r.err != nil || len(r.pages) != 1 || k.Err == nil {
			t.Errorf("%v, %d pages, %+v", r.err, len(r.pages), k)
		}
	}
	// A mirror that was damaged is begun anew.
	s.Close()
	files, err := filepath.Glob(filepath.Join(w.dir, "entries-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := os.Truncate(files[0], 50); err != nil {
		t.Fatal(err)
	}
	if r := w.run(w.source(nil), nil); r.err != nil || len(r.pages) != 1 {
		t.Errorf("after damage: %v, %d pages", r.err, len(r.pages))
	}
}

func TestAPageIsListedOnce(t *testing.T) {
	w := newWeb(t)
	w.sitemap(
		w.entry("/a", `"ai_snapshot":{"content":"first"}`), w.entry("/a", `"ai_snapshot":{"content":"second"}`),
		w.entry("/b", `"ai_snapshot":{"content":"open"}`), strings.Replace(w.entry("/b"), "true", "false", 1),
	)
	s := w.source(nil)
	r := w.run(s, nil)
	if r.err != nil || len(r.pages) != 1 || !strings.Contains(string(r.pages[w.url("/a")].Payload), "first") {
		t.Errorf("%v, %v", r.err, r.pages)
	}
	if k, ok := r.skipped[w.url("/b")]; !ok || k.Err != nil {
		t.Errorf("who is denied by one of two entries: %+v", k)
	}
	if told := strings.Join(s.Told().Warnings, "\n"); strings.Count(told, "listed twice") != 2 {
		t.Errorf("told %q", told)
	}
}

func TestRobotsAndPolicyAreRespected(t *testing.T) {
	w := newWeb(t)
	w.page("/open", "words")
	w.page("/closed/x", "words")
	w.sitemap(w.entry("/open"), w.entry("/closed/x"), w.entry("/closed/y", `"ai_snapshot":{"content":"words"}`))
	w.serve("/robots.txt", "text/plain", "User-agent: *\nDisallow: /closed/\nContent-Signal: ai-train=no\n")
	w.serve(PolicyPath, "application/json", `{"arc_policy_version":"1","retention":{"max_days":30},"access":{"uses":{"search":true,"ai-input":false}},"approved_consumers":["ExampleBot"]}`)
	s := w.source(nil)
	r := w.run(s, nil)
	if k := r.skipped[w.url("/closed/x")]; r.err != nil || len(r.pages) != 2 || k.Reason == "" || k.Err != nil {
		t.Errorf("%v, %d pages, %+v", r.err, len(r.pages), k)
	}
	if asked := w.since(); strings.Contains(asked, "/closed/x") {
		t.Errorf("asked for %s", asked)
	}
	told := s.Told()
	for purpose, want := range map[string]content.Answer{
		content.PurposeAITrain: content.No, content.PurposeRAGRetrieve: content.No, content.PurposeAISummarise: content.No,
		content.PurposeSearchIndex: content.Yes, content.PurposeArchive: content.Unknown,
	} {
		if a, by := told.Preferences.About(purpose); a != want {
			t.Errorf("%s: %v, by %v", purpose, a, by)
		}
	}
	if all := strings.Join(told.Preferences.Lines(), "\n"); !strings.Contains(all, "30 days") || !strings.Contains(all, "ExampleBot") {
		t.Errorf("told %q", all)
	}
	w.serve(PolicyPath, "application/json", `{"access":`)
	if r := w.run(s, nil); !errors.Is(r.err, ErrPolicy) {
		t.Errorf("a policy that cannot be read: %v", r.err)
	}
	w.handle(PolicyPath, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) })
	if r := w.run(s, nil); r.err == nil {
		t.Error("a policy that is kept back is passed over")
	}
	w.handle(PolicyPath, nil)
	w.serve("/robots.txt", "text/plain", "User-agent: *\nDisallow: /\n")
	if r := w.run(s, nil); !errors.Is(r.err, ErrNotOffered) {
		t.Errorf("a sitemap that is disallowed: %v", r.err)
	}
	ignoring := w.source(func(c *SourceConfig) { c.IgnoreRobots, c.Dir = true, t.TempDir() })
	if r := w.run(ignoring, nil); r.err != nil || len(r.pages) != 3 {
		t.Errorf("one's own site: %v, %d pages", r.err, len(r.pages))
	}
}

func TestASuggestedRateIsFollowed(t *testing.T) {
	for name, suggest := range map[string]func(w *web, sitemap string){
		"by the policy": func(w *web, sitemap string) {
			w.serve("/arc-sitemap.json", "application/json", sitemap)
			w.serve(PolicyPath, "application/json", `{"arc_policy_version":"1","access":{"crawl_rate":"20/s"}}`)
		},
		"by the sitemap": func(w *web, sitemap string) {
			w.serve("/arc-sitemap.json", "application/json", strings.Replace(sitemap, "{", `{"crawl_rate":"20/s",`, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t)
			var entries []string
			for _, path := range []string{"/1", "/2", "/3", "/4", "/5"} {
				w.page(path, "words")
				entries = append(entries, w.entry(path))
			}
			suggest(w, strings.ReplaceAll(sitemapOf(entries...), "https://example.com", w.server.URL))
			s := w.source(nil)
			began := time.Now()
			if r := w.run(s, nil); r.err != nil || len(r.pages) != 5 {
				t.Fatalf("%v, %d pages", r.err, len(r.pages))
			}
			// Five pages and what comes before them, a twentieth of a second apart.
			if took := time.Since(began); took < 200*time.Millisecond {
				t.Errorf("five requests at 20/s took %v", took)
			}
		})
	}
}

func TestASourceIsFoundFromAPage(t *testing.T) {
	snapshot := `"ai_snapshot":{"content":"words"}`
	for name, prepare := range map[string]func(w *web){
		"by robots.txt": func(w *web) {
			w.serve("/robots.txt", "text/plain", "Sitemap: "+w.url("/sitemap.xml")+"\nSitemap: "+w.url("/x/arc-sitemap.json")+"\n")
			w.serve("/x/arc-sitemap.json", "application/json", strings.ReplaceAll(sitemapOf(entryOf("a", snapshot)), "https://example.com", w.server.URL))
		},
		"at the root": func(w *web) { w.sitemap(w.entry("/a", snapshot)) },
		"at the well-known place": func(w *web) {
			w.sitemap(w.entry("/a", snapshot))
			w.handlers["/.well-known/arc-sitemap.json"], w.handlers["/arc-sitemap.json"] = w.handlers["/arc-sitemap.json"], nil
		},
		"by JSON-LD": func(w *web) {
			w.serve("/x.json", "application/json", strings.ReplaceAll(sitemapOf(entryOf("a", snapshot)), "https://example.com", w.server.URL))
			d, err := Descriptor(w.url("/x.json"))
			if err != nil {
				w.t.Fatal(err)
			}
			w.serve("/home", "text/html", `<html><head><script>1</script><script type="application/ld+json">`+string(d)+"</script>")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t)
			prepare(w)
			s := w.source(func(c *SourceConfig) { c.Location = w.url("/home") })
			for range 2 {
				if r := w.run(s, nil); r.err != nil || len(r.pages) != 1 {
					t.Errorf("%v, %d pages", r.err, len(r.pages))
				}
			}
		})
	}
	w := newWeb(t)
	w.page("/home", "nothing")
	if r := w.run(w.source(func(c *SourceConfig) { c.Location = w.url("/home") }), nil); !errors.Is(r.err, ErrNoSitemap) {
		t.Errorf("a site that tells of none: %v", r.err)
	}
	elsewhere, err := Descriptor("https://elsewhere.test/arc-sitemap.json")
	if err != nil {
		t.Fatal(err)
	}
	w.serve("/arc-sitemap.json", "application/ld+json", string(elsewhere))
	if r := w.run(w.source(nil), nil); !errors.Is(r.err, ErrDescriptor) {
		t.Errorf("a descriptor that leads elsewhere: %v", r.err)
	}
}

func TestAFolderIsASource(t *testing.T) {
	dir := t.TempDir()
	html := pageHTML("B", "words of b")
	writeFile(t, html, dir, "b.html")
	writeFile(t, pageHTML("C", "words of c"), dir, "c", "index.html")
	writeFile(t, pageHTML("Secret", "x"), filepath.Dir(dir), "secret.html")
	if err := os.Symlink("../secret.html", filepath.Join(dir, "link.html")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, sitemapOf(entryOf("a", `"ai_snapshot":{"title":"A","content":"words of a"}`), entryOf("b", `"ai_checksum":`+quoted(Checksum([]byte(html)))),
		entryOf("c/"), entryOf("d"), entryOf("link"), `{"url":"https://elsewhere.test/e","ai_indexable":true,"ai_snapshot":{}}`), dir, SitemapFile)
	writeFile(t, `{"arc_policy_version":"1","access":{"uses":{"train":false}}}`, dir, ".well-known", "arc-policy.json")
	s, err := NewSource(SourceConfig{Location: dir, Dir: t.TempDir(), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	k := known{}
	r := runSource(t, s, k)
	if got := slices.Sorted(maps.Keys(r.pages)); r.err != nil || !slices.Equal(got, []string{base + "a", base + "b", base + "c/"}) {
		t.Fatalf("%v, %q", r.err, got)
	}
	for _, u := range []string{base + "d", base + "link", "https://elsewhere.test/e"} {
		if k := r.skipped[u]; k.Err == nil {
			t.Errorf("%s: %+v", u, k)
		}
	}
	if a, _ := s.Told().Preferences.About(content.PurposeAITrain); a != content.No {
		t.Error("the policy of the folder is not read")
	}
	if again := runSource(t, s, k); again.unchanged != 3 {
		t.Errorf("%d of 3 unchanged", again.unchanged)
	}
	// A file that has been as it is for a while is not read again, and one that is
	// replaced by another of its size is.
	sitemap := filepath.Join(dir, SitemapFile)
	text := readFile(t, sitemap)
	for i, step := range []struct {
		text      string
		unchanged int
		anew      bool
	}{{text, 3, true}, {text, 3, false}, {strings.Replace(text, "words of a", "WORDS of a", 1), 2, true}} {
		writeFile(t, step.text, sitemap)
		if err := os.Chtimes(sitemap, noon, noon.Add(time.Duration(i/2)*time.Second-time.Hour)); err != nil {
			t.Fatal(err)
		}
		before := s.mirror.state.Entries
		again := runSource(t, s, k)
		if again.err != nil || again.unchanged != step.unchanged || (s.mirror.state.Entries != before) != step.anew {
			t.Errorf("step %d: %v, %d unchanged, listing %s and then %s", i, again.err, again.unchanged, before, s.mirror.state.Entries)
		}
	}
	for location, want := range map[string]error{base + "a": nil, base + "b": nil, base + "x": fs.ErrNotExist} {
		if p, err := s.Fetch(t.Context(), location); !errors.Is(err, want) || err == nil && p.URL != location {
			t.Errorf("Fetch(%s): %v", location, err)
		}
	}
	for _, location := range []string{filepath.Join(dir, "nothing"), t.TempDir()} {
		s, err := NewSource(SourceConfig{Location: location, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if s.Check() == nil {
			t.Errorf("%s is a source", location)
		}
	}
}

func TestAServerThatBreaksEndsTheReading(t *testing.T) {
	w := newWeb(t)
	var entries []string
	for i := range maxInARow + 5 {
		entries = append(entries, w.entry("/missing/"+string(rune('a'+i))))
	}
	w.sitemap(entries...)
	r := w.run(w.source(nil), nil)
	var status *fetch.StatusError
	if !errors.As(r.err, &status) || status.Code != http.StatusNotFound || len(r.skipped) != maxInARow {
		t.Errorf("%v after %d", r.err, len(r.skipped))
	}
}
