package content_test

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"pgregory.net/rapid"
)

func TestDenyWins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stated []content.Answer
		want   content.Answer
		allows bool
	}{
		{"nothing said is no permission", nil, content.Unknown, false},
		{"unknown says nothing", []content.Answer{content.Unknown}, content.Unknown, false},
		{"a yes allows", []content.Answer{content.Yes}, content.Yes, true},
		{"a no behind a yes", []content.Answer{content.Yes, content.No}, content.No, false},
		{"a yes behind a no", []content.Answer{content.No, content.Yes, content.Yes}, content.No, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p content.Preferences
			for _, a := range tt.stated {
				p.State(content.PurposeAITrain, a, "somewhere")
			}
			got, by := p.About(content.PurposeAITrain)
			if got != tt.want || by.Answer != got || p.Allows(content.PurposeAITrain) != tt.allows {
				t.Errorf("About = %v by %v, Allows %v", got, by, p.Allows(content.PurposeAITrain))
			}
			if other, _ := p.About(content.PurposeSearchIndex); other != content.Unknown {
				t.Errorf("another purpose is %v", other)
			}
		})
	}
}

func TestPreferencesAreASet(t *testing.T) {
	draw := func(t *rapid.T) (p content.Preferences, denied map[string]bool) {
		denied = make(map[string]bool)
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			purpose := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "purpose")
			answer := rapid.SampledFrom([]content.Answer{content.Unknown, content.Yes, content.No}).Draw(t, "answer")
			p.State(purpose, answer, "x")
			denied[purpose] = denied[purpose] || answer == content.No
		}
		return p, denied
	}
	rapid.Check(t, func(t *rapid.T) {
		p, pDenied := draw(t)
		q, qDenied := draw(t)
		before := len(p.Stated())
		both := p
		both.Join(q)
		if len(p.Stated()) != before {
			t.Fatal("joining into a copy changed the original")
		}
		for _, purpose := range []string{"a", "b", "c"} {
			a, _ := both.About(purpose)
			if (a == content.No) != (pDenied[purpose] || qDenied[purpose]) {
				t.Fatalf("%s is %v", purpose, a)
			}
		}
		if len(both.Stated()) > 6 {
			t.Fatalf("%d statements about three purposes", len(both.Stated()))
		}
	})
}
