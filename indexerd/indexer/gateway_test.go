package indexer_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/gateway"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
)

// A mirrored is an agreement behind a gateway, which is asked over a socket.
type mirrored struct {
	*indexer.Agreed
	t  testing.TB
	g  *gateway.Gateway
	s  *httptest.Server
	id string
}

func passedOn(d *grants.Draft) {
	d.Terms.Redistribution, d.Lifetime = grants.Allowed, 20*24*time.Hour
}

func newMirrored(t testing.TB, change func(*grants.Draft), rate float64) *mirrored {
	t.Helper()
	m := &mirrored{Agreed: indexer.Agree(t, change), t: t}
	m.serve(gateway.Config{Rate: rate})
	return m
}

func (m *mirrored) serve(c gateway.Config) {
	c.Indexer, c.Purpose, c.URL, c.Log = m.X, grants.SearchIndex, mirror, slog.New(slog.DiscardHandler)
	m.g = gateway.New(c)
	m.s = httptest.NewUnstartedServer(m.g)
	m.s.Listener = m.g.Listener(m.s.Listener)
	m.s.Start()
	m.t.Cleanup(m.s.Close)
}

// Push brings pages, behind the first of which the collection has its name.
func (m *mirrored) Push(pages map[string]string) {
	m.t.Helper()
	m.Agreed.Push(pages)
	for id := range publishersOf(m.t, m.X, grants.SearchIndex) {
		m.id = id
	}
}

// An answer is what came over the socket: the header's lines in order, but for Date.
type answer struct {
	status string
	lines  []string
	body   []byte
}

func (a answer) field(name string) string {
	for _, l := range a.lines {
		if value, ok := strings.CutPrefix(l, name+": "); ok {
			return value
		}
	}
	return ""
}

// ask sends the octets of one request, and reads those of its answer.
func (m *mirrored) ask(method, path string, fields ...string) answer {
	m.t.Helper()
	conn, err := net.Dial("tcp", m.s.Listener.Addr().String())
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: mirror.example\r\nConnection: close\r\n", method, path)
	for _, f := range fields {
		request += f + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		m.t.Fatal(err)
	}
	raw, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		m.t.Fatal(err)
	}
	head, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok {
		m.t.Fatalf("%s %s: %q", method, path, raw)
	}
	lines := strings.Split(string(head), "\r\n")
	a := answer{status: strings.TrimPrefix(lines[0], "HTTP/1.1 "), body: body}
	for _, l := range lines[1:] {
		if !strings.HasPrefix(l, "Date: ") && l != "Connection: close" {
			a.lines = append(a.lines, l)
		}
	}
	slices.Sort(a.lines)
	return a
}

const aLongText = "Words about lighthouses, and about the keepers of lighthouses, and about their lamps. "

func TestTheGatewayAnswersByteForByteAsTheFormatsAsk(t *testing.T) {
	m := newMirrored(t, passedOn, 0)
	url, text := indexer.Site+"a", strings.Repeat(aLongText, 9)
	m.Push(map[string]string{url: text, indexer.Site + "b": "Other words."})
	page := "/" + m.id + "/llm/" + murl(url)
	modified := m.Now().Format(http.TimeFormat)
	usage := "Content-Usage: search=y, train-ai=n"
	canonical := "Link: <" + url + `>; rel="canonical"`
	index := "Link: </" + m.id + `/llm-sitemap.json>; rel="index"; type="application/json"`
	described := "Link: </" + m.id + `/llm-policy.json>; rel="describedby"; type="application/json"`
	json := "Content-Type: application/json; charset=utf-8"
	for _, tt := range []struct {
		name, path string
		kept       []string // in every answer
		whole      []string // in that of a whole representation alone
		gzip       bool
	}{
		{"a page", page, []string{usage, "Last-Modified: " + modified, canonical, index, "Vary: Accept-Encoding"}, []string{json}, true},
		{"a sitemap", "/" + m.id + "/llm-sitemap.json", []string{usage, described, "Vary: Accept-Encoding"}, []string{json}, true},
		{"the index", "/llm-sitemap.json", []string{"Vary: Accept-Encoding"}, []string{json}, false},
		{"the policy", "/" + m.id + "/llm-policy.json", []string{usage, "Last-Modified: " + modified, "Vary: Accept-Encoding"}, []string{json}, true},
		{"a sitemap of SCP", "/" + m.id + "/sitemap.xml", []string{usage},
			[]string{"Content-Type: application/xml; charset=utf-8", "Accept-Ranges: bytes", "Last-Modified: " + modified}, false},
		{"a snapshot", "/" + m.id + "/" + m.id + "-snapshot.scp.zst", []string{usage},
			[]string{"Content-Type: application/scp", "Content-Encoding: zstd", "Accept-Ranges: bytes", "Last-Modified: " + modified}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := *m
			m.t = t
			first := m.conditional(t, tt.path, append([]string{"Cache-Control: no-cache", "X-Content-Type-Options: nosniff"}, tt.kept...), tt.whole, modified)
			m.compressed(t, tt.path, first, tt.gzip)
		})
	}
	if got := m.ask("GET", page); !bytes.Equal(got.body, indexer.Payload(url, text)) {
		t.Errorf("the page is %q", got.body)
	}
}

// conditional asks for a path under every condition, and compares each line of each
// answer. It gives the answer without a condition.
func (m *mirrored) conditional(t *testing.T, path string, kept, whole []string, modified string) answer {
	t.Helper()
	first := m.ask("GET", path)
	etag := first.field("Etag")
	if len(etag) < 66 || first.status != "200 OK" {
		t.Fatalf("%s with %q", first.status, first.lines)
	}
	kept = append(kept, "Etag: "+etag)
	dated := strings.Contains(strings.Join(append(slices.Clone(kept), whole...), " "), "Last-Modified")
	for _, c := range conditions(etag, modified, dated) {
		for _, method := range []string{"GET", "HEAD"} {
			got := m.ask(method, path, c.fields...)
			want := slices.Clone(kept)
			if c.status == "200 OK" {
				want = append(append(want, whole...), fmt.Sprintf("Content-Length: %d", len(first.body)))
			}
			if slices.Sort(want); got.status != c.status || !slices.Equal(got.lines, want) {
				t.Errorf("%s with %q: %s\n%q, want %s\n%q", method, c.fields, got.status, got.lines, c.status, want)
			}
			body := []byte{}
			if c.status == "200 OK" && method == "GET" {
				body = first.body
			}
			if !bytes.Equal(got.body, body) {
				t.Errorf("%s with %q: a body of %d octets, want %d", method, c.fields, len(got.body), len(body))
			}
		}
	}
	return first
}

type condition struct {
	fields []string
	status string
}

// conditions are requests about a representation, with what RFC 9110 and both formats
// have them answered.
func conditions(etag, modified string, dated bool) []condition {
	const ok, same = "200 OK", "304 Not Modified"
	earlier, later := "Mon, 02 Nov 2026 11:00:00 GMT", "Tue, 03 Nov 2099 11:00:00 GMT"
	bySince := ok
	if dated {
		bySince = same
	}
	return []condition{
		{nil, ok},
		{[]string{"If-None-Match: " + etag}, same},
		{[]string{"If-None-Match: W/" + etag}, same},
		{[]string{`If-None-Match: "x", ` + etag}, same},
		{[]string{"If-None-Match: *"}, same},
		{[]string{`If-None-Match: "x"`}, ok},
		{[]string{"If-None-Match: " + strings.Trim(etag, `"`)}, ok},
		{[]string{`If-None-Match: "x"`, "If-Modified-Since: " + later}, ok},
		{[]string{"If-None-Match: " + etag, "If-Modified-Since: " + earlier}, same},
		{[]string{"If-Modified-Since: " + modified}, bySince},
		{[]string{"If-Modified-Since: " + later}, bySince},
		{[]string{"If-Modified-Since: " + earlier}, ok},
		{[]string{"If-Modified-Since: today"}, ok},
	}
}

// compressed asks for gzip, and for zstd as well: the same representation under the same
// ETag.
func (m *mirrored) compressed(t *testing.T, path string, plain answer, want bool) {
	t.Helper()
	got := m.ask("GET", path, "Accept-Encoding: gzip")
	if want != (got.field("Content-Encoding") == "gzip") || got.field("Etag") != plain.field("Etag") || got.field("Content-Length") != fmt.Sprint(len(got.body)) {
		t.Errorf("with gzip: %q over %d octets", got.lines, len(got.body))
	}
	both := m.ask("GET", path, "Accept-Encoding: gzip, deflate, br, zstd")
	zstd := plain.field("Content-Encoding")
	if want {
		zstd = "zstd"
	}
	if both.field("Content-Encoding") != zstd || both.field("Etag") != plain.field("Etag") || both.field("Content-Length") != fmt.Sprint(len(both.body)) {
		t.Errorf("with zstd: %q over %d octets", both.lines, len(both.body))
	}
	if !want {
		return
	}
	if body, err := unpacked(both.body); err != nil || !bytes.Equal(body, plain.body) {
		t.Errorf("with zstd: %q, %v", body, err)
	}
	if body, err := gunzipped(got.body); err != nil || !bytes.Equal(body, plain.body) {
		t.Errorf("with gzip: %q, %v", body, err)
	}
}

func gunzipped(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func murl(url string) string {
	return fmt.Sprintf("u-%x.json", sha256.Sum256([]byte(url)))
}

// TestTheNextRequestBehindTheEndOfConsentIsRefused ends consent in each way, and asks
// for all that was handed out before, as somebody who has it, too.
func TestTheNextRequestBehindTheEndOfConsentIsRefused(t *testing.T) {
	denied := func(d *grants.Draft) { d.Lifetime = 20 * 24 * time.Hour }
	other := func(d *grants.Draft) { passedOn(d); d.Purposes = grants.Purposes{grants.Archive} }
	for _, tt := range []struct {
		name   string
		end    func(m *mirrored)
		status string
	}{
		{"revoked", func(m *mirrored) { m.Revoke(grants.DispositionStop) }, "410 Gone"},
		{"revoked, with all that is held", func(m *mirrored) { m.Revoke(grants.DispositionDelete) }, "410 Gone"},
		{"a newer policy passes nothing on", func(m *mirrored) { m.Renew(denied) }, "404 Not Found"},
		{"a newer grant is for another purpose", func(m *mirrored) { m.Renew(other) }, "404 Not Found"},
		{"expired", func(m *mirrored) { m.Forward(20 * 24 * time.Hour) }, "404 Not Found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMirrored(t, passedOn, 0)
			url := indexer.Site + "a"
			m.Push(map[string]string{url: "words"})
			paths := []string{"/llm/" + murl(url), "/llm-sitemap.json", "/llm-policy.json", "/sitemap.xml", "/" + m.id + "-snapshot.scp.zst"}
			etags := make(map[string]string)
			for _, p := range paths {
				a := m.ask("GET", "/"+m.id+p)
				if etags[p] = a.field("Etag"); a.status != "200 OK" {
					t.Fatalf("%s: %s", p, a.status)
				}
			}
			tt.end(m)
			for _, p := range paths {
				for _, fields := range [][]string{nil, {"If-None-Match: " + etags[p]}, {"Range: bytes=0-9"}} {
					a := m.ask("GET", "/"+m.id+p, fields...)
					if a.status != tt.status || len(a.body) > 0 || a.field("Cache-Control") != "no-store" || a.field("Content-Usage")+a.field("Etag")+a.field("Link") != "" {
						t.Errorf("%s with %q: %s, %q", p, fields, a.status, a.lines)
					}
				}
			}
			if a := m.ask("GET", "/llm-sitemap.json"); a.status != "404 Not Found" {
				t.Errorf("the index: %s, %q", a.status, a.body)
			}
		})
	}
}

// TestAPageThatChangesIsSoInEveryList: what is kept between requests is never older than
// the page that it lists.
func TestAPageThatChangesIsSoInEveryList(t *testing.T) {
	m := newMirrored(t, passedOn, 0)
	a, b := indexer.Site+"a", indexer.Site+"b"
	m.Push(map[string]string{a: "words", b: "words"})
	for i, change := range []map[string]string{{a: "other words"}, {b: ""}, {a: ""}, {b: "words again"}} {
		before := m.ask("GET", "/"+m.id+"/llm-sitemap.json")
		m.Push(change)
		after := m.ask("GET", "/"+m.id+"/llm-sitemap.json", "If-None-Match: "+before.field("Etag"))
		if after.status != "200 OK" || bytes.Equal(after.body, before.body) {
			t.Errorf("change %d: the sitemap is still %s", i, after.body)
		}
		for url, text := range change {
			page := m.ask("GET", "/"+m.id+"/llm/"+murl(url))
			listed := bytes.Contains(after.body, []byte(strings.Trim(page.field("Etag"), `"`)))
			if text == "" && page.status != "404 Not Found" || text != "" && (page.status != "200 OK" || !listed) {
				t.Errorf("change %d: the page is %s, and listed: %t", i, page.status, listed)
			}
		}
	}
}

func TestNothingElseIsHandedOut(t *testing.T) {
	m := newMirrored(t, func(d *grants.Draft) { d.Lifetime = 20 * 24 * time.Hour }, 0)
	url := indexer.Site + "a"
	m.Push(map[string]string{url: "words"})
	r, err := m.X.Reading(grants.SearchIndex, false)
	if err != nil {
		t.Fatal(err)
	}
	offers, err := r.Offers()
	r.Close()
	if err != nil || len(offers) != 1 {
		t.Fatalf("%v, %v", offers, err)
	}
	id := export.ID(&offers[0])
	page := murl(url)
	for _, path := range []string{
		"/llm-sitemap.json", "/" + id + "/llm-sitemap.json", "/" + id + "/llm-policy.json", "/" + id + "/llm/" + page, "/" + id + "/sitemap.xml",
		"/" + id + "/" + id + "-snapshot.scp.zst", "/" + id + "/", "/" + id, "/", "//", "/../../etc/passwd", "/" + id + "/../../etc/passwd", "/%2e%2e/x",
		"/" + id + "/llm/" + strings.ToUpper(page), "/" + id + "/llm/u-00.json", "/" + id + "/llm/" + page + "/", "/.well-known/llm-sitemap.json/x",
		"/" + strings.Repeat("a", 8000),
	} {
		if a := m.ask("GET", path); a.status != "404 Not Found" || len(a.body) > 0 {
			t.Errorf("%s: %s, %q", path, a.status, a.body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE"} {
		if a := m.ask(method, "/llm-sitemap.json"); a.status != "405 Method Not Allowed" || a.field("Allow") != "GET, HEAD" {
			t.Errorf("%s: %s, %q", method, a.status, a.lines)
		}
	}
	if f := m.g.Figures(); f.Refused == 0 || f.Refused+5 != f.Requests {
		t.Errorf("%d of %d requests are counted as refused", f.Refused, f.Requests)
	}
}

func TestAClientThatAsksTooOftenIsToldToWait(t *testing.T) {
	m := newMirrored(t, passedOn, 0.5)
	m.Push(map[string]string{indexer.Site + "a": "words"})
	statuses := make(map[string]int)
	for range 8 {
		a := m.ask("GET", "/llm-sitemap.json")
		statuses[a.status]++
		if a.status != "200 OK" && (a.field("Retry-After") == "" || a.field("Cache-Control") != "no-store" || len(a.body) > 0) {
			t.Errorf("%s, %q", a.status, a.lines)
		}
	}
	if statuses["200 OK"] < 5 || statuses["429 Too Many Requests"] < 1 || len(statuses) != 2 {
		t.Errorf("eight requests, of which five may come at once: %v", statuses)
	}
	if f := m.g.Figures(); f.Limited != uint64(statuses["429 Too Many Requests"]) {
		t.Errorf("%d are counted", f.Limited)
	}
}
