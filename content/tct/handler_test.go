package tct_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// longText is worth compressing.
var longText = strings.Repeat("Words that are worth compressing. ", 40)

// openSite exports the site with one long page and serves it.
func openSite(t testing.TB, change func(*tct.Tree, *tct.Handler)) (*tct.Handler, string) {
	t.Helper()
	dir := t.TempDir()
	exportTo(t, tct.ExportConfig{Dir: dir, Policy: &tct.Policy{Version: 1}}, append(site(), pageAt(base+"long/", longText, 5)))
	tree, err := tct.OpenTree(dir, tct.Mapping{Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	h := tree.Handler()
	h.Clear = func(*http.Request) bool { return true }
	if change != nil {
		change(tree, h)
	}
	return h, dir
}

// ask sends a request to a handler; fields are "Name: value".
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

func bodyOf(t testing.TB, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAPageIsServedWithAllThatTheDraftAsks(t *testing.T) {
	h, _ := openSite(t, nil)
	want := pageAt(base+"long/", longText, 5)
	r := ask(h, "GET", "/long/llm.json")
	if got := bodyOf(t, r); r.StatusCode != 200 || !bytes.Equal(got, want.Payload) {
		t.Errorf("%d with %s", r.StatusCode, got)
	}
	for name, value := range map[string]string{
		"Content-Type":   "application/json; charset=utf-8",
		"Etag":           `"` + tct.FormatHash(want.Fingerprint) + `"`,
		"Link":           `<https://example.com/long/>; rel="canonical"`,
		"Last-Modified":  "Mon, 05 Jan 2026 00:00:00 GMT",
		"Cache-Control":  "max-age=0, must-revalidate, stale-while-revalidate=60, stale-if-error=86400",
		"Vary":           "Accept-Encoding",
		"Content-Length": fmt.Sprint(len(want.Payload)),
	} {
		if got := r.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	r = ask(h, "GET", "/llm-sitemap.json")
	if got := r.Header.Get("Link"); got != `</llm-policy.json>; rel="describedby"; type="application/json"` {
		t.Errorf("the sitemap links %q", got)
	}
	if got := r.Header.Get("Cache-Control"); !strings.Contains(got, "must-revalidate") || strings.Contains(got, "private") {
		t.Errorf("the sitemap's Cache-Control is %q", got)
	}
	if r := ask(h, "GET", "/llm-policy.json"); r.StatusCode != 200 || !bytes.Contains(bodyOf(t, r), []byte("tct-policy-1")) {
		t.Errorf("the policy: %d", r.StatusCode)
	}
}

func TestConditionsAreEvaluatedAsRFC9110Does(t *testing.T) {
	h, _ := openSite(t, nil)
	etag := ask(h, "HEAD", "/long/llm.json").Header.Get("Etag")
	const past, then, future = "Thu, 01 Jan 2026 00:00:00 GMT", "Mon, 05 Jan 2026 00:00:00 GMT", "Fri, 01 Jan 2027 00:00:00 GMT"
	for _, tt := range []struct {
		name   string
		fields []string
		want   int
	}{
		{"no condition", nil, 200},
		{"the tag", []string{"If-None-Match: " + etag}, 304},
		{"the tag, weak", []string{"If-None-Match: W/" + etag}, 304},
		{"the tag of a compressed body", []string{"If-None-Match: " + etag[:len(etag)-1] + `-gzip"`}, 304},
		{"any tag", []string{"If-None-Match: *"}, 304},
		{"a list", []string{`If-None-Match: "x, y" ,W/"z",, ` + etag}, 304},
		{"a list in two lines", []string{`If-None-Match: "x"`, "If-None-Match: " + etag}, 304},
		{"another tag", []string{`If-None-Match: "x"`}, 200},
		{"the tag without quotes", []string{"If-None-Match: " + strings.Trim(etag, `"`)}, 200},
		{"the tag in upper case", []string{"If-None-Match: " + strings.ToUpper(etag)}, 200},
		{"a tag without end", []string{`If-None-Match: "x`}, 200},
		{"another tag and a date that would match", []string{`If-None-Match: "x"`, "If-Modified-Since: " + future}, 200},
		{"the tag and a date that would not", []string{"If-None-Match: " + etag, "If-Modified-Since: " + past}, 304},
		{"the date", []string{"If-Modified-Since: " + then}, 304},
		{"a later date", []string{"If-Modified-Since: " + future}, 304},
		{"an earlier date", []string{"If-Modified-Since: " + past}, 200},
		{"a date that is none", []string{"If-Modified-Since: soon"}, 200},
		{"If-Match with the tag", []string{"If-Match: " + etag}, 200},
		{"If-Match with the tag, weak", []string{"If-Match: W/" + etag}, 412},
		{"If-Match with another", []string{`If-Match: "x"`}, 412},
		{"changed since", []string{"If-Unmodified-Since: " + past}, 412},
		{"unchanged since", []string{"If-Unmodified-Since: " + then}, 200},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			t.Run(tt.name+" "+method, func(t *testing.T) {
				r := ask(h, method, "/long/llm.json", tt.fields...)
				if r.StatusCode != tt.want {
					t.Fatalf("answered %d, want %d", r.StatusCode, tt.want)
				}
				if got := len(bodyOf(t, r)); got > 0 && (tt.want != 200 || method == "HEAD") {
					t.Errorf("a body of %d octets", got)
				}
				for _, name := range []string{"Etag", "Cache-Control", "Vary", "Link", "Last-Modified"} {
					if r.Header.Get(name) == "" {
						t.Errorf("%d without %s", tt.want, name)
					}
				}
			})
		}
	}
}

func TestRangesFollowIfRange(t *testing.T) {
	h, _ := openSite(t, nil)
	whole := bodyOf(t, ask(h, "GET", "/long/llm.json"))
	etag := ask(h, "HEAD", "/long/llm.json").Header.Get("Etag")
	for _, tt := range []struct {
		name   string
		fields []string
		want   int
	}{
		{"a range", []string{"Range: bytes=0-9"}, 206},
		{"if it is still the same", []string{"Range: bytes=0-9", "If-Range: " + etag}, 206},
		{"a weak validator", []string{"Range: bytes=0-9", "If-Range: W/" + etag}, 200},
		{"another validator", []string{"Range: bytes=0-9", `If-Range: "sha256-00"`}, 200},
		{"a range of what may be compressed", []string{"Range: bytes=0-9", "If-Range: " + etag, "Accept-Encoding: gzip"}, 200},
		{"beyond the end", []string{"Range: bytes=999999-"}, 416},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := ask(h, "GET", "/long/llm.json", tt.fields...)
			body := bodyOf(t, r)
			if r.StatusCode != tt.want || tt.want == 206 && !bytes.Equal(body, whole[:10]) {
				t.Errorf("%d with %q, want %d", r.StatusCode, body, tt.want)
			}
		})
	}
}

func TestHEADHasTheHeaderOfGET(t *testing.T) {
	h, _ := openSite(t, nil)
	for _, path := range []string{"/long/llm.json", "/llm.json", "/llm-sitemap.json", "/llm-policy.json", "/nothing"} {
		for _, fields := range [][]string{nil, {"Accept-Encoding: gzip"}, {"If-None-Match: *"}, {"User-Agent: one"}} {
			get, head := ask(h, "GET", path, fields...), ask(h, "HEAD", path, fields...)
			if get.StatusCode != head.StatusCode || !maps.EqualFunc(get.Header, head.Header, slices.Equal) {
				t.Errorf("%s %q: GET %d %v, HEAD %d %v", path, fields, get.StatusCode, get.Header, head.StatusCode, head.Header)
			}
			if len(bodyOf(t, head)) > 0 {
				t.Errorf("%s %q: HEAD with a body", path, fields)
			}
		}
	}
}

func TestCodingsShareTheirETagAndVary(t *testing.T) {
	h, _ := openSite(t, nil)
	for _, path := range []string{"/long/llm.json", "/llm-sitemap.json"} { // of the second gzip lies there ready
		plain := bodyOf(t, ask(h, "GET", path))
		etag := ask(h, "GET", path).Header.Get("Etag")
		for _, tt := range []struct {
			accept, coding string
		}{
			{"gzip", "gzip"}, {"br, GZIP;q=0.5", "gzip"}, {"*", "gzip"}, {"gzip;q=0", ""}, {"*, gzip;q=0.0", ""}, {"br", ""}, {"", ""}, {"gzip;q=x", ""},
			{"gzip, deflate, br, zstd", "either"}, {"ZSTD", "zstd"}, {"zstd;q=0.5, gzip;q=0.8", "gzip"}, {"zstd;q=0.8, gzip;q=0.5", "either"},
			{"zstd;q=0, gzip", "gzip"}, {"zstd, gzip;q=0", "zstd"}, {"zstd;q=0, gzip;q=0, *", ""}, {"*, zstd;q=0.1", "gzip"},
		} {
			if tt.coding == "either" {
				tt.coding = map[string]string{"/long/llm.json": "zstd", "/llm-sitemap.json": "gzip"}[path]
			}
			r := ask(h, "GET", path, "Accept-Encoding: "+tt.accept)
			body := bodyOf(t, r)
			if fmt.Sprint(len(body)) != r.Header.Get("Content-Length") || r.Header.Get("Etag") != etag || r.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s %q: %v over %d octets", path, tt.accept, r.Header, len(body))
			}
			if got := r.Header.Get("Content-Encoding"); got != tt.coding {
				t.Errorf("%s %q: Content-Encoding %q, want %q", path, tt.accept, got, tt.coding)
			}
			if !bytes.Equal(decoded(t, tt.coding, body), plain) {
				t.Errorf("%s %q: another body", path, tt.accept)
			}
		}
	}
}

func decoded(t *testing.T, coding string, body []byte) []byte {
	t.Helper()
	var in io.Reader = bytes.NewReader(body)
	var err error
	switch coding {
	case "gzip":
		in, err = gzip.NewReader(in)
	case "zstd":
		var h zstd.Header
		if err := h.Decode(body); err != nil || h.WindowSize > 8<<20 {
			t.Errorf("a window of %d octets, %v", h.WindowSize, err) // RFC 9659
		}
		in, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// TestNothingHopByHopIsSent looks at the octets on the wire, and at what
// follows a 304 on its connection.
func TestNothingHopByHopIsSent(t *testing.T) {
	h, _ := openSite(t, nil)
	s := httptest.NewServer(h)
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, tt := range []struct {
		fields string
		want   int
	}{{"If-None-Match: *\r\n", 304}, {"", 200}, {"Accept-Encoding: gzip\r\n", 200}, {"If-None-Match: *\r\n", 304}} {
		if _, err := fmt.Fprintf(conn, "GET /long/llm.json HTTP/1.1\r\nHost: x\r\n%s\r\n", tt.fields); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(in, nil)
		if err != nil || r.StatusCode != tt.want {
			t.Fatalf("%q: %v, %v; want %d", tt.fields, r, err, tt.want)
		}
		io.Copy(io.Discard, r.Body)
		for _, name := range []string{"Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Proxy-Authenticate"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s is sent", name)
			}
		}
		if len(r.TransferEncoding) > 0 || tt.want == 200 && r.ContentLength <= 0 || tt.want == 304 && r.Header.Get("Content-Length") != "" {
			t.Errorf("transfer coding %q, length %d", r.TransferEncoding, r.ContentLength)
		}
	}
	if n := in.Buffered(); n != 0 {
		t.Errorf("%d octets follow", n)
	}
}

func TestHTTP2AnswersAlike(t *testing.T) {
	h, _ := openSite(t, nil)
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	for _, method := range []string{"GET", "HEAD"} {
		request, err := http.NewRequest(method, s.URL+"/long/llm.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "identity")
		r, err := s.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		want := ask(h, method, "/long/llm.json")
		r.Header.Del("Date")
		if body := bodyOf(t, r); r.ProtoMajor != 2 || !bytes.Equal(body, bodyOf(t, want)) || !maps.EqualFunc(r.Header, want.Header, slices.Equal) {
			t.Errorf("%s over %s: %v, want %v", method, r.Proto, r.Header, want.Header)
		}
		r.Body.Close()
	}
}

// moved stands for documents of which one has another place.
type moved struct{ tct.Documents }

func TestWhatIsNoPageIsNoEmptyPage(t *testing.T) {
	h, dir := openSite(t, nil)
	for _, tt := range []struct {
		name, method, path string
		want               int
	}{
		{"nothing", "GET", "/nothing/llm.json", 404},
		{"a listing", "GET", "/tag/a/llm.json", 404},
		{"a folder", "GET", "/long/", 404},
		{"the folder above", "GET", "/../../etc/passwd.llm.json", 404},
		{"the folder above, encoded", "GET", "/%2e%2e/%2e%2e/x.llm.json", 404},
		{"a dot file", "GET", "/.llm-export", 404},
		{"a compressed sitemap by its own name", "GET", "/llm-sitemap.json.gz", 404},
		{"another method", "POST", "/long/llm.json", 405},
		{"the well-known path", "GET", "/.well-known/llm-sitemap.json", 308},
	} {
		r := ask(h, tt.method, tt.path)
		if r.StatusCode != tt.want || len(bodyOf(t, r)) > 0 {
			t.Errorf("%s: %d, want %d without a body", tt.name, r.StatusCode, tt.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "long", "llm.json"), []byte(strings.Replace(string(pageAt(base+"long/", longText, 5).Payload), "Words", "Lies", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := ask(h, "GET", "/long/llm.json"); r.StatusCode != 500 || len(bodyOf(t, r)) > 0 {
		t.Errorf("a payload that was changed behind its hash: %d, want 500", r.StatusCode)
	}
}

func (m moved) Open(ctx context.Context, path string) (*tct.Served, error) {
	switch path {
	case "/old.json":
		return &tct.Served{Moved: "/long/llm.json"}, nil
	case "/gone.json":
		return nil, tct.ErrGone
	}
	return m.Documents.Open(ctx, path)
}

func TestMovedAndGonePathsSaySo(t *testing.T) {
	h, _ := openSite(t, func(_ *tct.Tree, h *tct.Handler) { h.Documents = moved{h.Documents} })
	if r := ask(h, "GET", "/old.json"); r.StatusCode != 308 || r.Header.Get("Location") != "/long/llm.json" {
		t.Errorf("moved: %d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	if r := ask(h, "GET", "/gone.json"); r.StatusCode != 410 {
		t.Errorf("gone: %d", r.StatusCode)
	}
}

func TestNothingIsServedInTheClear(t *testing.T) {
	h, _ := openSite(t, func(_ *tct.Tree, h *tct.Handler) { h.Clear = nil })
	r := ask(h, "GET", "/long/llm.json?x=1")
	if r.StatusCode != 308 || r.Header.Get("Location") != "https://example.com/long/llm.json?x=1" || len(bodyOf(t, r)) > 0 {
		t.Errorf("%d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	s := httptest.NewTLSServer(h)
	defer s.Close()
	if r, err := s.Client().Get(s.URL + "/long/llm.json"); err != nil || r.StatusCode != 200 {
		t.Errorf("over TLS: %v, %v", r, err)
	}
}

func TestWhatIsProtectedIsProtectedWithItsSitemap(t *testing.T) {
	for _, challenge := range []string{"", "Bearer"} {
		h, _ := openSite(t, func(tree *tct.Tree, h *tct.Handler) {
			tree.Hide = func(u string) bool { return u == base+"long/" }
			h.Authorise = func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer x" }
			h.Challenge = challenge
		})
		denied := map[string]int{"": 404, "Bearer": 401}[challenge]
		etag := `"` + tct.FormatHash(pageAt(base+"long/", longText, 5).Fingerprint) + `"`
		for _, path := range []string{"/long/llm.json", "/llm-sitemap.json"} {
			for _, method := range []string{"GET", "HEAD"} {
				for _, fields := range [][]string{nil, {"If-None-Match: *"}, {"If-None-Match: " + etag}, {"Range: bytes=0-1"}} {
					r := ask(h, method, path, fields...)
					if r.StatusCode != denied || r.Header.Get("Etag") != "" || r.Header.Get("Link") != "" || r.Header.Get("Www-Authenticate") != challenge || len(bodyOf(t, r)) > 0 {
						t.Errorf("%s %s %q: %d %v", method, path, fields, r.StatusCode, r.Header)
					}
				}
			}
			r := ask(h, "GET", path, "Authorization: Bearer x")
			if r.StatusCode != 200 || r.Header.Get("Cache-Control") != "private, no-store" {
				t.Errorf("%s with the credential: %d %v", path, r.StatusCode, r.Header)
			}
		}
		if r := ask(h, "GET", "/b/llm.json"); r.StatusCode != 200 || strings.Contains(r.Header.Get("Cache-Control"), "private") {
			t.Errorf("a page that is not protected: %d", r.StatusCode)
		}
	}
}

func TestEqualETagsMeanEqualOctets(t *testing.T) {
	seen := make(map[string]string)
	dir := t.TempDir()
	c := tct.ExportConfig{Dir: dir}
	for _, p := range []content.Page{
		pageAt(base, "a", 1), pageAt(base, "A", 1), pageAt(base, "a ", 1), pageAt(base, "a", 2), pageAt(base, "b", 2), pageAt(base, "a", 1),
	} {
		exportTo(t, c, []content.Page{p})
		tree, err := tct.OpenTree(dir, tct.Mapping{Base: base})
		if err != nil {
			t.Fatal(err)
		}
		h := tree.Handler()
		h.Clear = func(*http.Request) bool { return true }
		for _, path := range []string{"/llm.json", "/llm-sitemap.json"} {
			r := ask(h, "GET", path)
			etag, body := r.Header.Get("Etag"), string(bodyOf(t, r))
			if old, ok := seen[path+etag]; ok && old != body {
				t.Errorf("%s stands for %s and for %s", etag, old, body)
			}
			seen[path+etag] = body
		}
		tree.Close()
	}
	if len(seen) != 4+5 {
		t.Errorf("%d revisions have ETags of their own: %v", len(seen), seen)
	}
}
