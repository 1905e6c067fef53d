package arc

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
)

func TestAPolicyIsReadAsItWasWritten(t *testing.T) {
	want := somePolicy()
	text, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, odd, err := ReadPolicy(strings.NewReader(string(text)), "here")
	if err != nil || len(odd) > 0 {
		t.Fatalf("%v, odd %q in %s", err, odd, text)
	}
	for _, purpose := range []string{content.PurposeAITrain, content.PurposeAIFinetune, content.PurposeSearchIndex, content.PurposeArchive} {
		a, _ := want.Uses.Preferences.About(purpose)
		if b, _ := got.Uses.Preferences.About(purpose); a != b {
			t.Errorf("%s: %v, want %v", purpose, b, a)
		}
	}
	again, err := got.Marshal()
	if got.Uses = want.Uses; !reflect.DeepEqual(got, *want) || err != nil || string(again) != string(text) {
		t.Errorf("%+v\n%+v\n%s\n%s", got, *want, again, text)
	}
}

func TestWhatAPolicySaysUnclearlyIsDenied(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		denied     []string
		odd        bool
		want       error
	}{
		{"nothing", `{"arc_policy_version":"1"}`, nil, false, nil},
		{"a denial in a word of others", `{"arc_policy_version":"1","access":{"uses":{"train-ai":false}}}`, []string{"ai.finetune", "ai.train"}, false, nil},
		{"yes in words", `{"arc_policy_version":"1","access":{"uses":{"archive":"yes"}}}`, []string{"archive"}, true, nil},
		{"a use that nobody knows", `{"arc_policy_version":"1","access":{"uses":{"dance":false}}}`, nil, true, nil},
		{"null", `{"arc_policy_version":"1","access":{"uses":{"archive":null}}}`, nil, true, nil},
		{"uses in one word", `{"arc_policy_version":"1","access":{"uses":"none"}}`,
			[]string{"ai.embed", "ai.finetune", "ai.summarise", "ai.train", "archive", "rag.retrieve", "search.index", "search.snippet"}, true, nil},
		{"no version", `{}`, nil, true, nil},
		{"days in words", `{"arc_policy_version":"1","retention":{"max_days":"ten"}}`, nil, true, nil},
		{"consumers in one word", `{"approved_consumers":"all"}`, nil, false, ErrPolicy},
		{"a list", `[]`, nil, false, ErrPolicy},
		{"cut off", `{"access":`, nil, false, ErrPolicy},
		{"a member twice", `{"access":{},"access":{}}`, nil, false, ErrPolicy},
		{"too deep", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), nil, false, ErrPolicy},
		{"too large", `{"a":"` + strings.Repeat("x", MaxPolicy) + `"}`, nil, false, ErrPolicy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, odd, err := ReadPolicy(strings.NewReader(tt.text), "here")
			if !errors.Is(err, tt.want) || (len(odd) > 0) != tt.odd {
				t.Fatalf("%v, odd %q", err, odd)
			}
			var denied []string
			for _, d := range p.Uses.Preferences.Denied() {
				denied = append(denied, d.Purpose)
			}
			if !slices.Equal(denied, tt.denied) {
				t.Errorf("denied %q, want %q", denied, tt.denied)
			}
		})
	}
}

func TestWhatAPolicyLimitsIsAmongItsUses(t *testing.T) {
	const unlimited = 1 << 40
	for _, tt := range []struct {
		name, text string
		days       uint64
		approves   bool // of ExampleBot
	}{
		{"nothing", `{}`, unlimited, true},
		{"days", `{"retention":{"max_days":7}}`, 7, true},
		{"a part of a day", `{"retention":{"max_days":7.9}}`, 7, true},
		{"no day", `{"retention":{"max_days":0}}`, 0, true},
		{"days in words", `{"retention":{"max_days":"ten"}}`, 0, true},
		{"more than a century", `{"retention":{"max_days":1e300}}`, 36500, true},
		{"a retention that is no object", `{"retention":"a week"}`, 0, true},
		{"null", `{"retention":{"max_days":null},"approved_consumers":null}`, unlimited, true},
		{"a note alone", `{"retention":{"note":"briefly"}}`, unlimited, true},
		{"a consumer", `{"approved_consumers":["ExampleBot"]}`, unlimited, true},
		{"another", `{"approved_consumers":["ExampleBot2"]}`, unlimited, false},
		{"nobody", `{"approved_consumers":[]}`, unlimited, false},
		{"consumers that are no strings", `{"approved_consumers":[1]}`, unlimited, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _, err := ReadPolicy(strings.NewReader(tt.text), "here")
			if err != nil {
				t.Fatal(err)
			}
			days := uint64(unlimited)
			if k, limited := p.Uses.Preferences.Keeping(); limited {
				days = k.Days
			}
			if _, ok := p.Uses.Preferences.Approves("ExampleBot"); days != tt.days || ok != tt.approves {
				t.Errorf("kept for %d days, approved %v; want %d, %v", days, ok, tt.days, tt.approves)
			}
		})
	}
}

func TestADescriptorIsFoundWhereverItStands(t *testing.T) {
	script := func(s string) string {
		return `<p><script type="application/ld+json; charset=utf-8">` + s + "</script>"
	}
	const one = `{"@type":["Dataset"],"name":"arc sitemap","url":"/s.json"}`
	for _, tt := range []struct{ name, text, want string }{
		{"alone, and relative", one, "https://example.com/s.json"},
		{"in a list", `[{"@type":"Person"},` + one + `]`, "https://example.com/s.json"},
		{"in a page, behind another", script(`{"@type":"Person"}`) + script(one), "https://example.com/s.json"},
		{"where the data is comes first", `{"@type":"Dataset","name":"ARC Sitemap","url":"/x","distribution":{"contentUrl":"/s.json"}}`, "https://example.com/s.json"},
		{"another data set", `{"@type":"Dataset","name":"Weather","url":"/s.json"}`, ""},
		{"another scheme", `{"@type":"Dataset","name":"ARC Sitemap","url":"file:///etc/passwd"}`, ""},
		{"a password", `{"@type":"Dataset","name":"ARC Sitemap","url":"https://a:b@example.com/"}`, ""},
		{"a script of another type", `<script type="text/javascript">` + one + "</script>", ""},
		{"too deep", strings.Repeat("[", 1000) + one + strings.Repeat("]", 1000), ""},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadDescriptor([]byte(tt.text), base+"page")
			if got != tt.want || errors.Is(err, ErrDescriptor) != (tt.want == "") {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
	d, err := Descriptor(base + "</script>")
	if err != nil || strings.Contains(string(d), "<") {
		t.Errorf("%s, %v", d, err)
	}
}
