package grants_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestEachPolicyElementHasAMember lists the elements of UZPIF-OI 11.1 with the
// members of a policy body that say them.
func TestEachPolicyElementHasAMember(t *testing.T) {
	p := issue(t, func(d *grants.Draft) {
		d.Purposes = grants.Purposes{grants.AITrain, grants.SearchIndex}
		d.Terms = grants.PolicyTerms{Denied: []string{"archive"}, Derivatives: grants.Derivatives{Other: grants.Denied}}
	})
	var body map[string]json.RawMessage
	var object struct{ Body json.RawMessage }
	if err := json.Unmarshal(p.Policy.Object.Raw, &object); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(object.Body, &body); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ element, member, says string }{
		{"allowed purposes", "allowed", `["ai.train","search.index"]`},
		{"denied purposes", "denied", `["archive"]`},
		{"for a given scope", "scope", `{"prefixes":["https://example.com/doc/"],"type":"url-prefix"}`},
		{"derivation: summaries, snippets, embeddings and others", "derivatives", `{"embeddings":"denied","other":"denied","snippets":"denied","summary":"denied"}`},
		{"training and fine-tuning", "allowed", `"ai.train"`},
		{"attribution and source linking", "attribution", `{"link_back":true,"required":true}`},
		{"retention of copies and of features", "retention", `{"cached_copy_days":30,"feature_days":30}`},
		{"redistribution", "redistribution", `"denied"`},
	} {
		if got := string(body[tt.member]); !strings.Contains(got, tt.says) {
			t.Errorf("%s: %s is %s, want %s in it", tt.element, tt.member, got, tt.says)
		}
	}
}

func TestTheSampleOfTheDraftIsRead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "policy-11.2.json"))
	if err != nil {
		t.Fatal(err)
	}
	terms, notes, err := grants.ReadPolicyTerms(text)
	if err != nil {
		t.Fatal(err)
	}
	p := issue(t, func(d *grants.Draft) {
		d.Scope = prefixes(t, "https://example.com/docs/guide/")
		d.Purposes = grants.Purposes{grants.RAGRetrieve, grants.SearchIndex, grants.SearchSnippet}
		d.Terms = terms
	})
	b := p.Policy.Body
	if !slices.Equal(b.Scope.Prefixes, []string{"https://example.com/docs/"}) || b.Scope.Type != grants.URLPrefix {
		t.Errorf("scope %+v", b.Scope)
	}
	if !slices.Equal(b.Allowed, p.Grant.Body.Purposes) || !slices.Equal(b.Denied, grants.Purposes{grants.AIFinetune, grants.AITrain}) {
		t.Errorf("allowed %q, denied %q", b.Allowed, b.Denied)
	}
	if b.Retention != (grants.Retention{CachedCopyDays: 14, FeatureDays: 30}) || b.Attribution != (grants.Attribution{Required: true, LinkBack: true}) {
		t.Errorf("retention %+v, attribution %+v", b.Retention, b.Attribution)
	}
	if b.Derivatives != (grants.Derivatives{Embeddings: grants.Allowed, Snippets: grants.Allowed, Summary: grants.Allowed}) || b.Redistribution != grants.Denied {
		t.Errorf("derivatives %+v, redistribution %s", b.Derivatives, b.Redistribution)
	}
	for i, part := range []string{"allowed_purposes is read as allowed", "denied_purposes is read as denied", "embedding_days is read as feature_days", "the URL prefix https://example.com/docs/"} {
		if len(notes) != 4 || !strings.Contains(notes[i], part) {
			t.Errorf("noted %q, want %q", notes, part)
		}
	}
}

func TestTheSamplesWordsAreReadStrictly(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"in YAML", "scope: https://example.com/docs/*\nallowed_purposes: [search.index]\nretention: {embedding_days: 3}\n", true},
		{"a scope without a wildcard", `{"scope":"https://example.com/docs"}`, true},
		{"a wildcard within a segment", `{"scope":"https://example.com/docs*"}`, false},
		{"a wildcard in the middle", `{"scope":"https://example.com/*/docs"}`, false},
		{"two wildcards", `{"scope":"https://example.com/**"}`, false},
		{"a wildcard for the host", `{"scope":"https://*"}`, false},
		{"a scope that is not canonical", `{"scope":"https://EXAMPLE.com/"}`, false},
		{"a scope that is a number", `{"scope":1}`, false},
		{"a scope with a member that is not known", `{"scope":{"prefix":"https://example.com/"}}`, false},
		{"both names of a list", `{"denied":["ai.train"],"denied_purposes":["ai.train"]}`, false},
		{"both names of the days", `{"retention":{"feature_days":1,"embedding_days":1}}`, false},
		{"days that are no whole number", `{"retention":{"cached_copy_days":1.5}}`, false},
		{"days as a text", `{"retention":{"cached_copy_days":"14"}}`, false},
		{"a key of YAML that is no text", "1: [ai.train]\n", false},
		{"lines of YAML that stand for gigabytes", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := grants.ParsePolicyTerms([]byte(tt.text)); (err == nil) != tt.ok {
				t.Errorf("read: %v, want ok %t", err, tt.ok)
			}
		})
	}
}

func TestNarrowingNeverWidens(t *testing.T) {
	permission := rapid.SampledFrom([]grants.Permission{"", grants.Allowed, grants.Denied})
	days := rapid.Ptr(rapid.Uint64Range(0, 60), true)
	draw := rapid.Custom(func(t *rapid.T) grants.PolicyTerms {
		terms := grants.PolicyTerms{Redistribution: permission.Draw(t, "redistribution")}
		for _, p := range []*grants.Permission{&terms.Derivatives.Embeddings, &terms.Derivatives.Other, &terms.Derivatives.Snippets, &terms.Derivatives.Summary} {
			*p = permission.Draw(t, "derivative")
		}
		if rapid.Bool().Draw(t, "retention stated") {
			terms.Retention = &grants.RetentionTerms{CachedCopyDays: days.Draw(t, "copies"), FeatureDays: days.Draw(t, "features")}
		}
		if rapid.Bool().Draw(t, "attribution stated") {
			terms.Attribution = &grants.Attribution{LinkBack: rapid.Bool().Draw(t, "link"), Required: rapid.Bool().Draw(t, "required")}
		}
		return terms
	})
	rapid.Check(t, func(r *rapid.T) {
		a, b := draw.Draw(r, "a"), draw.Draw(r, "b")
		both := a
		both.Narrow(b)
		for _, one := range []grants.PolicyTerms{a, b} {
			for _, x := range []struct{ one, both grants.Permission }{
				{one.Redistribution, both.Redistribution}, {one.Derivatives.Other, both.Derivatives.Other}, {one.Derivatives.Summary, both.Derivatives.Summary},
				{one.Derivatives.Embeddings, both.Derivatives.Embeddings}, {one.Derivatives.Snippets, both.Derivatives.Snippets},
			} {
				if x.one == grants.Denied && x.both != grants.Denied {
					r.Fatal("what one denies is allowed")
				}
			}
			if a := one.Attribution; a != nil && (a.LinkBack && !both.Attribution.LinkBack || a.Required && !both.Attribution.Required) {
				r.Fatal("attribution that one asks for is not asked for")
			}
			if k := one.Retention; k != nil && (longer(both.Retention.CachedCopyDays, k.CachedCopyDays) || longer(both.Retention.FeatureDays, k.FeatureDays)) {
				r.Fatal("something is kept for longer than one allows")
			}
		}
	})
}

func longer(a, b *uint64) bool { return b != nil && (a == nil || *a > *b) }

func TestADenialIsAddedToTheOthers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		denied  []string
		granted grants.Purposes
		want    []string
	}{
		{"to the default", nil, grants.Purposes{grants.SearchIndex}, []string{"ai.finetune", "ai.train", "archive"}},
		{"to the default of a grant of training", nil, grants.Purposes{grants.AITrain}, []string{"ai.finetune", "archive"}},
		{"to what was stated", []string{"ai.embed", "archive"}, grants.Purposes{grants.SearchIndex}, []string{"ai.embed", "archive"}},
		{"to nothing, in so many words", []string{}, grants.Purposes{grants.SearchIndex}, []string{"archive"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			terms := grants.PolicyTerms{Denied: tt.denied}
			if terms.Deny(tt.granted, grants.Purposes{grants.Archive}); !slices.Equal(terms.Denied, tt.want) {
				t.Errorf("denied %q, want %q", terms.Denied, tt.want)
			}
		})
	}
}
