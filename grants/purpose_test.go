package grants_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestPurposesAreExact(t *testing.T) {
	for _, tt := range []struct {
		name, word string
		want       grants.Reason
	}{
		{"a common purpose", "search.index", ""},
		{"a private purpose", "x.example.com.newsletter", ""},
		{"a private purpose with a longer name", "x.example.com.news-letter.daily_2", ""},
		{"upper case", "Search.Index", grants.ErrPurpose},
		{"a space behind it", "search.index ", grants.ErrPurpose},
		{"a whole family", "search.*", grants.ErrPurpose},
		{"a family without a member", "ai", grants.ErrPurpose},
		{"a purpose of no vocabulary", "ai.dream", grants.ErrPurpose},
		{"nothing", "", grants.ErrPurpose},
		{"a private purpose without a domain", "x.newsletter", grants.ErrPurpose},
		{"a private purpose without a name", "x.example.com", grants.ErrPurpose},
		{"a private purpose with an empty label", "x.example..newsletter", grants.ErrPurpose},
		{"a private purpose in upper case", "x.example.com.Newsletter", grants.ErrPurpose},
		{"a private purpose that starts with a hyphen", "x.-example.com.a", grants.ErrPurpose},
		{"a private purpose that is too long", "x.example.com." + strings.Repeat("a", 128), grants.ErrPurpose},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := grants.ParsePurpose(tt.word)
			wantReason(t, err, tt.want)
			if err == nil && string(p) != tt.word {
				t.Errorf("parsed as %q", p)
			}
		})
	}
}

func TestDenyingTrainingDeniesFineTuning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.SampledFrom(grants.CommonPurposes())
		listed, asked := one.Draw(t, "listed"), one.Draw(t, "asked")
		set := grants.Purposes{listed}
		if got, want := set.Has(asked), listed == asked; got != want {
			t.Fatalf("allowing %s allows %s: %t", listed, asked, got)
		}
		want := listed == asked || listed == grants.AITrain && asked == grants.AIFinetune
		if got := set.Deny(asked); got != want {
			t.Fatalf("denying %s denies %s: %t", listed, asked, got)
		}
	})
}

func TestPurposesHaveOneOrder(t *testing.T) {
	got, err := grants.ParsePurposes([]string{"search.index", "ai.embed", "search.index"})
	if want := (grants.Purposes{grants.AIEmbed, grants.SearchIndex}); err != nil || !slices.Equal(got, want) {
		t.Errorf("ParsePurposes = %v, %v, want %v", got, err, want)
	}
	if got := got.Strings(); !slices.Equal(got, []string{"ai.embed", "search.index"}) {
		t.Errorf("Strings = %q", got)
	}
	_, err = grants.ParsePurposes([]string{"search.index", "ai.dream"})
	wantReason(t, err, grants.ErrPurpose)
	wantReason(t, grants.CommonPurposes().Validate(), "")
	wantReason(t, grants.Purposes{grants.SearchIndex, grants.AIEmbed}.Validate(), grants.ErrPurpose)
	wantReason(t, grants.Purposes{grants.AIEmbed, grants.AIEmbed}.Validate(), grants.ErrPurpose)
	wantReason(t, make(grants.Purposes, grants.MaxPurposes+1).Validate(), grants.ErrPurpose)
}
