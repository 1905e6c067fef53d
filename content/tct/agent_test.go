package tct_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

var noon = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

// An origin is a site on loopback: an export, served by our handler, behind
// something that a test can put in its place.
type origin struct {
	*httptest.Server
	t       testing.TB
	dir     string
	config  tct.ExportConfig
	instead func(w http.ResponseWriter, r *http.Request, site http.Handler) // nil: the site itself

	logMu sync.Mutex
	log   []string // "path If-None-Match Cache-Control"
}

// newOrigin serves the pages that texts describe, by path.
func newOrigin(t testing.TB, texts map[string]string, change func(*tct.ExportConfig)) *origin {
	t.Helper()
	o := &origin{t: t, dir: t.TempDir()}
	o.Server = httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(o.Close)
	o.config = tct.ExportConfig{Dir: o.dir, Mapping: tct.Mapping{Base: o.URL + "/"}}
	if change != nil {
		change(&o.config)
	}
	o.publish(texts)
	return o
}

func (o *origin) serve(w http.ResponseWriter, r *http.Request) {
	o.logMu.Lock()
	o.log = append(o.log, strings.TrimSpace(r.URL.RequestURI()+" "+r.Header.Get("If-None-Match")+" "+r.Header.Get("Cache-Control")))
	o.logMu.Unlock()
	tree, err := tct.OpenTree(o.dir, o.config.Mapping)
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	defer tree.Close()
	h := tree.Handler()
	h.Clear = func(*http.Request) bool { return true }
	if o.instead != nil {
		o.instead(w, r, h)
		return
	}
	h.ServeHTTP(w, r)
}

// publish makes the site hold these pages and no others.
func (o *origin) publish(texts map[string]string) {
	o.t.Helper()
	var pages []content.Page
	for path, text := range texts {
		pages = append(pages, pageAt(o.URL+path, text, 1))
	}
	exportTo(o.t, o.config, pages)
}

// asked returns the requests since the last call.
func (o *origin) asked() []string {
	o.logMu.Lock()
	defer o.logMu.Unlock()
	log := o.log
	o.log = nil
	return log
}

func (o *origin) etag(path, text string) string {
	return `"` + tct.FormatHash(pageAt(o.URL+path, text, 1).Fingerprint) + `"`
}

// memory is a Memory.
type memory map[string]tct.Held

func (m memory) Lookup(url string) (tct.Held, bool) { h, ok := m[url]; return h, ok }
func (m memory) Keep(url string, h tct.Held) error  { m[url] = h; return nil }
func (m memory) Forget(url string) error            { delete(m, url); return nil }

// newAgent makes an agent for an origin, whose waits take no time.
func newAgent(t testing.TB, o *origin, change func(*tct.AgentConfig, *fetch.Config)) *tct.Agent {
	t.Helper()
	now := noon
	f := fetch.Config{UserAgent: "test/1", Allowed: []string{o.URL}, Rate: 1e6, Retries: -1, Now: func() time.Time { return now }}
	f.Sleep = func(ctx context.Context, d time.Duration) error { now = now.Add(d); return ctx.Err() }
	c := tct.AgentConfig{Sitemap: o.URL + "/llm-sitemap.json", Product: "test", IgnoreRobots: true, Now: f.Now}
	if change != nil {
		change(&c, &f)
	}
	client, err := fetch.New(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c.Client = client
	a, err := tct.NewAgent(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A synced is all that one run gave.
type synced struct {
	*tct.Run
	pages   map[string]content.Page // by the path of their URL
	order   []string                // locations
	skipped []content.Skipped
	err     error
}

func sync1(t testing.TB, a *tct.Agent, m tct.Memory) *synced {
	t.Helper()
	s := &synced{pages: make(map[string]content.Page)}
	s.Run = a.Sync(m, func(k content.Skipped) { s.skipped = append(s.skipped, k) })
	for p, err := range s.Run.Pages(t.Context()) {
		if err != nil {
			s.err = err
			break
		}
		s.pages["/"+strings.SplitN(p.URL, "/", 4)[3]] = p
		s.order = append(s.order, p.Location)
	}
	return s
}

var threePages = map[string]string{"/": "home", "/a/": "a", "/b.html": "b"}

func TestTheSecondRunAsksForTheSitemapAlone(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	a, m := newAgent(t, o, nil), memory{}
	first := sync1(t, a, m)
	if first.err != nil || len(first.pages) != 3 || first.Stats.Fetched != 3 || first.Stats.Listed != 3 || !slices.IsSorted(first.order) {
		t.Fatalf("first run: %+v, %v", first.Stats, first.err)
	}
	for path, text := range threePages {
		want := pageAt(o.URL+path, text, 1)
		got := first.pages[path]
		if got.Digest != want.Digest || got.Fingerprint != want.Fingerprint || got.SourceHash != want.Fingerprint || !got.Modified.Equal(want.Modified) || got.Title != "Title" || len(got.Warnings) > 0 {
			t.Errorf("%s: %+v", path, got)
		}
	}
	o.asked()
	second := sync1(t, a, m)
	if !errors.Is(second.err, content.ErrUnchanged) || !second.Stats.SitemapUnchanged || len(second.pages) != 0 {
		t.Errorf("second run: %v, %+v", second.err, second.Stats)
	}
	if got := o.asked(); len(got) != 1 || !strings.HasPrefix(got[0], `/llm-sitemap.json "sha256-`) {
		t.Errorf("asked for %q", got)
	}
}

// TestOnlyTheETagOfTheHeldBodyIsSent holds the first revision when the sitemap
// announces the second. Whoever sent what was announced would be told "not
// modified", and keep the first under the second's name.
func TestOnlyTheETagOfTheHeldBodyIsSent(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	a, m := newAgent(t, o, nil), memory{}
	sync1(t, a, m)
	texts := maps.Clone(threePages)
	texts["/a/"] = "second"
	o.publish(texts)
	o.asked()
	got := sync1(t, a, m)
	if got.err != nil || string(got.pages["/a/"].Payload) != string(pageAt(o.URL+"/a/", "second", 1).Payload) || !got.pages["/"].Unchanged {
		t.Fatalf("second run: %+v, %v", got.pages, got.err)
	}
	want := []string{"/a/llm.json " + o.etag("/a/", "a")}
	if log := o.asked(); !slices.Equal(log[1:], want) {
		t.Errorf("asked for %q, want %q", log[1:], want)
	}
	if got.Stats.Spared != 2 || got.Stats.Fetched != 1 || got.pages["/"].SourceHash != pageAt(o.URL+"/", "home", 1).Fingerprint {
		t.Errorf("counted %+v", got.Stats)
	}
}

func TestAPageThatWasNotTakenIsAskedForAgain(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	a, m := newAgent(t, o, nil), memory{}
	for p, err := range a.Sync(m, nil).Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if p.URL == o.URL+"/b.html" {
			break // an interruption: neither this page nor the sitemap is held
		}
	}
	o.asked()
	again := sync1(t, a, m)
	if again.err != nil || again.Stats.Spared != 1 || again.Stats.Fetched != 2 {
		t.Errorf("after an interruption: %+v, %v, asked for %q", again.Stats, again.err, o.asked())
	}
}

func TestAPageIsTakenOnlyIfAllAgree(t *testing.T) {
	const mURL = "/a/llm.json"
	good := func(o *origin) content.Page { return pageAt(o.URL+"/a/", "a", 1) }
	answer := func(w http.ResponseWriter, etag, link, media string, body []byte) {
		for name, value := range map[string]string{"ETag": etag, "Link": link, "Content-Type": media} {
			if value != "" {
				w.Header().Set(name, value)
			}
		}
		w.Write(body)
	}
	canonical := func(o *origin, path string) string { return fmt.Sprintf(`<%s%s>; rel="canonical"`, o.URL, path) }
	for _, tt := range []struct {
		name      string
		answer    func(o *origin, w http.ResponseWriter)
		taken     bool
		warnings  int
		withdrawn bool  // skipped without an error
		want      error // nil: any
	}{
		{"all agrees", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "a"), canonical(o, "/a/"), "application/json", good(o).Payload)
		}, true, 0, false, nil},
		{"a weak ETag", func(o *origin, w http.ResponseWriter) {
			answer(w, "W/"+o.etag("/a/", "a"), canonical(o, "/a/"), "application/json; charset=utf-8", good(o).Payload)
		}, true, 1, false, nil},
		{"an ETag of a compressed body", func(o *origin, w http.ResponseWriter) {
			answer(w, strings.TrimSuffix(o.etag("/a/", "a"), `"`)+`-gzip"`, canonical(o, "/a/"), "application/json", good(o).Payload)
		}, true, 1, false, nil},
		{"no canonical link", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "a"), "", "application/json", good(o).Payload)
		}, false, 0, false, tct.ErrCanonical},
		{"another page's link", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "a"), canonical(o, "/b.html"), "application/json", good(o).Payload)
		}, false, 0, false, tct.ErrCanonical},
		{"another page's payload", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/b.html", "b"), canonical(o, "/a/"), "application/json", pageAt(o.URL+"/b.html", "b", 1).Payload)
		}, false, 0, false, tct.ErrCanonical},
		{"another page's answer, which agrees with itself", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/b.html", "b"), canonical(o, "/b.html"), "application/json", pageAt(o.URL+"/b.html", "b", 1).Payload)
		}, false, 0, false, tct.ErrCanonical},
		{"a hash that differs by case", func(o *origin, w http.ResponseWriter) {
			answer(w, strings.ToUpper(o.etag("/a/", "a")), canonical(o, "/a/"), "application/json", good(o).Payload)
		}, false, 0, false, tct.ErrParity},
		{"the ETag of another body", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "x"), canonical(o, "/a/"), "application/json", good(o).Payload)
		}, false, 0, false, tct.ErrParity},
		{"no ETag", func(o *origin, w http.ResponseWriter) {
			answer(w, "", canonical(o, "/a/"), "application/json", good(o).Payload)
		}, false, 0, false, tct.ErrParity},
		{"a page to log in on", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "a"), canonical(o, "/a/"), "text/html", []byte("<title>Log in</title>"))
		}, false, 0, false, nil},
		{"JSON that is cut short", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "a"), canonical(o, "/a/"), "application/json", good(o).Payload[:50])
		}, false, 0, false, tct.ErrMalformed},
		{"a number that is none", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "a"), canonical(o, "/a/"), "application/json", []byte(strings.Replace(string(good(o).Payload), `,"content"`, `,"a":NaN,"content"`, 1)))
		}, false, 0, false, tct.ErrMalformed},
		{"an infinite number", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "a"), canonical(o, "/a/"), "application/json", []byte(strings.Replace(string(good(o).Payload), `,"content"`, `,"a":1e999,"content"`, 1)))
		}, false, 0, false, tct.ErrMalformed},
		{"an empty body", func(o *origin, w http.ResponseWriter) {
			answer(w, o.etag("/a/", "a"), canonical(o, "/a/"), "application/json", nil)
		}, false, 0, false, tct.ErrMalformed},
		{"404", func(_ *origin, w http.ResponseWriter) { w.WriteHeader(404) }, false, 0, false, nil},
		{"401", func(_ *origin, w http.ResponseWriter) { w.WriteHeader(401) }, false, 0, false, nil},
		{"503", func(_ *origin, w http.ResponseWriter) { w.WriteHeader(503) }, false, 0, false, nil},
		{"410", func(_ *origin, w http.ResponseWriter) { w.WriteHeader(410) }, false, 0, true, nil},
		{"a wish not to be indexed", func(o *origin, w http.ResponseWriter) {
			w.Header().Set("X-Robots-Tag", "otherbot: noindex")
			answer(w, o.etag("/a/", "a"), canonical(o, "/a/"), "application/json", good(o).Payload)
		}, false, 0, true, nil},
		{"a redirect to elsewhere", func(_ *origin, w http.ResponseWriter) {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data/")
			w.WriteHeader(302)
		}, false, 0, false, fetch.ErrForbiddenAddress},
		{"a redirect to the same body", func(_ *origin, w http.ResponseWriter) {
			w.Header().Set("Location", "/moved.json")
			w.WriteHeader(308)
		}, true, 1, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigin(t, threePages, nil)
			o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				switch r.URL.Path {
				case mURL:
					tt.answer(o, w)
				case "/moved.json":
					r.URL.Path = mURL
					site.ServeHTTP(w, r)
				default:
					site.ServeHTTP(w, r)
				}
			}
			m := memory{}
			got := sync1(t, newAgent(t, o, nil), m)
			page, taken := got.pages["/a/"]
			if got.err != nil || taken != tt.taken || len(page.Warnings) != tt.warnings || len(got.pages) < 2 {
				t.Fatalf("taken %v with %q, %d pages, skipped %v, %v", taken, page.Warnings, len(got.pages), got.skipped, got.err)
			}
			_, kept := m[o.URL+"/llm-sitemap.json"]
			if tt.taken {
				if page.Location != o.URL+mURL || page.Digest != good(o).Digest || len(got.skipped) > 0 || !kept {
					t.Errorf("page %+v, skipped %v", page, got.skipped)
				}
				return
			}
			if len(got.skipped) != 1 || got.skipped[0].Location != o.URL+mURL || (got.skipped[0].Err == nil) != tt.withdrawn {
				t.Fatalf("skipped %+v", got.skipped)
			}
			if tt.want != nil && !errors.Is(got.skipped[0].Err, tt.want) {
				t.Errorf("skipped by %v, want %v", got.skipped[0].Err, tt.want)
			}
			// What may be right the next time must be looked at the next time.
			if kept != tt.withdrawn {
				t.Errorf("the sitemap is held: %v", kept)
			}
			if _, held := m[o.URL+mURL]; held {
				t.Error("a page that was not taken is held")
			}
		})
	}
}

func TestAStaleIntermediaryIsAskedThrough(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	a, m := newAgent(t, o, nil), memory{}
	sync1(t, a, m)
	old := pageAt(o.URL+"/a/", "a", 1)
	texts := maps.Clone(threePages)
	texts["/a/"] = "third"
	o.publish(texts)
	m[o.URL+"/a/llm.json"] = tct.Held{ETag: o.etag("/a/", "second")} // held meanwhile
	o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		if r.URL.Path == "/a/llm.json" && r.Header.Get("Cache-Control") != "no-cache" {
			w.Header().Set("ETag", o.etag("/a/", "a"))
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Link", fmt.Sprintf(`<%s/a/>; rel="canonical"`, o.URL))
			w.Write(old.Payload)
			return
		}
		site.ServeHTTP(w, r)
	}
	o.asked()
	got := sync1(t, a, m)
	if got.err != nil || !strings.Contains(string(got.pages["/a/"].Payload), "third") || len(got.pages["/a/"].Warnings) != 1 {
		t.Errorf("took %s with %q, %v", got.pages["/a/"].Payload, got.pages["/a/"].Warnings, got.err)
	}
	second := o.etag("/a/", "second")
	if want := []string{"/a/llm.json " + second, "/a/llm.json " + second + " no-cache"}; !slices.Equal(o.asked()[1:], want) {
		t.Error("the second request did not go through")
	}
}

func TestTheServerIsRightWhereTheSitemapIsNot(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	a, m := newAgent(t, o, nil), memory{}
	sitemap := tree(t, o.dir)[tct.SitemapFile]
	stale := func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		if r.URL.Path == "/llm-sitemap.json" {
			w.Write([]byte(strings.ReplaceAll(sitemap, strings.Trim(o.etag("/a/", "a"), `"`), fooHash)))
			return
		}
		site.ServeHTTP(w, r)
	}
	o.instead = stale
	first := sync1(t, a, m)
	if first.err != nil || first.pages["/a/"].SourceHash != pageAt(o.URL+"/a/", "a", 1).Fingerprint || len(first.pages["/a/"].Warnings) != 1 {
		t.Errorf("took %+v, %v", first.pages["/a/"], first.err)
	}
	// What is held is what the server said, and the sitemap stays in doubt.
	second := sync1(t, a, m)
	if p := second.pages["/a/"]; !p.Unchanged || len(p.Warnings) != 1 || second.Stats.NotModified != 1 || second.Stats.Spared != 2 {
		t.Errorf("then %+v, %+v", p, second.Stats)
	}
	if _, kept := m[o.URL+"/llm-sitemap.json"]; kept {
		t.Error("a sitemap that the server contradicts is held")
	}
}
