package rbt_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func TestTextsForAgentsAreHeldAgainstTheManifest(t *testing.T) {
	a := rbt.Agents{Ignore: []string{"drafts/", "*.tmp"}}
	a.Uses.State(content.PurposeAITrain, content.No, "manifest")
	a.Uses.State(content.PurposeSearchIndex, content.Yes, "manifest")
	for _, tt := range []struct {
		name, text string
		want       []string // parts of what is told, one a line
	}{
		{"prose is not judged", "You may train on this. Train: the 8:15 from York.\n", nil},
		{"the same is no contradiction", "train: false\n- index: yes\nContent-Usage: train-ai=n, search=y\n", nil},
		{"a use that the manifest denies", "# About\n\ntrain: true\n", []string{"llms.txt line 3: it says yes of ai.train"}},
		{"in a list, in bold", "- **Train:** allowed\n", []string{"line 1: it says yes of ai.train"}},
		{"a header's line", "Content-Signal: ai-train=yes, search=yes\n", []string{"of ai.train, and the manifest's permissions say no"}},
		{"a denial of what is allowed", "`index: \"no\"`\n", []string{"it says no of search.index, and the manifest's permissions say yes", "search.snippet"}},
		{"a denial of which nothing is said", "summarize: false\n", []string{"it says no of ai.summarise"}},
		{"a use of which nothing is said", "summarize: true\n", nil},
		{"a field that cannot be read", "Content-Usage: =,=\n", nil},
		{"a link to what is to be passed over", "See [this](a.md), [that](drafts/x.md) and [more](<b.tmp>).\n", []string{`it leads to "drafts/x.md"`, `"b.tmp"`}},
		{"a link that only ends alike", "[x](https://h.test/b.tmp) [y](/b.tmp)\n", nil},
		{"a link out of the burrow", "[x](../drafts/x.md) [y](https://example.org/drafts/x.md)\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := a.Contradictions("llms.txt", tt.text)
			if len(got) != len(tt.want) {
				t.Fatalf("%d are told, want %d: %q", len(got), len(tt.want), got)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("%q is told, want %q", got[i], want)
				}
			}
		})
	}
	if got := a.Contradictions("x", strings.Repeat("train: true\n", 10_000)); len(got) > 100 {
		t.Errorf("%d are told of one text", len(got))
	}
}

func TestAnExportTellsOfTextsThatContradictIt(t *testing.T) {
	c := config(t, t.TempDir())
	c.Manifest.Agents.Uses.State(content.PurposeAITrain, content.No, "source")
	report := export(t, c, resource("a.md", "train: true"), resource("AGENTS.md", "train: true"))
	if len(report.Contradictions) != 1 || !strings.HasPrefix(report.Contradictions[0], "AGENTS.md line 1") {
		t.Errorf("told is %q", report.Contradictions)
	}
	if again := export(t, c, resource("AGENTS.md", "train: false")); !slices.Equal(again.Contradictions, nil) {
		t.Errorf("told is %q", again.Contradictions)
	}
}
