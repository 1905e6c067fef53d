package preferences_test

import (
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

func TestTextsAreReadWithTheirLines(t *testing.T) {
	for _, tt := range []struct {
		name  string
		read  func([]byte, string) (preferences.Statement, error)
		text  string
		want  string
		place string // that the first denial names
	}{
		{"a header line", preferences.ReadHeader, "Content-Usage: train-ai=n", "-ai.finetune -ai.train", "F line 1: Content-Usage train-ai=n"},
		{"a block, whose lines are one dictionary", preferences.ReadHeader,
			"HTTP/2 200\r\ncontent-usage: train-ai=y, search=n\r\ndate: x\r\nContent-Usage: train-ai=n,\r\n search=y\r\n\r\nContent-Usage: search=n\r\n",
			"-ai.finetune -ai.train +search.index", "F line 4"},
		{"all three fields", preferences.ReadHeader, "X-Robots-Tag: noarchive\nContent-Signal: search=yes\nContent-Usage: search=y\n", "-archive +search.index", "F line 1"},
		{"a robots.txt for all", preferences.ReadRobots, "# x\nUser-Agent: *\nContent-Signal: ai-train=no, search=yes # y\nAllow: /\nContent-Usage: train-ai=n\n",
			"-ai.finetune -ai.train +search.index", "F line 3: Content-Signal ai-train=no"},
		{"a line before any group is for all", preferences.ReadRobots, "Content-Usage: search=y", "+search.index", ""},
		{"a permission for one agent allows nothing, a denial counts", preferences.ReadRobots,
			"User-agent: a\nUser-agent: b\nContent-Signal: search=yes, ai-train=no\nContent-Usage: search=y\n", "-ai.finetune -ai.train", "F line 3"},
		{"a group that names all beside another is for all", preferences.ReadRobots, "User-agent: a\nUser-agent: *\nContent-Signal: search=yes\n", "+search.index", ""},
		{"in either order", preferences.ReadRobots, "User-agent: *\nUser-agent: a\nContent-Signal: search=yes\n", "+search.index", ""},
		{"groups end with the next agent", preferences.ReadRobots, "User-agent: *\nDisallow: /x\nUser-agent: a\nContent-Signal: search=yes\n", "", ""},
		{"a path is denied for all, and allowed for none", preferences.ReadRobots, "User-agent: *\nContent-Usage: /a search=y, train-ai=n\nContent-Usage: / search=y\n",
			"-ai.finetune -ai.train +search.index", "F line 2"},
		{"an RBT manifest", preferences.ReadPermissions, "{\"rbt\":\"0.2\",\"manifest\":{\"agents\":{\n\"permissions\":{\"summarize\":true,\n\"quote\":\"with-attribution\",\"index\":null,\"train\":false,\"print\":true}}}}",
			"-ai.finetune +ai.summarise -ai.train +search.snippet", "F line 3: permission train is false"},
		{"RBT permissions alone, and a value of another kind", preferences.ReadPermissions, `{"permissions":{"train":"ask me","index":1}}`,
			"-ai.finetune -ai.train -search.index -search.snippet", `F line 1: permission train is "ask me"`},
		{"a page", preferences.ReadHTML, "<!doctype html>\n<title>a\n</title>\n<META content='noai' name=Robots>\n<meta http-equiv=content-usage content='search=y'>",
			"-ai.embed -ai.finetune -ai.summarise -ai.train -rag.retrieve +search.index", "F line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := tt.read([]byte(tt.text), "F")
			if err != nil || told(s) != tt.want {
				t.Fatalf("%q, %v; want %q", told(s), err, tt.want)
			}
			if denied := s.Preferences.Denied(); tt.place != "" && !strings.HasPrefix(denied[0].Origin, tt.place) {
				t.Errorf("stated at %q, want %q", denied[0].Origin, tt.place)
			}
		})
	}
}

func TestAttributionThatPermissionsAskForIsKept(t *testing.T) {
	s, err := preferences.ReadPermissions([]byte(`{"permissions":{"quote":"with-attribution"}}`), "F")
	if err != nil || !s.Attribution || !s.Preferences.Allows(content.PurposeSearchSnippet) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTextsThatCannotBeReadAreErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func([]byte, string) (preferences.Statement, error)
		text string
	}{
		{"a header that is no dictionary", preferences.ReadHeader, "Content-Usage: train-ai=n;;"},
		{"a robots.txt whose dictionary is none", preferences.ReadRobots, "Content-Usage: Train-AI=n"},
		{"a manifest without permissions", preferences.ReadPermissions, `{"manifest":{"title":"x"}}`},
		{"permissions that are a list", preferences.ReadPermissions, `{"permissions":[]}`},
		{"a member twice", preferences.ReadPermissions, `{"permissions":{"train":false,"train":true}}`},
		{"a page whose dictionary is none", preferences.ReadHTML, `<meta name=content-usage content="=">`},
		{"more than is read", preferences.ReadHeader, strings.Repeat("a", preferences.MaxText+1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if s, err := tt.read([]byte(tt.text), "F"); err == nil {
				t.Errorf("read as %q", told(s))
			}
		})
	}
}

func FuzzTexts(f *testing.F) {
	f.Add([]byte("User-agent: *\nContent-Signal: ai-train=no\nContent-Usage: /a search=y\n"))
	f.Add([]byte("Content-Usage: train-ai=n\n folded=1\n\nbody"))
	f.Add([]byte(`{"manifest":{"agents":{"permissions":{"index":true,"train":"x"}}}}`))
	f.Add([]byte(`<meta name="robots" content="noai, max-snippet:0">`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, read := range []func([]byte, string) (preferences.Statement, error){
			preferences.ReadHeader, preferences.ReadRobots, preferences.ReadPermissions, preferences.ReadHTML,
		} {
			s, err := read(text, "F")
			if err != nil {
				continue
			}
			for _, p := range s.Preferences.Stated() {
				if !strings.HasPrefix(p.Origin, "F line ") || p.Answer == content.Unknown {
					t.Fatalf("%+v", p)
				}
			}
			if len(s.Ignored) > 100 {
				t.Fatalf("%d lines are told", len(s.Ignored))
			}
		}
	})
}
