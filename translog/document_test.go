package translog

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// kept is every kind of path with how long its answer may be kept, and its type.
var kept = []struct{ path, keep, contentType string }{
	{"/checkpoint", Changing, "text/plain; charset=utf-8"},
	{"/signed-checkpoint.json", Changing, "application/json"},
	{"/signed-checkpoint/1.json", Immutable, "application/json"},
	{"/tile/0/000", Immutable, "application/octet-stream"},
	{"/tile/0/001.p/255", Passing, "application/octet-stream"},
	{"/tile/1/000.p/2", Passing, "application/octet-stream"},
	{"/tile/entries/000", Immutable, "application/octet-stream"},
	{"/tile/entries/002.p/88", Passing, "application/octet-stream"},
	{"/entry/3.json", Immutable, "application/json"},
	{"/proof/inclusion?index=0&size=600", Passing, "application/json"},
	{"/proof/consistency?from=1&to=600", Passing, "application/json"},
	{"/", Changing, "text/html; charset=utf-8"},
	{"/entry/3", Changing, "text/html; charset=utf-8"},
}

func TestEachPathSaysHowLongItIsKept(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.HandlerWithPages(Site{})
	for _, tt := range kept {
		resp := ask(h, "GET", tt.path)
		for name, want := range map[string]string{
			"Cache-Control": tt.keep, "Content-Type": tt.contentType, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff",
			"Access-Control-Allow-Origin": "*", "Content-Encoding": "",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", tt.path, name, got, want)
			}
		}
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("ETag"), `"`) {
			t.Errorf("%s: %s, ETag %s", tt.path, resp.Status, resp.Header.Get("ETag"))
		}
	}
}

func TestTheTagSparesTheBody(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.HandlerWithPages(Site{})
	for _, at := range kept {
		tag := ask(h, "GET", at.path).Header.Get("ETag")
		for _, tt := range []struct {
			name, header string
			code         int
		}{
			{"the tag itself", tag, 304},
			{"the tag, weakly", "W/" + tag, 304},
			{"any tag", "*", 304},
			{"a list with the tag last", `"a", W/"b" ,` + tag, 304},
			{"another tag", `"a"`, 200},
			{"the tag without its quotes", strings.Trim(tag, `"`), 200},
			{"the tag of the compressed form", strings.TrimSuffix(tag, `"`) + `-gzip"`, 200},
			{"an empty list", "", 200},
		} {
			resp := ask(h, "GET", at.path, "If-None-Match", tt.header)
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tt.code || (len(body) == 0) != (tt.code == 304) {
				t.Errorf("%s, %s: %s with %d octets, want %d", at.path, tt.name, resp.Status, len(body), tt.code)
			}
			if tt.code == 304 && (resp.Header.Get("ETag") != tag || resp.Header.Get("Cache-Control") != at.keep || resp.Header.Get("Vary") == "") {
				t.Errorf("%s, %s: %v", at.path, tt.name, resp.Header)
			}
		}
	}
}

func TestHeadHasTheHeadersOfGet(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	server := httptest.NewServer(r.HandlerWithPages(Site{}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	paths := []string{"/entry/600.json", "/tile/0/002", "/nothing", "/entry/x"}
	for _, tt := range kept {
		paths = append(paths, tt.path)
	}
	for _, path := range paths {
		for _, accept := range []string{"", "gzip", "identity;q=0"} {
			var first http.Header
			for _, method := range []string{"GET", "HEAD"} {
				req, err := http.NewRequest(method, server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if accept != "" {
					req.Header.Set("Accept-Encoding", accept)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				resp.Header.Del("Date")
				if method == "GET" {
					first = resp.Header
					if got := resp.Header.Get("Content-Length"); got != strconv.Itoa(len(body)) {
						t.Errorf("%s, %q: Content-Length %s of %d octets", path, accept, got, len(body))
					}
				} else if !maps.EqualFunc(first, resp.Header, func(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
					t.Errorf("%s, %q:\nGET  %v\nHEAD %v", path, accept, first, resp.Header)
				}
			}
		}
	}
}

func TestTheCodingIsTheOneThatIsPreferred(t *testing.T) {
	const none = ""
	for _, tt := range []struct {
		accept string
		want   string // gzip, identity, or none
	}{
		{"gzip", "gzip"},
		{"GZIP", "gzip"},
		{"x-gzip", "gzip"},
		{"br, gzip", "gzip"},
		{" gzip ; q=0.5", "gzip"},
		{"gzip;q=0.001", "gzip"},
		{"gzip;q=1.0, *;q=0", "gzip"},
		{"*", "gzip"},
		{"*;q=0.1", "gzip"},
		{"identity;q=0", none},
		{"identity;q=0, *", "gzip"},
		{"identity;q=0.5, gzip;q=0.5", "gzip"},
		{"identity;q=0.6, gzip;q=0.5", "identity"},
		{"identity, *;q=0.5", "identity"},
		{"", "identity"},
		{"br", "identity"},
		{"gzip;q=0", "identity"},
		{"gzip;q=0.000", "identity"},
		{"gzip;q=0, *", "identity"},
		{"gzip;q=x", "identity"},
		{"gzip;q=2", "identity"},
		{"gzip;q=-1", "identity"},
		{"gzip;q=0.00001", "identity"},
		{"gzip;q=NaN", "identity"},
		{"gzip;level=9", "identity"},
		{"xgzip", "identity"},
		{"*;q=0", none},
		{"gzip;q=0, identity;q=0", none},
		{"*;q=0, identity", "identity"},
	} {
		d := Document{Body: bytes.Repeat([]byte("a"), worthGzip), Type: typeJSON, Keep: Immutable, Compress: true}
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", tt.accept)
		d.Serve(w, r)
		body := io.Reader(w.Body)
		got := "identity"
		switch {
		case w.Code == http.StatusNotAcceptable:
			got = none
		case w.Header().Get("Content-Encoding") == "gzip":
			got = "gzip"
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.accept, got, tt.want)
		}
		if b, err := io.ReadAll(body); got != none && (err != nil || !bytes.Equal(b, d.Body)) {
			t.Errorf("%q: %d octets, %v", tt.accept, len(b), err)
		}
	}
}

func TestOnlyWhatShrinksIsCompressed(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.HandlerWithPages(Site{})
	for path, shrinks := range map[string]bool{
		"/tile/0/000": false, "/checkpoint": false, "/tile/entries/000": true, "/entry/3.json": true,
		"/signed-checkpoint.json": true, "/": true, "/entry/3": true,
	} {
		plain, zipped := ask(h, "GET", path), ask(h, "GET", path, "Accept-Encoding", "gzip")
		if got := zipped.Header.Get("Content-Encoding") == "gzip"; got != shrinks {
			t.Errorf("%s compressed: %v", path, got)
		}
		if same := zipped.Header.Get("ETag") == plain.Header.Get("ETag"); same == shrinks {
			t.Errorf("%s: %s and %s", path, zipped.Header.Get("ETag"), plain.Header.Get("ETag"))
		}
		forced := ask(h, "GET", path, "Accept-Encoding", "gzip, identity;q=0")
		if forced.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s is sent as it is to who forbids that", path)
		}
	}
}

func TestNoErrorIsKeptForMoreThanASecond(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.HandlerWithPages(Site{})
	for _, tt := range []struct {
		name, method, path string
		header             []string
		code               int
	}{
		{"an entry that is not published", "GET", "/entry/600.json", nil, 404},
		{"a page of such an entry", "GET", "/entry/600", nil, 404},
		{"a full tile that is not full yet", "GET", "/tile/0/002", nil, 404},
		{"a full bundle that is not full yet", "GET", "/tile/entries/002", nil, 404},
		{"a path that nobody serves", "GET", "/nothing", nil, 404},
		{"a malformed number", "GET", "/entry/01", nil, 400},
		{"a path with more slashes than it needs", "GET", "/entry//1.json", nil, 307},
		{"a range behind the end", "GET", "/checkpoint", []string{"Range", "bytes=100000-"}, 416},
		{"no coding that would do", "GET", "/checkpoint", []string{"Accept-Encoding", "*;q=0"}, 406},
		{"another method", "POST", "/checkpoint", nil, 405},
		{"a method for what is not there", "DELETE", "/nothing", nil, 405},
		{"a preflight, which reading never needs", "OPTIONS", "/checkpoint", nil, 405},
		{"an address of 2,049 octets", "GET", "/" + strings.Repeat("a", maxTarget), nil, 414},
		{"a query of that length", "GET", "/checkpoint?" + strings.Repeat("a", maxTarget), nil, 414},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := ask(h, tt.method, tt.path, tt.header...)
			if resp.StatusCode != tt.code || resp.Header.Get("Cache-Control") != errorsKept {
				t.Errorf("%d, kept %q; want %d", resp.StatusCode, resp.Header.Get("Cache-Control"), tt.code)
			}
			if allow := resp.Header.Get("Allow"); (allow == "GET, HEAD") != (tt.code == 405) {
				t.Errorf("Allow is %q", allow)
			}
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Error("its type may be guessed")
			}
		})
	}
}

func TestWhatFailedIsNotKept(t *testing.T) {
	r := published600(t)
	h := r.HandlerWithPages(Site{})
	r.close(t)
	for _, path := range []string{"/", "/entry/0", "/entry/0.json"} {
		if resp := ask(h, "GET", path); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %s, kept %q", path, resp.Status, resp.Header.Get("Cache-Control"))
		}
	}
}
