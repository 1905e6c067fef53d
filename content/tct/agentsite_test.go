package tct_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

func TestASiteIsFoundByWhatItTells(t *testing.T) {
	const link = `</llm-sitemap.json>; rel="index"; type="application/json"`
	page := func(head string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<!doctype html><head>"+head+"</head>")
		}
	}
	for _, tt := range []struct {
		name      string
		home      func(http.ResponseWriter)
		wellKnown bool
		robots    string
		by        string
		asked     []string
	}{
		{"a Link header", func(w http.ResponseWriter) { w.Header().Set("Link", link); page("")(w) }, true, "Sitemap: /x.json", "a link of", []string{"/"}},
		{"a link in the head", page(`<link rel=index type=application/json href=/llm-sitemap.json>`), true, "", "a link of", []string{"/"}},
		{"the well-known path", page(""), true, "Sitemap: /x.json", "/.well-known/llm-sitemap.json", []string{"/", "/.well-known/llm-sitemap.json", "/llm-sitemap.json"}},
		{"robots.txt", page(""), false, "Sitemap: HOST/sitemap.xml\nSitemap: HOST/llm-sitemap.json", "robots.txt", []string{"/", "/.well-known/llm-sitemap.json", "/robots.txt"}},
		{"nothing", page(""), false, "Sitemap: HOST/sitemap.xml", "", []string{"/", "/.well-known/llm-sitemap.json", "/robots.txt"}},
		{"a homepage that fails", func(w http.ResponseWriter) { w.WriteHeader(500) }, true, "", "/.well-known/llm-sitemap.json", []string{"/", "/.well-known/llm-sitemap.json", "/llm-sitemap.json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigin(t, threePages, nil)
			o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				switch {
				case r.URL.Path == "/":
					tt.home(w)
				case r.URL.Path == "/robots.txt":
					io.WriteString(w, strings.ReplaceAll(tt.robots, "HOST", o.URL))
				case r.URL.Path == tct.WellKnown && !tt.wellKnown:
					w.WriteHeader(404)
				default:
					site.ServeHTTP(w, r)
				}
			}
			a := newAgent(t, o, func(c *tct.AgentConfig, _ *fetch.Config) { c.Sitemap, c.Site = "", o.URL+"/" })
			d, err := a.Discover(t.Context(), o.URL+"/")
			if tt.by == "" {
				if !errors.Is(err, tct.ErrNoSitemap) {
					t.Errorf("Discover = %+v, %v", d, err)
				}
			} else if err != nil || d.Sitemap != o.URL+"/llm-sitemap.json" || !strings.Contains(d.By, tt.by) {
				t.Errorf("Discover = %+v, %v", d, err)
			}
			if got := o.asked(); !slices.Equal(got, tt.asked) {
				t.Errorf("asked for %q, want %q", got, tt.asked)
			}
			if tt.by == "" {
				return
			}
			if got := sync1(t, a, memory{}); got.err != nil || len(got.pages) != 3 {
				t.Errorf("a run: %d pages, %v", len(got.pages), got.err)
			}
		})
	}
}

func TestAPageIsFoundWithoutASitemap(t *testing.T) {
	for _, tt := range []struct {
		name, header, head string
		want               string // path of the page that is taken; "" for none
		warns              bool
	}{
		{"a link in the head", "", `<link rel="alternate" type="application/json" href="a/llm.json">`, "/a/", false},
		{"a Link header", `</a/llm.json>; rel=alternate; type="application/json"`, "", "/a/", false},
		{"the header wins", `</a/llm.json>; rel=alternate; type="application/json"`, `<link rel="alternate" type="application/json" href="b.html.llm.json">`, "/a/", false},
		{"a path of no pattern", "", `<link rel="alternate" type="application/json" href="/x/y?id=7">`, "/a/", false},
		{"an M-URL of another page of the site", "", `<link rel="alternate" type="application/json" href="/b.html.llm.json">`, "/b.html", true},
		{"no link", "", "", "", false},
		{"a link to another site", "", `<link rel="alternate" type="application/json" href="https://example.org/a.json">`, "", false},
		{"a page of another site", "", `<link rel="alternate" type="application/json" href="/foreign">`, "", false},
		{"noindex", "", `<meta name=robots content=noindex><link rel="alternate" type="application/json" href="a/llm.json">`, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigin(t, threePages, nil)
			o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				switch r.URL.Path {
				case "/a/":
					w.Header().Set("Content-Type", "text/html")
					if tt.header != "" {
						w.Header().Set("Link", tt.header)
					}
					io.WriteString(w, "<head><base href=/>"+tt.head+"</head>")
				case "/foreign":
					p := pageAt("https://example.org/a/", "a", 1)
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("ETag", `"`+tct.FormatHash(p.Fingerprint)+`"`)
					w.Header().Set("Link", `<https://example.org/a/>; rel="canonical"`)
					w.Write(p.Payload)
				case "/x/y":
					r.URL.Path = "/a/llm.json"
					site.ServeHTTP(w, r)
				default:
					site.ServeHTTP(w, r)
				}
			}
			a := newAgent(t, o, nil)
			page, err := a.Page(t.Context(), o.URL+"/a/")
			if tt.want == "" {
				if err == nil {
					t.Errorf("took %+v", page)
				}
				return
			}
			if err != nil || page.URL != o.URL+tt.want || (len(page.Warnings) > 0) != tt.warns {
				t.Errorf("Page = %s with %q, %v", page.URL, page.Warnings, err)
			}
			for _, path := range o.asked() {
				if strings.HasPrefix(path, "/llm/") || strings.HasPrefix(path, "/a/llm/") {
					t.Errorf("guessed %s", path)
				}
			}
		})
	}
}

func TestThePolicyComesBeforeThePages(t *testing.T) {
	withPolicy := func(p tct.Policy) func(*tct.ExportConfig) {
		return func(c *tct.ExportConfig) { c.Policy = &p }
	}
	o := newOrigin(t, threePages, withPolicy(tct.Policy{AllowAITrain: content.No, AllowSearchIndexing: content.Yes, TermsOfService: "https://example.com/terms"}))
	got := sync1(t, newAgent(t, o, nil), memory{})
	if log := o.asked(); got.err != nil || len(log) != 5 || log[1] != "/llm-policy.json" {
		t.Errorf("asked for %q, %v", log, got.err)
	}
	if got.Preferences.Allows(content.PurposeAITrain) || !got.Preferences.Allows(content.PurposeSearchIndex) || got.Policy.TermsOfService == "" {
		t.Errorf("preferences %v, policy %+v", got.Preferences.Stated(), got.Policy)
	}
	for purpose, denied := range map[string]bool{content.PurposeAITrain: true, content.PurposeSearchIndex: false} {
		a := newAgent(t, o, func(c *tct.AgentConfig, _ *fetch.Config) { c.Purposes = []string{purpose} })
		m := memory{}
		got := sync1(t, a, m)
		if errors.Is(got.err, tct.ErrNotAllowed) != denied || (len(got.pages) == 0) != denied || (len(m) == 0) != denied {
			t.Errorf("for %s: %d pages, %v", purpose, len(got.pages), got.err)
		}
	}
	o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		if r.URL.Path == "/llm-policy.json" {
			io.WriteString(w, "{")
			return
		}
		site.ServeHTTP(w, r)
	}
	if got := sync1(t, newAgent(t, o, nil), memory{}); !errors.Is(got.err, tct.ErrPolicy) || len(got.pages) > 0 {
		t.Errorf("a policy that cannot be read: %d pages, %v", len(got.pages), got.err)
	}
}

func TestRateHintsAreRespected(t *testing.T) {
	o := newOrigin(t, threePages, func(c *tct.ExportConfig) { c.Policy = &tct.Policy{MaxRequestsPerSecond: 0.5, MaxRequestsPerDay: 2} })
	var slept time.Duration
	a := newAgent(t, o, func(_ *tct.AgentConfig, f *fetch.Config) {
		inner := f.Sleep
		f.Sleep = func(ctx context.Context, d time.Duration) error { slept += d; return inner(ctx, d) }
	})
	m := memory{}
	got := sync1(t, a, m)
	if got.err != nil || len(got.pages) != 2 || len(got.skipped) != 1 || got.skipped[0].Err == nil || slept < 2*time.Second {
		t.Errorf("%d pages, skipped %v, slept %v, %v", len(got.pages), got.skipped, slept, got.err)
	}
	if next := sync1(t, a, m); next.err != nil || next.Stats.Fetched != 1 || next.Stats.Spared != 2 {
		t.Errorf("the next day: %+v, %v", next.Stats, next.err)
	}
}

func TestAServerThatAsksForPeaceEndsTheRun(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		if r.URL.Path == "/b.html.llm.json" {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(429)
			return
		}
		site.ServeHTTP(w, r)
	}
	m := memory{}
	got := sync1(t, newAgent(t, o, nil), m)
	var status *fetch.StatusError
	if !errors.As(got.err, &status) || status.RetryAfter != time.Hour || len(got.pages) != 1 {
		t.Errorf("%d pages, %v", len(got.pages), got.err)
	}
	if _, kept := m[o.URL+"/llm-sitemap.json"]; kept || len(o.asked()) != 3 {
		t.Error("the sitemap is held, or the server was asked on")
	}
}

func TestARunIsGivenUpIfPageAfterPageFails(t *testing.T) {
	texts := make(map[string]string)
	for i := range 30 {
		texts[fmt.Sprintf("/%02d/", i)] = "x"
	}
	o := newOrigin(t, texts, nil)
	o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		if r.URL.Path != "/llm-sitemap.json" {
			w.WriteHeader(500)
			return
		}
		site.ServeHTTP(w, r)
	}
	if got := sync1(t, newAgent(t, o, nil), memory{}); got.err == nil || len(o.asked()) != 22 {
		t.Errorf("%v", got.err)
	}
}

func TestRobotsSpeakForMachineURLsToo(t *testing.T) {
	for _, tt := range []struct {
		name, robots string
		status       int
		pages        int // -1: the run ends
	}{
		{"nothing disallowed", "User-agent: *\nDisallow:", 200, 3},
		{"a page", "User-agent: test\nDisallow: /a/$", 200, 2},
		{"an M-URL", "User-agent: *\nDisallow: /*llm.json", 200, 0},
		{"no robots.txt", "", 404, 3},
		{"robots.txt out of reach", "", 503, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigin(t, threePages, nil)
			o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				if r.URL.Path == "/robots.txt" {
					w.WriteHeader(tt.status)
					io.WriteString(w, tt.robots)
					return
				}
				site.ServeHTTP(w, r)
			}
			a := newAgent(t, o, func(c *tct.AgentConfig, _ *fetch.Config) { c.IgnoreRobots = false })
			got := sync1(t, a, memory{})
			if (got.err != nil) != (tt.pages < 0) || len(got.pages) != max(tt.pages, 0) || got.err == nil && len(got.skipped) != 3-tt.pages {
				t.Fatalf("%d pages, skipped %v, %v", len(got.pages), got.skipped, got.err)
			}
			for _, k := range got.skipped {
				if k.Err != nil {
					t.Errorf("%s is skipped by %v, and not withdrawn", k.Location, k.Err)
				}
			}
		})
	}
}

func TestASitemapSpeaksForItsOwnOriginAlone(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	o := newOrigin(t, threePages, nil)
	for _, tt := range []struct{ name, cURL, mURL string }{
		{"an M-URL elsewhere", o.URL + "/x", other.URL + "/x.json"},
		{"an M-URL of a file", o.URL + "/x", "file:///etc/passwd"},
		{"an M-URL that is a script", o.URL + "/x", "javascript:alert(1)"},
		{"an M-URL of a cloud's secrets", o.URL + "/x", "http://169.254.169.254/latest"},
		{"a page elsewhere", "https://example.org/x", o.URL + "/a/llm.json"},
		{"a page whose origin only begins alike", o.URL + ".example.org/x", o.URL + "/a/llm.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o.instead = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
				fmt.Fprintf(w, `{"version":1,"items":[{"cUrl":%q,"mUrl":%q,"contentHash":%q}]}`, tt.cURL, tt.mURL, fooHash)
			}
			a := newAgent(t, o, func(_ *tct.AgentConfig, f *fetch.Config) { f.Allowed = append(f.Allowed, other.URL) })
			o.asked()
			got := sync1(t, a, memory{})
			if got.err != nil || len(got.pages) > 0 || len(got.skipped) != 1 || reached || len(o.asked()) != 1 {
				t.Errorf("pages %v, skipped %v, %v", got.pages, got.skipped, got.err)
			}
		})
	}
}

func TestAPageIsYieldedOnce(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	sitemap := tree(t, o.dir)[tct.SitemapFile]
	again := fmt.Sprintf(`{"cUrl":"%[1]s/a/","mUrl":"%[1]s/z.json","etag":%[2]s},{"cUrl":"%[1]s/z","mUrl":"%[1]s/llm.json","etag":%[2]s},`, o.URL, o.etag("/a/", "a"))
	sitemap = strings.Replace(sitemap, `"items":[`, `"items":[`+again, 1)
	o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		if r.URL.Path == "/llm-sitemap.json" {
			io.WriteString(w, sitemap)
			return
		}
		site.ServeHTTP(w, r)
	}
	got := sync1(t, newAgent(t, o, nil), memory{})
	if got.err != nil || len(got.order) != 3 || len(got.Warnings) != 2 || !slices.IsSorted(got.order) {
		t.Errorf("yielded %q, warned %q, %v", got.order, got.Warnings, got.err)
	}
}

func TestAnIndexIsReadWhole(t *testing.T) {
	o := newOrigin(t, threePages, func(c *tct.ExportConfig) { c.Bounds.MaxItems = 1 })
	a, m := newAgent(t, o, nil), memory{}
	if got := sync1(t, a, m); got.err != nil || len(got.pages) != 3 || len(o.asked()) != 1+3+3 {
		t.Fatalf("%d pages, %v", len(got.pages), got.err)
	}
	if got := sync1(t, a, m); !errors.Is(got.err, content.ErrUnchanged) || len(o.asked()) != 1 {
		t.Errorf("the second run: %v", got.err)
	}
	texts := maps.Clone(threePages)
	delete(texts, "/a/")
	o.publish(texts)
	o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/llm-sitemap-") {
			w.WriteHeader(404)
			return
		}
		site.ServeHTTP(w, r)
	}
	if got := sync1(t, a, m); got.err == nil || len(got.pages) > 0 {
		t.Errorf("with a sitemap that is missing: %d pages, %v", len(got.pages), got.err)
	}
	o.instead = nil
	if got := sync1(t, a, m); got.err != nil || len(got.pages) != 2 || got.Stats.Spared != 2 {
		t.Errorf("then: %d pages, %+v, %v", len(got.pages), got.Stats, got.err)
	}
}

func TestAHostileSiteTakesLittle(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   error
	}{
		{"a gzip bomb", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, `{"version":1`)
			for block := strings.Repeat(`,"x":1`, 1<<16); ; {
				if _, err := io.WriteString(z, block); err != nil {
					return
				}
			}
		}, fetch.ErrTooLarge},
		{"a zstd frame that asks for 512 MiB", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "zstd")
			w.Write([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98, 0x01, 0x00, 0x00})
		}, fetch.ErrTooLarge},
		{"a line without end", func(w http.ResponseWriter) {
			io.WriteString(w, `{"version":1,"items":[{"cUrl":"`)
			for block := []byte(strings.Repeat("a", 1<<16)); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, tct.ErrSitemap},
		{"a million arrays", func(w http.ResponseWriter) { io.WriteString(w, strings.Repeat("[", 1_000_000)) }, tct.ErrSitemap},
		{"a million arrays in an object", func(w http.ResponseWriter) { io.WriteString(w, `{"x":`+strings.Repeat("[", 1_000_000)) }, tct.ErrSitemap},
		{"half a sitemap", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"version":1,"items":[`)
		}, tct.ErrSitemap},
		{"a redirect to a private address", func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://10.0.0.1/")
			w.WriteHeader(301)
		}, fetch.ErrForbiddenAddress},
		{"a redirect without end", func(w http.ResponseWriter) {
			w.Header().Set("Location", "/llm-sitemap.json")
			w.WriteHeader(301)
		}, fetch.ErrRedirect},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o.instead = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { tt.answer(w) }
			m := memory{}
			got := sync1(t, newAgent(t, o, nil), m)
			if !errors.Is(got.err, tt.want) || len(got.pages) > 0 || len(m) > 0 {
				t.Errorf("%v with %d pages, want %v", got.err, len(got.pages), tt.want)
			}
		})
	}
}
