package arc

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func openHandler(t *testing.T, change func(*Handler)) (*Handler, string) {
	t.Helper()
	dir := t.TempDir()
	exportTo(t, ExportConfig{Dir: dir, Generated: noon, YAML: true, Policy: somePolicy()}, threePages(t)...)
	exportTo(t, ExportConfig{Dir: dir, Generated: noon.Add(time.Hour), YAML: true, Policy: somePolicy()}, threePages(t)[1:]...)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	h := &Handler{Dir: root}
	if change != nil {
		change(h)
	}
	return h, dir
}

// ask sends a request; fields are "Name: value".
func ask(h http.Handler, method, path string, fields ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestAnExportIsServedAsTheTextAsks(t *testing.T) {
	h, dir := openHandler(t, nil)
	for path, media := range map[string]string{
		"/arc-sitemap.json": "application/json", "/.well-known/arc-sitemap.json": "application/json",
		"/arc-sitemap-deltas/2026-01-02.json": "application/json", "/.well-known/arc-policy.json": "application/json",
		"/arc-sitemap.yaml": "application/yaml", "/arc-sitemap.jsonld": "application/ld+json",
	} {
		t.Run(path, func(t *testing.T) {
			r := ask(h, "GET", path)
			body, err := io.ReadAll(r.Body)
			file := path
			if path == "/.well-known/arc-sitemap.json" {
				file = "/arc-sitemap.json"
			}
			if err != nil || r.StatusCode != 200 || string(body) != readFile(t, dir, file) || r.Header.Get("Content-Type") != media {
				t.Fatalf("%d, %q, %v", r.StatusCode, r.Header, err)
			}
			if r.Header.Get("Content-Length") != fmt.Sprint(len(body)) || r.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%q", r.Header)
			}
			etag, date := r.Header.Get("ETag"), r.Header.Get("Last-Modified")
			for _, tt := range []struct {
				field string
				want  int
			}{
				{"If-None-Match: " + etag, 304}, {"If-None-Match: W/" + etag, 304}, {`If-None-Match: "x"`, 200},
				{"If-Modified-Since: " + date, 304}, {"If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT", 200},
			} {
				r := ask(h, "GET", path, tt.field)
				if body, _ := io.ReadAll(r.Body); r.StatusCode != tt.want || tt.want == 304 && len(body) > 0 || r.Header.Get("ETag") != etag {
					t.Errorf("%s: %d with %d octets", tt.field, r.StatusCode, len(body))
				}
			}
			packed := ask(h, "GET", path, "Accept-Encoding: gzip")
			if packed.Header.Get("Content-Encoding") == "gzip" {
				z, err := gzip.NewReader(packed.Body)
				if err != nil {
					t.Fatal(err)
				}
				if plain, err := io.ReadAll(z); err != nil || string(plain) != string(body) {
					t.Errorf("compressed it is another: %v", err)
				}
			} else if len(body) > 256 {
				t.Errorf("%d octets are not compressed", len(body))
			}
			if packed.Header.Get("ETag") != etag || packed.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("compressed: %q", packed.Header)
			}
			if r := ask(h, "HEAD", path); r.StatusCode != 200 || r.Header.Get("ETag") != etag {
				t.Errorf("HEAD: %d", r.StatusCode)
			}
		})
	}
	if link := ask(h, "GET", "/arc-sitemap.json").Header.Get("Link"); !strings.Contains(link, "</.well-known/arc-policy.json>") {
		t.Errorf("Link is %q", link)
	}
}

func TestNothingButAnExportIsServed(t *testing.T) {
	h, dir := openHandler(t, func(h *Handler) { h.Prefix = "/docs/" })
	writeFile(t, "secret", dir, "secret.json")
	writeFile(t, "secret", dir, deltaFolder, "x.json")
	if err := os.Symlink("/etc/hostname", dir+"/arc-sitemap-deltas/2026-01-09.json"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/docs/arc-sitemap.json": 200, "/docs/.well-known/arc-sitemap.json": 200, "/arc-sitemap.json": 404, "/docs/": 404, "/docs/secret.json": 404,
		"/docs/arc-sitemap.json.gz": 404, "/docs/arc-sitemap-deltas/x.json": 404, "/docs/arc-sitemap-deltas/2026-01-05.json": 404,
		"/docs/../docs/arc-sitemap.json": 404, "/docs/%2e%2e/arc-sitemap.json": 404,
	} {
		if r := ask(h, "GET", path); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	if r := ask(h, "GET", "/docs/arc-sitemap-deltas/2026-01-09.json"); r.StatusCode == 200 {
		t.Error("a link out of the folder is followed")
	}
	if r := ask(h, "POST", "/docs/arc-sitemap.json"); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", r.StatusCode)
	}
}

func TestWhoMayNotReadIsToldSoWhateverItHolds(t *testing.T) {
	var seen []string
	h, _ := openHandler(t, func(h *Handler) {
		h.Authorise = func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer partner" }
		h.Challenge = "Bearer"
		h.Served = func(r *http.Request, status int) { seen = append(seen, fmt.Sprint(r.URL.Path, " ", status)) }
	})
	etag := ask(h, "GET", "/arc-sitemap.json", "Authorization: Bearer partner").Header.Get("ETag")
	for _, path := range []string{"/arc-sitemap.json", "/nothing"} {
		r := ask(h, "GET", path, "If-None-Match: "+etag)
		if r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") != "Bearer" || r.Header.Get("ETag") != "" {
			t.Errorf("%s without a token: %d, %q", path, r.StatusCode, r.Header)
		}
	}
	r := ask(h, "GET", "/arc-sitemap.json", "Authorization: Bearer partner", "If-None-Match: "+etag)
	if r.StatusCode != 304 || r.Header.Get("Cache-Control") != "private, no-store" {
		t.Errorf("a partner: %d, %q", r.StatusCode, r.Header)
	}
	if want := "/arc-sitemap.json 200, /arc-sitemap.json 401, /nothing 401, /arc-sitemap.json 304"; strings.Join(seen, ", ") != want {
		t.Errorf("told %q, want %q", seen, want)
	}
}

// The compressed file is written before the plain one: between the two, they differ.
func TestACompressedFileOfAnotherContentIsNotServed(t *testing.T) {
	h, dir := openHandler(t, nil)
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, strings.Repeat("what comes next ", 100)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, packed.String(), dir, SitemapFile+".gz")
	r := ask(h, "GET", "/"+SitemapFile, "Accept-Encoding: gzip")
	plain, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(plain); err != nil || string(got) != readFile(t, dir, SitemapFile) {
		t.Errorf("compressed it is %.40q, %v", got, err)
	}
}
