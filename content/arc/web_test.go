package arc

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// A web is a server with pages, and a client that may ask it.
type web struct {
	t      *testing.T
	server *httptest.Server
	dir    string // of the source
	now    time.Time

	webMu    sync.Mutex
	handlers map[string]http.HandlerFunc
	asked    []string
}

func newWeb(t *testing.T) *web {
	w := &web{t: t, dir: t.TempDir(), now: noon, handlers: make(map[string]http.HandlerFunc)}
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	return w
}

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.webMu.Lock()
	h := w.handlers[r.URL.Path]
	condition := ""
	if r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since") != "" {
		condition = " if"
	}
	w.asked = append(w.asked, r.URL.Path+condition)
	w.webMu.Unlock()
	if h == nil {
		http.NotFound(rw, r)
		return
	}
	h(rw, r)
}

// since returns what was asked for since it was last called, but for robots.txt and
// the policy, which every reading begins with.
func (w *web) since() string {
	w.webMu.Lock()
	defer w.webMu.Unlock()
	var all []string
	for _, a := range w.asked {
		if !strings.HasPrefix(a, "/robots.txt") && !strings.HasPrefix(a, PolicyPath) {
			all = append(all, a)
		}
	}
	w.asked = nil
	return strings.Join(all, ", ")
}

func (w *web) url(path string) string { return w.server.URL + path }

func (w *web) handle(path string, h http.HandlerFunc) {
	w.webMu.Lock()
	defer w.webMu.Unlock()
	w.handlers[path] = h
}

// serve serves a text under an ETag of it.
func (w *web) serve(path, media, text string) {
	w.handle(path, func(rw http.ResponseWriter, r *http.Request) {
		etag := `"` + Checksum([]byte(text)) + `"`
		rw.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		rw.Header().Set("Content-Type", media)
		rw.Write([]byte(text))
	})
}

func (w *web) page(path, text string) string {
	html := pageHTML("Title of "+path, text)
	w.serve(path, "text/html; charset=utf-8", html)
	return html
}

func (w *web) sitemap(entries ...string) {
	w.serve("/arc-sitemap.json", "application/json", strings.ReplaceAll(sitemapOf(entries...), "https://example.com", w.server.URL))
}

// entry is an entry of a page on this server.
func (w *web) entry(path string, members ...string) string {
	return strings.ReplaceAll(entryOf(strings.TrimPrefix(path, "/"), members...), base, w.server.URL+"/")
}

func (w *web) client() *fetch.Client {
	w.t.Helper()
	c, err := fetch.New(fetch.Config{UserAgent: "test", Allowed: []string{w.server.URL}, Rate: 1000, Retries: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func (w *web) source(change func(*SourceConfig)) *Source {
	w.t.Helper()
	c := SourceConfig{Location: w.url("/arc-sitemap.json"), Dir: w.dir, Client: w.client(), Now: func() time.Time { return w.now }}
	if change != nil {
		change(&c)
	}
	s, err := NewSource(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() })
	return s
}

// A result is one reading of a source.
type result struct {
	pages     map[string]content.Page
	order     []string
	unchanged int
	skipped   map[string]content.Skipped
	err       error
}

// known remembers what a result holds.
type known map[string][32]byte

func (w *web) run(s *Source, k known) result { w.t.Helper(); return runSource(w.t, s, k) }

func runSource(t *testing.T, s *Source, k known) result {
	t.Helper()
	r := result{pages: make(map[string]content.Page), skipped: make(map[string]content.Skipped)}
	lookup := func(location string) ([32]byte, bool) { h, ok := k[location]; return h, ok }
	for p, err := range s.Pages(t.Context(), lookup, func(x content.Skipped) { r.skipped[x.Location] = x }) {
		if err != nil {
			r.err = err
			break
		}
		r.pages[p.URL] = p
		r.order = append(r.order, p.Location)
		if p.Unchanged {
			r.unchanged++
		}
		if k != nil {
			k[p.Location] = p.SourceHash
		}
	}
	return r
}
