package preferences_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// told lists what is stated, as "+purpose" and "-purpose".
func told(s preferences.Statement) string {
	var all []string
	for _, p := range s.Preferences.Stated() {
		all = append(all, map[content.Answer]string{content.Yes: "+", content.No: "-"}[p.Answer]+p.Purpose)
	}
	return strings.Join(all, " ")
}

func TestEachVocabularyIsMapped(t *testing.T) {
	const noAI = "-ai.embed -ai.finetune -ai.summarise -ai.train -rag.retrieve"
	for _, tt := range []struct{ name, field, value, want string }{
		{"AIPREF, both labels", "Content-Usage", "train-ai=n, search=y", "-ai.finetune -ai.train +search.index"},
		{"AIPREF, search denied", "content-usage", "search=n", "-search.index -search.snippet"},
		{"AIPREF, a permission to train is none to fine-tune", "Content-Usage", "train-ai=y", "+ai.train"},
		{"AIPREF, the last duplicate wins", "Content-Usage", "train-ai=n, train-ai=y", "+ai.train"},
		{"AIPREF, and if it is unknown, nothing is said", "Content-Usage", "train-ai=n, train-ai", ""},
		{"AIPREF, parameters are passed over", "Content-Usage", "search=y;exp=1", "+search.index"},
		{"AIPREF, a string is no token", "Content-Usage", `train-ai="y", search="n"`, ""},
		{"AIPREF, other tokens", "Content-Usage", "train-ai=yes, search=Y", ""},
		{"AIPREF, numbers, booleans and lists", "Content-Usage", "train-ai=1, search=?0", ""},
		{"AIPREF, an inner list of tokens", "Content-Usage", "train-ai=(n)", ""},
		{"AIPREF, an earlier label allows nothing", "Content-Usage", "train-genai=y, bots=y", ""},
		{"AIPREF, and denies", "Content-Usage", "ai=n", noAI},
		{"Content-Signal, each word", "Content-Signal", "search=yes, ai-input=yes, ai-train=no", "-ai.finetune -ai.train +rag.retrieve +search.index"},
		{"Content-Signal, input denied", "Content-Signal", " AI-Input = NO ", "-ai.summarise -rag.retrieve"},
		{"Content-Signal, of two both count", "Content-Signal", "ai-train=yes,ai-train=no", "-ai.finetune +ai.train -ai.train"},
		{"Content-Signal, other values", "Content-Signal", "search=y, ai-train, ai-input=", ""},
		{"robots, noindex", "robots", "noindex, nofollow", "-search.index -search.snippet"},
		{"robots, snippets by length", "robots", "max-snippet: 0, max-image-preview:none", "-search.snippet"},
		{"robots, any other length", "robots", "max-snippet:50, unavailable_after: 25 Jun 2030 15:00:00 PST", ""},
		{"robots, archives", "robots", "NOARCHIVE", "-archive"},
		{"robots, noai", "X-Robots-Tag", "noai, noimageai", noAI},
		{"robots, all is search", "robots", "all", "+search.index"},
		{"robots, a denial to one is one to all", "X-Robots-Tag", "somebot: noindex", "-search.index -search.snippet"},
		{"robots, a permission to one is none", "X-Robots-Tag", "somebot: index, all", ""},
		{"another name", "Description", "noindex", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s preferences.Statement
			if err := s.Field(tt.field, tt.value, "here"); err != nil {
				t.Fatal(err)
			}
			if got := told(s); got != tt.want {
				t.Errorf("%s: %s is %q, want %q", tt.field, tt.value, got, tt.want)
			}
		})
	}
}

func TestAPermissionReachesNothingElse(t *testing.T) {
	for field, words := range map[string][]string{
		"Content-Usage":  {"train-ai=y", "search=y"},
		"Content-Signal": {"ai-train=yes", "search=yes", "ai-input=yes"},
		"robots":         {"index", "all"},
	} {
		for _, w := range words {
			var s preferences.Statement
			if err := s.Field(field, w, "here"); err != nil {
				t.Fatal(err)
			}
			if got := told(s); strings.Count(got, "+") != 1 || strings.Contains(got, "-") {
				t.Errorf("%s: %s states %q, want one permission", field, w, got)
			}
		}
	}
}

func TestWordsThatAreNotKnownAllowNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z][a-z0-9_-]{0,12}`).Filter(func(s string) bool {
			return !slices.Contains([]string{"search", "index", "all", "y", "yes"}, s) && !strings.HasPrefix(s, "train-ai") && !strings.HasPrefix(s, "ai-")
		}).Draw(t, "word")
		for _, field := range []string{"content-usage", "content-signal", "robots"} {
			for _, form := range []string{"%s", "%s=y", "%s=yes", "train-ai=%s", "search=%s", "ai-train=%s"} {
				var s preferences.Statement
				if err := s.Field(field, fmt.Sprintf(form, word), "here"); err == nil && strings.Contains(told(s), "+") {
					t.Fatalf("%s: "+form+" states %q", field, word, told(s))
				}
			}
		}
	})
}

func TestWhatIsCombinedIsDeniedByAnyDenial(t *testing.T) {
	draw := rapid.SliceOf(rapid.SampledFrom([]string{"search=y", "search=n", "train-ai=y", "train-ai=n", "search", "x=y"}))
	rapid.Check(t, func(t *rapid.T) {
		var both preferences.Statement
		denied, allowed := map[string]bool{}, map[string]bool{}
		for i, fields := range rapid.SliceOfN(draw, 0, 4).Draw(t, "statements") {
			var s preferences.Statement
			if err := s.Field("content-usage", strings.Join(fields, ", "), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			for _, p := range s.Preferences.Stated() {
				denied[p.Purpose] = denied[p.Purpose] || p.Answer == content.No
				allowed[p.Purpose] = allowed[p.Purpose] || p.Answer == content.Yes
			}
			both.Join(s)
		}
		for _, p := range []string{content.PurposeAITrain, content.PurposeSearchIndex, content.PurposeSearchSnippet} {
			if both.Preferences.Allows(p) != (allowed[p] && !denied[p]) {
				t.Fatalf("%s: allowed %v, denied %v, combined %v", p, allowed[p], denied[p], both.Preferences.Allows(p))
			}
		}
	})
}

func TestWhatIsPassedOverIsTold(t *testing.T) {
	var s preferences.Statement
	for range 200 {
		if err := s.Field("content-usage", `train-ai="n", colour=y`, "page line 3"); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Ignored) != 100 || !strings.Contains(s.Ignored[0], "page line 3") || !strings.Contains(s.Ignored[0], "neither the token y nor n") || !strings.Contains(s.Ignored[1], "colour") {
		t.Errorf("%d lines, the first %q", len(s.Ignored), s.Ignored[:2])
	}
	if err := s.Field("content-usage", "train-ai=n,", "page line 4"); err == nil || !strings.Contains(err.Error(), "page line 4") {
		t.Errorf("what is no dictionary: %v", err)
	}
}
