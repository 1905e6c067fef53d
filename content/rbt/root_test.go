package rbt_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func TestOnlyRemotesThatAreOneAreRead(t *testing.T) {
	for s, want := range map[string]bool{
		"https://github.com/org/repo.git": true, "git@github.com:org/repo.git": true, "ssh://git@example.org:2222/org/repo.git": true,
		"ssh://example.org/x": true, "http://example.org/x": false, "file:///etc": false, "/etc": false, "ftp://h/x": false,
		"--upload-pack=touch": false, "ext::sh -c touch": false, "git@-oProxyCommand=x:y": false, "ssh://-oProxyCommand=x/y": false,
		"-u@h:x": false, "git@h:-x": false, "git@h:x;y": false, "git@h:$(x)": false, "ssh://a:b@h/x": false, "https://u@h/x": false,
		"https://h": false, "https:///x": false, "git@h:": false, "git@h:/": false, "https://h/x?y": false, "https://h/a b": false,
		"git@h::x": false, "ssh://@h/x": false, "ssh://h:port/x": false, "https://h\\@evil/x": false, "git@h:x\n": false, "": false,
		"https://h/" + strings.Repeat("x", 5000): false,
	} {
		r, err := rbt.ParseRemote(s, rbt.Options{})
		if (err == nil) != want || err == nil && r.String() != s {
			t.Errorf("%.60q: %v, %v", s, r, err)
		}
	}
	if _, err := rbt.ParseRemote("http://127.0.0.1:80/x", rbt.Options{Allowed: []string{"http://127.0.0.1"}}); err != nil {
		t.Errorf("an origin that is allowed: %v", err)
	}
}

func TestARefIsAFullNameOrACommit(t *testing.T) {
	commit := strings.Repeat("0a", 20)
	for s, want := range map[string]bool{
		"refs/heads/main": true, "refs/tags/v1.0": true, commit: true, "main": false, commit[:8]: false, strings.ToUpper(commit): false,
		"refs/": false, "refs/heads/../x": false, "refs/heads/a b": false, "refs/heads/x.lock": false, "refs//x": false, "refs/heads/-x": false,
		"refs/heads/.x": false, "refs/heads/x@{1}": false, "refs/heads/x~1": false, "refs/heads/x\x00": false, "refs/heads/x.": false,
		strings.Repeat("0a", 32): false, "--x": false,
	} {
		if r, err := rbt.ParseRef(s); (err == nil) != want || err == nil && string(r) != s {
			t.Errorf("%q: %v, %v", s, r, err)
		}
	}
	for s, want := range map[string]string{"/": ".", "": ".", "/a/b/": "a/b", "a": "a", "../a": "", "a/../b": "", "a//b": "", `a\b`: "", "a\x00": ""} {
		if got, err := rbt.ParsePath(s); got != want || (err == nil) != (want != "") {
			t.Errorf("path %q: %q, %v", s, got, err)
		}
	}
}

func TestAReferenceStaysBelowTheRoot(t *testing.T) {
	for _, tt := range []struct {
		doc, href string
		want      rbt.Target // zero: refused
	}{
		{".burrow.json", "a.md", rbt.Target{Path: "a.md"}},
		{".burrow.json", "./a%20b/c.md?x=1#y", rbt.Target{Path: "a b/c.md", Query: "x=1"}},
		{"docs/.burrow.json", "a.md", rbt.Target{Path: "docs/a.md"}},
		{"docs/.burrow.json", "../a.md", rbt.Target{Path: "a.md"}},
		{"docs/.burrow.json", "x/", rbt.Target{Path: "docs/x", IsDir: true}},
		{".burrow.json", "https://Example.org/a?b#c", rbt.Target{URL: "https://example.org/a?b"}},
		{".burrow.json", "../a", rbt.Target{}},
		{"docs/.burrow.json", "../../a", rbt.Target{}},
		{".burrow.json", "a/../../b", rbt.Target{}},
		{".burrow.json", "%2e%2e/a", rbt.Target{}},
		{"docs/.burrow.json", "%2e%2e/a", rbt.Target{}},
		{"docs/.burrow.json", "%2e/a", rbt.Target{}},
		{".burrow.json", "a%2Fb", rbt.Target{}},
		{".burrow.json", "a%5Cb", rbt.Target{}},
		{".burrow.json", "a%00", rbt.Target{}},
		{".burrow.json", "/etc/passwd", rbt.Target{}},
		{".burrow.json", "//evil.example/a", rbt.Target{}},
		{".burrow.json", "http://example.org/a", rbt.Target{}},
		{".burrow.json", "file:///etc/passwd", rbt.Target{}},
		{".burrow.json", "data:text/html,x", rbt.Target{}},
		{".burrow.json", "ftp://h/a", rbt.Target{}},
		{".burrow.json", "https://a@evil.example/", rbt.Target{}},
		{".burrow.json", "https://0x7f.1/", rbt.Target{}},
		{".burrow.json", "#x", rbt.Target{}},
		{".burrow.json", strings.Repeat("x", 9000), rbt.Target{}},
	} {
		got, err := rbt.ResolveHref(tt.doc, tt.href, rbt.Options{})
		if got != tt.want || (err == nil) != (tt.want != rbt.Target{}) || err != nil && !errors.Is(err, rbt.ErrHref) {
			t.Errorf("%.60q in %s: %+v, %v", tt.href, tt.doc, got, err)
		}
	}
}

func TestAPathIsWrittenAsAReferenceThatLeadsBack(t *testing.T) {
	for _, name := range []string{"a.md", "a b/ä+c.html", "a:b", "x/a:b", "100%/q?#", "operator+=.html", "~x", "...", "a;b,c"} {
		got, err := rbt.ResolveHref(rbt.ManifestFile, rbt.HrefOf(name), rbt.Options{})
		if err != nil || got != (rbt.Target{Path: name}) {
			t.Errorf("%q is written %q, which is %+v, %v", name, rbt.HrefOf(name), got, err)
		}
	}
	if got := rbt.URLOf("https://h/b/", rbt.Target{Path: "a:b/c d", Query: "x"}); got != "https://h/b/a:b/c%20d?x" {
		t.Error(got)
	}
}
