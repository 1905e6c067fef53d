package arc

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// repeated hands out a text between two others, n times, without holding it.
func repeated(head, text string, n int, tail string) io.Reader {
	all := []io.Reader{strings.NewReader(head)}
	const chunk = 1000
	block := strings.Repeat(text, chunk)
	for range n / chunk {
		all = append(all, strings.NewReader(block))
	}
	return io.MultiReader(append(all, strings.NewReader(tail))...)
}

// within runs f, and checks by how much the heap has grown at its worst, from one
// that earlier tests have left small.
func within(t *testing.T, octets uint64, f func()) {
	t.Helper()
	held := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	debug.FreeOSMemory()
	before := held()
	began := time.Now()
	f()
	after := held()
	t.Logf("the heap has grown by %d MiB, in %v", (after-min(before, after))>>20, time.Since(began).Round(time.Millisecond))
	if after > before+octets {
		t.Errorf("the heap has grown by %d octets, more than %d", after-before, octets)
	}
}

func TestHostileSitemapsAreTypedErrorsInBoundedMemory(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+p+",", 9), ",") + "]\n"
	}
	head := strings.TrimSuffix(sitemapOf(), "]}")
	entry := entryOf("a")
	for _, tt := range []struct {
		name   string
		text   func() io.Reader
		limits Limits
		want   error
	}{
		{"a bomb of aliases", func() io.Reader { return strings.NewReader(bomb) }, Limits{}, ErrMalformed},
		{"a million entries", func() io.Reader { return repeated(head+entry, ","+entry, 1_000_000, "]}") }, Limits{}, ErrLimit},
		{"a million entries of nothing", func() io.Reader { return repeated(head+"0", ",0", 1_000_000, "]}") }, Limits{}, ErrLimit},
		{"an entry of 200 MiB", func() io.Reader { return repeated(head+`{"url":"`, strings.Repeat("x", 2000), 100_000, `"}]}`) }, Limits{}, ErrLimit},
		{"200 MiB of spaces", func() io.Reader { return repeated(head, strings.Repeat(" ", 2000), 100_000, "]}") }, Limits{}, ErrLimit},
		{"100,000 members", func() io.Reader { return repeated(`{"a":1`, `,"\u0000":1`, 100_000, "}") }, Limits{}, ErrMalformed},
		{"more octets than allowed", func() io.Reader { return repeated(head+entry, ","+entry, 1000, "]}") }, Limits{MaxSize: 1000}, ErrLimit},
		{"an entry that is too deep", func() io.Reader {
			return strings.NewReader(sitemapOf(entryOf("a", `"ai_snapshot":`+strings.Repeat(`{"a":`, 1000)+"1"+strings.Repeat("}", 1000))))
		}, Limits{}, nil},
		{"a head that is too deep", func() io.Reader {
			return strings.NewReader(`{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}")
		}, Limits{}, ErrLimit},
		{"brackets without end", func() io.Reader { return repeated(`{"a":`, "[", 2_000_000, "") }, Limits{}, ErrMalformed},
		{"YAML that is too long", func() io.Reader { return repeated("a: ", "xxxxxxxx", 1_000_000, "") }, Limits{}, ErrLimit},
		{"YAML with too many nodes", func() io.Reader { return repeated("a: [", "1,", 1_000_000, "1]") }, Limits{}, ErrLimit},
		{"YAML that is too deep", func() io.Reader { return repeated("a: ", "[", 100_000, strings.Repeat("]", 100_000)) }, Limits{}, ErrMalformed},
		{"YAML that is deep by its indents", func() io.Reader { return repeated("", "- ", 100_000, "1") }, Limits{}, ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			within(t, 256<<20, func() {
				began := time.Now()
				entries := 0
				_, err := ReadSitemap(tt.text(), tt.limits, Visitor{Entry: func(Entry) error { entries++; return nil }})
				if !errors.Is(err, tt.want) || tt.want == nil && entries != 0 {
					t.Errorf("error %v with %d entries, want %v", err, entries, tt.want)
				}
				if took := time.Since(began); took > 2*time.Minute {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A page may lead anywhere by its URL, its name or a redirect.
func TestASourceGoesNowhereItWasNotSent(t *testing.T) {
	asked := 0
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer secret.Close()
	w := newWeb(t)
	w.handle("/a", func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, secret.URL+"/x", http.StatusFound) })
	w.handle("/private", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "http://10.0.0.1/x", http.StatusFound)
	})
	w.sitemap(
		`{"url":"`+w.url("/a")+`","ai_indexable":true}`,
		`{"url":"`+w.url("/private")+`","ai_indexable":true}`,
		`{"url":"`+secret.URL+`/b","ai_indexable":true}`,
		`{"url":"http://10.0.0.1/c","ai_indexable":true}`,
		`{"url":"https://elsewhere.test/d","ai_indexable":true,"ai_snapshot":{"content":"forged"}}`,
	)
	r := w.run(w.source(nil), nil)
	if len(r.pages) != 0 || len(r.skipped) != 5 || asked != 0 {
		t.Errorf("%d pages, %d requests, skipped %v", len(r.pages), asked, r.skipped)
	}
	for url, k := range r.skipped {
		if k.Err == nil {
			t.Errorf("%s is withdrawn: %s", url, k.Reason)
		}
	}
	if k := r.skipped[w.url("/private")]; !errors.Is(k.Err, fetch.ErrForbiddenAddress) {
		t.Errorf("a redirect to a private address: %v", k.Err)
	}
}

// A name may lead to an address that is not public; nothing but the operator's own
// list exempts it.
func TestASitemapAtAPrivateAddressIsRefused(t *testing.T) {
	client, err := fetch.New(fetch.Config{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, at := range []string{"http://127.0.0.1:1/arc-sitemap.json", "http://localhost:1/arc-sitemap.json", "http://10.1.2.3/arc-sitemap.json", "http://169.254.169.254/arc-sitemap.json"} {
		s, err := NewSource(SourceConfig{Location: at, Dir: t.TempDir(), Client: client})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range s.Pages(t.Context(), nil, nil) {
			if !errors.Is(err, fetch.ErrForbiddenAddress) {
				t.Errorf("%s: %v", at, err)
			}
		}
		s.Close()
	}
}

func TestABombOfGzipIsRefused(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.Copy(z, repeated(strings.TrimSuffix(sitemapOf(), "]}"), strings.Repeat(" ", 1000), 90_000, "]}")); err != nil {
		t.Fatal(err)
	}
	z.Close()
	w := newWeb(t)
	w.handle("/arc-sitemap.json", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		rw.Write(packed.Bytes())
	})
	within(t, 128<<20, func() {
		if r := w.run(w.source(nil), nil); !errors.Is(r.err, fetch.ErrTooLarge) {
			t.Errorf("%d octets that unpack to 90 MB: %v", packed.Len(), r.err)
		}
	})
}
