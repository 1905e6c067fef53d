package rbt_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// get asks a handler, and returns the status and the header.
func get(h http.Handler, method, path, condition string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	if condition != "" {
		r.Header.Set("If-None-Match", condition)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestABurrowIsServedAsTheTextAsks(t *testing.T) {
	dir := t.TempDir()
	var all []rbt.Resource
	for i := range 7 { // three manifests of three, three and one
		all = append(all, resource(fmt.Sprintf("docs/%d.md", i), fmt.Sprint("page ", i)))
	}
	export(t, config(t, dir), all...)
	for name, text := range map[string]string{".warren.json": "{}", ".warren.md": "# Burrows", ".git/config": "[core]", "unlisted.md": "x"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "docs", "link.md")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	h := &rbt.Handler{Dir: root, Prefix: "/b/"}
	const json = "application/json; charset=utf-8"
	for path, want := range map[string]string{
		".burrow.json": json, ".warren.json": json, ".warren.md": "text/markdown; charset=utf-8", ".well-known/rabit-burrow": json,
		"docs/0.md": "text/markdown", "docs/6.md": "text/markdown",
		"unlisted.md": "", ".git/config": "", ".git/../unlisted.md": "", "docs/link.md": "", "docs": "", "": "", ".well-known/rabit-warren": "",
	} {
		w := get(h, http.MethodHead, "/b/"+path, "")
		if got := w.Header().Get("Content-Type"); got != want || (w.Code == http.StatusOK) != (want != "") {
			t.Errorf("%s is %d of type %q, want %q", path, w.Code, got, want)
		}
	}
	if w := get(h, http.MethodGet, "/.burrow.json", ""); w.Code != http.StatusNotFound {
		t.Errorf("outside the prefix: %d", w.Code)
	}
	if w := get(h, http.MethodPost, "/b/.burrow.json", ""); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	first := get(h, http.MethodGet, "/b/docs/0.md", "")
	if again := get(h, http.MethodGet, "/b/docs/0.md", first.Header().Get("ETag")); first.Body.String() != "page 0" || again.Code != http.StatusNotModified {
		t.Errorf("%q, and then %d", first.Body, again.Code)
	}
	export(t, config(t, dir), resource("docs/1.md", "page 1"), resource("new.html", "new"))
	if gone, new := get(h, http.MethodGet, "/b/docs/0.md", ""), get(h, http.MethodGet, "/b/new.html", ""); gone.Code != http.StatusNotFound || new.Code != http.StatusOK {
		t.Errorf("after another export: %d and %d", gone.Code, new.Code)
	}
}
