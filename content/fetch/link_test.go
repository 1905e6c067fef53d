package fetch_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

func TestLinksAreReadByTheGrammar(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fields []string
		want   []fetch.Link
	}{
		{"one", []string{`</a>; rel="index"; type="application/json"`}, []fetch.Link{{Target: "https://h/a", Rel: []string{"index"}, Type: "application/json"}}},
		{"two in a field, with a comma in a target", []string{`<a,b>;rel=canonical, <https://o/x>; rel="Alternate index"`}, []fetch.Link{
			{Target: "https://h/d/a,b", Rel: []string{"canonical"}}, {Target: "https://o/x", Rel: []string{"alternate", "index"}},
		}},
		{"two fields", []string{"<x>;rel=a", "<y>;rel=b"}, []fetch.Link{{Target: "https://h/d/x", Rel: []string{"a"}}, {Target: "https://h/d/y", Rel: []string{"b"}}}},
		{"white space and empty members", []string{` , <x> ; rel = "a" ;; title="a, \"b\"; <z>" `}, []fetch.Link{{Target: "https://h/d/x", Rel: []string{"a"}}}},
		{"the first rel counts", []string{"<x>; rel=a; rel=b"}, []fetch.Link{{Target: "https://h/d/x", Rel: []string{"a"}}}},
		{"a link about something else", []string{`<x>; rel=a; anchor="#y", <z>; rel=b`}, []fetch.Link{{Target: "https://h/d/z", Rel: []string{"b"}}}},
		{"other schemes and passwords", []string{`<javascript:alert(1)>; rel=a, <file:///etc/passwd>; rel=a, <https://u:p@h/>; rel=a`}, nil},
		{"what is none", []string{"x", "<x", "", "rel=a", `"<x>`}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fetch.ParseLinks(tt.fields, "https://h/d/e"); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseLinks = %+v, want %+v", got, tt.want)
			}
		})
	}
	if got := fetch.ParseLinks([]string{strings.Repeat("<a>;rel=b,", 10_000)}, "https://h/"); len(got) != 128 {
		t.Errorf("%d links of 10,000 were read", len(got))
	}
}

func FuzzParseLinks(f *testing.F) {
	f.Add(`</a>; rel="index"; type="application/json", <b>;rel=x;title="\"`)
	f.Add(`<x>;;=;"`)
	f.Fuzz(func(t *testing.T, field string) {
		for _, l := range fetch.ParseLinks([]string{field}, "https://h/d/e") {
			if !strings.HasPrefix(l.Target, "http://") && !strings.HasPrefix(l.Target, "https://") {
				t.Fatalf("target %q of %q", l.Target, field)
			}
		}
	})
}

const robots = "\ufeffUser-agent: other\nDisallow: /\n\nUser-Agent: Test/2 (x)\nUser-agent: third\nDisallow: /private # not this\n" +
	"Allow: /private/open\nDisallow: /*.pdf$\nDisallow: /q?*a=\n\nUser-agent: *\nDisallow: /all\nDisallow:\nSitemap: https://h/llm-sitemap.json\ncrawl-delay: 5\n"

func TestRobotsRulesAreThoseOfRFC9309(t *testing.T) {
	ours, err := fetch.ParseRobots(strings.NewReader(robots), "test")
	if err != nil {
		t.Fatal(err)
	}
	everybody, err := fetch.ParseRobots(strings.NewReader(robots), "nobody")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path            string
		ours, everybody bool
	}{
		{"", true, true},
		{"/", true, true},
		{"/private", false, true},
		{"/private/open/x", true, true},
		{"/a.pdf", false, true},
		{"/a.pdf?x", true, true},
		{"/q?b=1&a=2", false, true},
		{"/q", true, true},
		{"/all/x", true, false},
	} {
		if got := ours.Allowed("https://h" + tt.path); got != tt.ours {
			t.Errorf("%q: our group says %v", tt.path, got)
		}
		if got := everybody.Allowed("https://h" + tt.path); got != tt.everybody {
			t.Errorf("%q: the group for all says %v", tt.path, got)
		}
	}
	if len(ours.Sitemaps) != 1 || ours.Sitemaps[0] != "https://h/llm-sitemap.json" {
		t.Errorf("sitemaps %q", ours.Sitemaps)
	}
	if long, err := fetch.ParseRobots(strings.NewReader(strings.Repeat("x", 1<<20)+"\nUser-agent: *\nDisallow: /"), "test"); err != nil || !long.Allowed("https://h/") {
		t.Errorf("a line of a MiB: %v", err)
	}
}

func TestRobotsThatCannotBeReachedAllowNothing(t *testing.T) {
	for _, tt := range []struct {
		status int
		allows bool
	}{{200, false}, {404, true}, {403, true}, {429, false}, {500, false}} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			w.Write([]byte("User-agent: *\nDisallow: /x\n"))
		})
		c, _ := newClient(t, nil, s)
		r, err := c.Robots(t.Context(), s.URL+"/x", "test")
		if r.Allowed(s.URL+"/x") != tt.allows || (err != nil) != (tt.status == 429 || tt.status == 500) {
			t.Errorf("%d: allowed %v, %v", tt.status, r.Allowed(s.URL+"/x"), err)
		}
	}
}

func FuzzParseRobots(f *testing.F) {
	f.Add(robots, "/private")
	f.Add("user-agent:*\ndisallow:***$", "/")
	f.Fuzz(func(t *testing.T, text, path string) {
		r, err := fetch.ParseRobots(strings.NewReader(text), "test")
		if err != nil {
			t.Fatal(err)
		}
		r.Allowed("https://h/" + path)
	})
}
