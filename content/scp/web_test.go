package scp

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// A site is a publisher on this machine: an exported folder at /scp/, web pages
// beside it, and a list of what was asked for.
type webSite struct {
	*httptest.Server
	dir string
	now time.Time

	askedMu sync.Mutex
	asked   []string
	pages   map[string]string // web pages by path
}

func newSite(t *testing.T) *webSite {
	t.Helper()
	w := &webSite{dir: t.TempDir(), now: noon, pages: make(map[string]string)}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	serve := Handler(root, "daily")
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		conditions := ""
		if r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Modified-Since") != "" {
			conditions = " if changed"
		}
		w.askedMu.Lock()
		w.asked = append(w.asked, strings.TrimPrefix(r.URL.Path, "/scp/")+conditions)
		text, ok := w.pages[r.URL.Path]
		w.askedMu.Unlock()
		if ok {
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(rw, text)
			return
		}
		http.StripPrefix("/scp", serve).ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

// took returns what was asked for since the last call.
func (w *webSite) took() string {
	w.askedMu.Lock()
	defer w.askedMu.Unlock()
	s := strings.Join(w.asked, ", ")
	w.asked = nil
	return s
}

// export writes pages of the site itself.
func (w *webSite) export(t *testing.T, pages map[string]string, modified time.Time) ExportReport {
	t.Helper()
	r, err := Export(t.Context(), ExportConfig{
		Dir: w.dir, BaseURL: w.URL + "/scp/", Section: "all", Generated: w.now, Packing: Packing{Compression: Zstd},
	}, func(yield func([]byte, error) bool) {
		for name, text := range pages {
			if !yield(line(w.URL+"/"+name, text, modified), nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *webSite) source(t *testing.T, location string, allowed ...string) *Source {
	t.Helper()
	client, err := fetch.New(fetch.Config{
		UserAgent: "test", Allowed: append(allowed, w.URL), Rate: 10_000, Retries: -1, Now: func() time.Time { return w.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return source(t, SourceConfig{Location: location, Dir: t.TempDir(), Client: client, Now: func() time.Time { return w.now }})
}

func TestASiteIsFollowedByItsSitemap(t *testing.T) {
	w := newSite(t)
	s := w.source(t, w.URL+"/scp/sitemap.xml")
	expect := func(step string, want map[string]string, asked string) {
		t.Helper()
		if got := contents(t, s); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
		if got := w.took(); got != asked {
			t.Errorf("%s: asked for %s, want %s", step, got, asked)
		}
	}
	w.export(t, words("a", "1", "b", "1"), w.now)
	expect("first", words("a", "1", "b", "1"), "sitemap.xml, all-snapshot-20250601T120000Z.scp.zst")
	expect("at once, while the sitemap is fresh", words("a", "1", "b", "1"), "")
	w.now = w.now.Add(2 * time.Minute)
	expect("later, without a change", words("a", "1", "b", "1"), "sitemap.xml if changed")
	w.now = w.now.Add(time.Hour)
	w.export(t, words("a", "2", "b", "1", "c", "1"), w.now)
	expect("a delta alone", words("a", "2", "b", "1", "c", "1"), "sitemap.xml if changed, all-delta-20250601T130200Z.scp.zst")
	w.now = w.now.Add(time.Hour)
	w.export(t, words("a", "2", "c", "1"), w.now)
	expect("a deletion", words("a", "2", "c", "1"), "sitemap.xml if changed, all-snapshot-20250601T140200Z.scp.zst")
}

func TestWebPagesStandInForABrokenCollection(t *testing.T) {
	w := newSite(t)
	s := w.source(t, w.URL+"/scp/sitemap.xml")
	for _, name := range []string{"a", "b"} {
		w.pages["/"+name] = "<html lang=en><title>" + name + "</title><p>From HTML</p>"
	}
	w.pages["/d"] = w.pages["/a"]
	w.pages["/robots.txt"] = "User-agent: *\nDisallow: /d\n"
	w.pages["/c"] = "<meta name=robots content=noindex><p>Not offered</p>"
	r := w.export(t, words("a", "1", "b", "1", "c", "1", "d", "1", "gone", "1"), w.now)
	whole, err := os.ReadFile(filepath.Join(w.dir, r.File))
	if err != nil {
		t.Fatal(err)
	}
	put(t, w.dir, r.File, string(whole[:len(whole)-3]))
	got, told := read(t, s)
	if !maps.Equal(got, words("a", "From HTML", "b", "From HTML")) || !strings.Contains(strings.Join(told, " "), "rejected") {
		t.Errorf("%v, told %q", got, told)
	}
	if asked := w.took(); strings.Contains(asked+",", " /d,") {
		t.Errorf("what robots.txt forbids is asked for: %s", asked)
	}
	if got := contents(t, s); !maps.Equal(got, words("a", "From HTML", "b", "From HTML")) || w.took() != "sitemap.xml" {
		t.Errorf("once more, at once: %v", got)
	}
	put(t, w.dir, r.File, string(whole))
	w.now = w.now.Add(2 * time.Hour)
	if got := contents(t, s); !maps.Equal(got, words("a", "1", "b", "1", "c", "1", "d", "1", "gone", "1")) {
		t.Errorf("when the collection is whole again: %v", got)
	}
	if len(s.mirror.state.Layers) != 1 || len(s.mirror.state.Rejected) != 0 {
		t.Errorf("layers %+v", s.mirror.state.Layers)
	}
}

func TestCollectionsOfOtherOriginsAreTold(t *testing.T) {
	w, other := newSite(t), newSite(t)
	put(t, other.dir, "all.scp", string(write(t, snapshot(noon), Packing{}, line(w.URL+"/a", "1", noon))))
	m := Sitemap{Listings: []Listing{{Type: Snapshot, Section: "all", URL: other.URL + "/scp/all.scp", Generated: noon, Expires: noon.AddDate(1, 0, 0)}}}
	var text strings.Builder
	if err := m.Write(&text); err != nil {
		t.Fatal(err)
	}
	put(t, w.dir, "sitemap.xml", text.String())
	for _, tt := range []struct {
		origins []string
		told    string
		asked   string
	}{
		{nil, "another origin", "all.scp"},
		{[]string{other.URL}, "", "all.scp"},
		{[]string{w.URL}, "none of the origins", ""},
	} {
		s := w.source(t, w.URL+"/scp/sitemap.xml", other.URL)
		s.config.Origins = tt.origins
		var told strings.Builder
		for _, err := range s.Pages(t.Context(), nil, func(k content.Skipped) { told.WriteString(k.Reason) }) {
			if (err != nil) != (tt.asked == "") {
				t.Errorf("origins %q: %v", tt.origins, err)
			}
		}
		if got := other.took(); got != tt.asked || !strings.Contains(told.String(), tt.told) || tt.told == "" && told.Len() > 0 {
			t.Errorf("origins %q: asked for %q, told %q", tt.origins, got, told.String())
		}
	}
}

func TestOneCollectionByItsURLIsASource(t *testing.T) {
	w := newSite(t)
	s := w.source(t, w.URL+"/scp/all.scp")
	serve := func(c Collection, lines ...[]byte) {
		put(t, w.dir, "all.scp", string(write(t, c, Packing{}, lines...)))
	}
	at := func(name, text string) []byte { return line(w.URL+"/"+name, text, noon) }
	serve(snapshot(noon), at("a", "1"), page("elsewhere", "1", noon))
	got, told := read(t, s)
	if !maps.Equal(got, words("a", "1")) || !strings.Contains(strings.Join(told, " "), "another host") {
		t.Errorf("%v, told %q", got, told)
	}
	w.took()
	w.now = w.now.Add(25 * time.Hour)
	if got := contents(t, s); !maps.Equal(got, words("a", "1")) || w.took() != "all.scp if changed" {
		t.Errorf("without a change %v", got)
	}
	serve(snapshot(noon.Add(24*time.Hour)), at("a", "2"))
	w.now = w.now.Add(25 * time.Hour)
	if got := contents(t, s); !maps.Equal(got, words("a", "2")) {
		t.Errorf("newer: %v", got)
	}
	serve(snapshot(noon.Add(-time.Hour)), at("a", "0"))
	w.now = w.now.Add(25 * time.Hour)
	got, told = read(t, s)
	if !maps.Equal(got, words("a", "2")) || !strings.Contains(strings.Join(told, " "), "too old") {
		t.Errorf("a replay: %v, told %q", got, told)
	}
}

func TestTheHandlerServesAsTheTextAsks(t *testing.T) {
	w := newSite(t)
	for _, c := range []Compression{Plain, Gzip, Zstd} {
		put(t, w.dir, "s"+c.Extension(), string(write(t, snapshot(noon), Packing{Compression: c}, page("a", "1", noon))))
	}
	put(t, w.dir, "d.scp", string(write(t, delta(noon, noon.Add(time.Hour)), Packing{})))
	put(t, w.dir, "sitemap.xml", "<urlset/>")
	put(t, w.dir, "secret.txt", "x")
	put(t, w.dir, ".scp/all.json", "{}")
	put(t, w.dir, ".hidden.scp", "x")
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	ask := func(method, name string, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, w.URL+"/scp/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(response.Body)
		if response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode == http.StatusOK && method == http.MethodGet && response.ContentLength != int64(len(b)) {
			t.Errorf("%s: Content-Length %d of %d octets", name, response.ContentLength, len(b))
		}
		return response
	}
	sum := open(t, write(t, snapshot(noon), Packing{}, page("a", "1", noon)), Options{}).Collection.Checksum
	for name, coding := range map[string]string{"s.scp": "", "s.scp.gz": "gzip", "s.scp.zst": "zstd"} {
		h := ask("GET", name).Header
		if h.Get("Content-Type") != "application/scp" || h.Get("Content-Encoding") != coding || h.Get("ETag") != `"`+sum+`"` ||
			h.Get("Last-Modified") != "Sun, 01 Jun 2025 12:00:00 GMT" || h.Get("Cache-Control") != "public, max-age=86400, stale-while-revalidate=3600" {
			t.Errorf("%s: %v", name, h)
		}
	}
	if got := ask("GET", "d.scp").Header.Get("Cache-Control"); got != "public, max-age=1800, must-revalidate" {
		t.Errorf("a delta may be kept %s", got)
	}
	for _, tt := range []struct {
		name   string
		header []string
		want   int
	}{
		{"the same ETag", []string{"If-None-Match", `"` + sum + `"`}, 304},
		{"the same ETag, weak", []string{"If-None-Match", `W/"` + sum + `"`}, 304},
		{"the same time", []string{"If-Modified-Since", "Sun, 01 Jun 2025 12:00:00 GMT"}, 304},
		{"both", []string{"If-None-Match", `"` + sum + `"`, "If-Modified-Since", "Sun, 01 Jun 2025 12:00:00 GMT"}, 304},
		{"another ETag, and the same time", []string{"If-None-Match", `"x"`, "If-Modified-Since", "Sun, 01 Jun 2025 12:00:00 GMT"}, 200},
		{"an earlier time", []string{"If-Modified-Since", "Sun, 01 Jun 2025 11:59:59 GMT"}, 200},
		{"none", nil, 200},
	} {
		if got := ask("GET", "s.scp.gz", tt.header...); got.StatusCode != tt.want {
			t.Errorf("%s: %s", tt.name, got.Status)
		}
	}
	for _, name := range []string{"secret.txt", ".scp/all.json", ".hidden.scp", "none.scp", "", "sitemap-9.xml", "%2e%2e/x.scp"} {
		if got := ask("GET", name); got.StatusCode != 404 {
			t.Errorf("%s: %s", name, got.Status)
		}
	}
	if ask("GET", "sitemap.xml").StatusCode != 200 || ask("HEAD", "s.scp").StatusCode != 200 || ask("POST", "s.scp").StatusCode != 405 {
		t.Error("a sitemap, a HEAD or a POST is answered wrongly")
	}
}
