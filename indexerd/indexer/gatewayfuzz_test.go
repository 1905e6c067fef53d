package indexer_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
)

// FuzzGatewayRequest: whatever is asked for, and however, the gateway answers as it may,
// and hands out nothing but whole documents that it has, or parts of them.
func FuzzGatewayRequest(f *testing.F) {
	m := newMirrored(f, passedOn, 0)
	m.Push(map[string]string{indexer.Site + "a": strings.Repeat(aLongText, 9), indexer.Site + "b": "Other words."})
	page := "/" + m.id + "/llm/" + murl(indexer.Site+"a")
	paths := []string{
		page, "/" + m.id + "/llm/" + murl(indexer.Site+"b"), "/llm-sitemap.json", "/" + m.id + "/llm-sitemap.json", "/" + m.id + "/llm-policy.json",
		"/" + m.id + "/sitemap.xml", "/" + m.id + "/" + m.id + "-snapshot.scp.zst",
	}
	var documents [][]byte
	for _, p := range paths {
		a := m.ask("GET", p)
		if a.status != "200 OK" {
			f.Fatalf("%s: %s", p, a.status)
		}
		documents = append(documents, a.body)
		f.Add("GET", p, "gzip", a.field("Etag"), "bytes=1-5", a.field("Last-Modified"), "192.0.2.1")
		f.Add("HEAD", p, "zstd;q=1, gzip;q=0.5", `W/"x", *`, "bytes=-9,0-1", "Tue, 03 Nov 2099 11:00:00 GMT", "a, b")
	}
	f.Add("POST", "/..%2f%00/"+page, "*;q=x", `"`, "bytes=9-", "", "")
	f.Fuzz(func(t *testing.T, method, path, coding, etag, ranges, date, client string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, RequestURI: path, Host: "mirror.example", RemoteAddr: "192.0.2.9:9", Header: http.Header{
			"Accept-Encoding": {coding}, "If-None-Match": {etag}, "If-Match": {etag}, "If-Range": {etag}, "Range": {ranges}, "If-Modified-Since": {date}, "X-Forwarded-For": {client},
		}}
		for _, without := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Range"} {
			w := httptest.NewRecorder()
			m.g.ServeHTTP(w, r)
			judge(t, r, w, documents)
			r.Header.Del(without)
		}
	})
}

// judge holds an answer against what a request may be answered.
func judge(t *testing.T, r *http.Request, w *httptest.ResponseRecorder, documents [][]byte) {
	t.Helper()
	body := w.Body.Bytes()
	switch w.Code {
	case 200:
		if plain := decodedBody(t, w); r.Method == http.MethodHead && len(body) > 0 || r.Method != http.MethodHead && !contained(plain, documents, true) {
			t.Errorf("%s %s: %q", r.Method, r.URL, plain)
		}
	case 206:
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "multipart/") && !contained(body, documents, false) {
			t.Errorf("%s %s: a part %q", r.Method, r.URL, body)
		}
	case 304, 308, 404, 405, 412, 429:
		if len(body) > 0 {
			t.Errorf("%s %s: %d with %q", r.Method, r.URL, w.Code, body)
		}
	case 416:
	default:
		t.Errorf("%s %s: %d", r.Method, r.URL, w.Code)
	}
}

func contained(part []byte, documents [][]byte, whole bool) bool {
	for _, d := range documents {
		if bytes.Equal(d, part) || !whole && bytes.Contains(d, part) {
			return true
		}
	}
	return false
}

func decodedBody(t *testing.T, w *httptest.ResponseRecorder) []byte {
	t.Helper()
	body := w.Body.Bytes()
	var err error
	switch {
	case len(body) == 0 || w.Header().Get("Content-Type") == "application/scp":
	case w.Header().Get("Content-Encoding") == "gzip":
		body, err = gunzipped(body)
	case w.Header().Get("Content-Encoding") == "zstd":
		body, err = unpacked(body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return body
}
