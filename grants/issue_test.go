package grants_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestIssueHasCautiousDefaults(t *testing.T) {
	p := issue(t, nil)
	g, policy := p.Grant, p.Policy.Body
	if life := g.Object.ExpiresAt.Sub(g.Object.IssuedAt); life != 720*time.Hour {
		t.Errorf("lifetime %s", life)
	}
	if g.Body.Mode != grants.ModeBoth || g.Body.Listing != grants.ListingBlinded || g.Body.Constraints != (grants.Constraints{}) {
		t.Errorf("body %+v", g.Body)
	}
	if !strings.Contains(string(g.Object.Body), `"constraints":{}`) {
		t.Error("constraints are left out")
	}
	if !slices.Equal(policy.Allowed, g.Body.Purposes) || !slices.Equal(policy.Denied, grants.Purposes{grants.AIFinetune, grants.AITrain}) {
		t.Errorf("allowed %q, denied %q", policy.Allowed, policy.Denied)
	}
	if policy.Retention != (grants.Retention{CachedCopyDays: 30, FeatureDays: 30}) || policy.Redistribution != grants.Denied {
		t.Errorf("retention %+v, redistribution %s", policy.Retention, policy.Redistribution)
	}
	if policy.Attribution != (grants.Attribution{Required: true, LinkBack: true}) {
		t.Errorf("attribution %+v", policy.Attribution)
	}
	if policy.Derivatives != (grants.Derivatives{Embeddings: grants.Denied, Snippets: grants.Denied, Summary: grants.Denied}) {
		t.Errorf("derivatives %+v", policy.Derivatives)
	}
	if p.Policy.Object.Audience != indexer || p.Policy.Object.Subject != publisher || p.Policy.Object.Authority != "spiffe://example.com" {
		t.Errorf("policy envelope %+v", p.Policy.Object)
	}
}

func TestDefaultDenialsNeverDenyWhatIsGranted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		granted grants.Purposes
		denied  grants.Purposes
	}{
		{"no training", grants.Purposes{grants.SearchIndex}, grants.Purposes{grants.AIFinetune, grants.AITrain}},
		{"training", grants.Purposes{grants.AITrain}, grants.Purposes{grants.AIFinetune}},
		{"fine-tuning alone", grants.Purposes{grants.AIFinetune}, nil},
		{"both", grants.Purposes{grants.AIFinetune, grants.AITrain}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := issue(t, func(d *grants.Draft) { d.Purposes = tt.granted })
			if !slices.Equal(p.Policy.Body.Denied, tt.denied) {
				t.Errorf("denied %q, want %q", p.Policy.Body.Denied, tt.denied)
			}
			for _, c := range grants.CommonPurposes() {
				if err := p.Permits(c, noon); (err == nil) != tt.granted.Has(c) {
					t.Errorf("%s: %v", c, err)
				}
			}
			if _, err := grants.OpenPair(p.Grant.Object.Raw, p.Policy.Object.Raw, verifier(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestIssueRefusesWhatWouldBeRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*grants.Draft)
		want   grants.Reason
	}{
		{"a purpose that the terms deny", func(d *grants.Draft) { d.Terms.Denied = []string{"search.index"} }, grants.ErrPolicy},
		{"fine-tuning where training is denied", func(d *grants.Draft) {
			d.Purposes, d.Terms.Denied = grants.Purposes{grants.AIFinetune}, []string{"ai.train"}
		}, grants.ErrPolicy},
		{"a purpose that the terms do not allow", func(d *grants.Draft) { d.Terms.Allowed = []string{"search.index"} }, grants.ErrPolicy},
		{"a purpose whose derivative is denied", func(d *grants.Draft) {
			d.Purposes, d.Terms.Derivatives.Snippets = grants.Purposes{grants.SearchSnippet}, grants.Denied
		}, grants.ErrPolicy},
		{"terms over other pages", func(d *grants.Draft) {
			d.Terms.Scope = &grants.Scope{Prefixes: []string{"https://example.com/blog/"}}
		}, grants.ErrPolicy},
		{"an unknown purpose in the terms", func(d *grants.Draft) { d.Terms.Denied = []string{"ai.dream"} }, grants.ErrPurpose},
		{"no purpose", func(d *grants.Draft) { d.Purposes = nil }, grants.ErrPurpose},
		{"an empty scope", func(d *grants.Draft) { d.Scope = grants.Scope{Type: grants.URLPrefix} }, grants.ErrScope},
		{"a scope of another type", func(d *grants.Draft) { d.Scope.Type = "everything" }, grants.ErrScopeType},
		{"a life over the cap", func(d *grants.Draft) { d.Lifetime = grants.MaxLifetime + time.Second }, grants.ErrLifetime},
		{"a life that is over", func(d *grants.Draft) { d.Lifetime = -time.Hour }, grants.ErrLifetime},
		{"a nonce that was never drawn", func(d *grants.Draft) { d.GrantNonce = grants.Nonce{} }, grants.ErrMalformed},
		{"more bytes a day than can be written", func(d *grants.Draft) { d.Constraints.MaxBytesPerDay = 1 << 53 }, grants.ErrMalformed},
		{"no indexer", func(d *grants.Draft) { d.Indexer = "" }, grants.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := draft(t)
			tt.change(&d)
			p, _, err := grants.Issue(d, signerOf(t, publisher))
			wantReason(t, err, tt.want)
			if p.Grant != nil || p.Policy != nil {
				t.Error("something was issued")
			}
		})
	}
}

func TestBroadGrantsAreWarnedOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*grants.Draft)
		want   []grants.WarningCode
	}{
		{"a narrow grant", nil, nil},
		{"a whole origin", func(d *grants.Draft) { d.Scope = prefixes(t, "https://example.com/") }, []grants.WarningCode{grants.WarnWholeOrigin}},
		{"every purpose", func(d *grants.Draft) { d.Purposes = grants.CommonPurposes() }, []grants.WarningCode{grants.WarnAllPurposes, grants.WarnTraining, grants.WarnArchive}},
		{"fine-tuning", func(d *grants.Draft) { d.Purposes = grants.Purposes{grants.AIFinetune} }, []grants.WarningCode{grants.WarnTraining}},
		{"a long life", func(d *grants.Draft) { d.Lifetime = 90 * 24 * time.Hour }, []grants.WarningCode{grants.WarnLongLived}},
		{"a long life of broken days", func(d *grants.Draft) { d.Lifetime = 31*24*time.Hour + time.Hour }, []grants.WarningCode{grants.WarnLongLived}},
		{"plain HTTP", func(d *grants.Draft) { d.Scope = prefixes(t, "http://example.com/doc/") }, []grants.WarningCode{grants.WarnPlainHTTP}},
		{"a public listing", func(d *grants.Draft) { d.Listing = grants.ListingPublic }, []grants.WarningCode{grants.WarnPublic}},
		{"redistribution", func(d *grants.Draft) { d.Terms.Redistribution = grants.Allowed }, []grants.WarningCode{grants.WarnThirdParty}},
		{"copies that outlive the grant", func(d *grants.Draft) { d.Lifetime = 29 * 24 * time.Hour }, []grants.WarningCode{grants.WarnKept}},
		{"no attribution", func(d *grants.Draft) { d.Terms.Attribution = &grants.Attribution{LinkBack: true} }, []grants.WarningCode{grants.WarnNameless}},
		{"derivatives of any kind", func(d *grants.Draft) { d.Terms.Derivatives.Other = grants.Allowed }, []grants.WarningCode{grants.WarnDerivatives}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := draft(t)
			if tt.change != nil {
				tt.change(&d)
			}
			_, warnings, err := grants.Issue(d, signerOf(t, publisher))
			if err != nil {
				t.Fatal(err)
			}
			var got []grants.WarningCode
			for _, w := range warnings {
				got = append(got, w.Code)
				if !strings.HasSuffix(w.Detail, ".") {
					t.Errorf("%q is no sentence", w.Detail)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("warnings %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPolicyTermsAreReadStrictly(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"nothing", "", true},
		{"YAML", "denied: [ai.train]\nattribution: {required: true, link_back: false}\nretention: {cached_copy_days: 14, feature_days: 30}\nredistribution: denied\n", true},
		{"JSON", `{"allowed":["search.index"],"derivatives":{"summary":"allowed"},"retention":{"cached_copy_days":14},"terms_url":"https://example.com/terms"}`, true},
		{"a misspelt member in YAML", "denyed: [ai.train]\n", false},
		{"a misspelt member in JSON", `{"denyed":["ai.train"]}`, false},
		{"a misspelt member below, in YAML", "retention: {cached_copy: 14}\n", false},
		{"a misspelt member below, in JSON", `{"retention":{"cached_copy":14}}`, false},
		{"another case in JSON", `{"Denied":["ai.train"]}`, false},
		{"a member twice in YAML", "denied: [ai.train]\ndenied: []\n", false},
		{"a member twice in JSON", `{"denied":["ai.train"],"denied":[]}`, false},
		{"a second document in YAML", "denied: [ai.train]\n---\ndenied: []\n", false},
		{"a second value in JSON", `{"denied":["ai.train"]} {}`, false},
		{"a member that is not chosen here", "issuer: spiffe://example.com/p\n", false},
		{"a list", "[ai.train]", false},
		{"a file over 64 KiB", "denied: [ai.train] #" + strings.Repeat("x", 64<<10), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := grants.ParsePolicyTerms([]byte(tt.text)); (err == nil) != tt.ok {
				t.Errorf("read: %v, want ok %t", err, tt.ok)
			}
		})
	}
}

func TestPolicyTermsReachThePolicy(t *testing.T) {
	for name, text := range map[string]string{
		"yaml": "allowed: [search.index, rag.retrieve, archive]\ndenied: []\nattribution: {required: true}\nderivatives: {summary: allowed}\n" +
			"redistribution: allowed\nretention: {cached_copy_days: 0}\nscope: {prefixes: ['https://example.com/doc/', 'https://example.com/blog/']}\nterms_url: https://example.com/terms\n",
		"json": `{"allowed":["search.index","rag.retrieve","archive"],"denied":[],"attribution":{"required":true,"link_back":false},"derivatives":{"summary":"allowed"},` +
			`"redistribution":"allowed","retention":{"cached_copy_days":0},"scope":{"type":"url-prefix","prefixes":["https://example.com/doc/","https://example.com/blog/"]},"terms_url":"https://example.com/terms"}`,
	} {
		terms, err := grants.ParsePolicyTerms([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b := issue(t, func(d *grants.Draft) { d.Terms = terms }).Policy.Body
		if !slices.Equal(b.Allowed, grants.Purposes{grants.Archive, grants.RAGRetrieve, grants.SearchIndex}) || len(b.Denied) != 0 {
			t.Errorf("%s: allowed %q, denied %q", name, b.Allowed, b.Denied)
		}
		if b.Attribution != (grants.Attribution{Required: true}) || b.Retention != (grants.Retention{CachedCopyDays: 0, FeatureDays: 30}) {
			t.Errorf("%s: attribution %+v, retention %+v", name, b.Attribution, b.Retention)
		}
		if b.Derivatives.Summary != grants.Allowed || b.Derivatives.Snippets != grants.Denied || b.Redistribution != grants.Allowed {
			t.Errorf("%s: derivatives %+v, redistribution %s", name, b.Derivatives, b.Redistribution)
		}
		if !slices.Equal(b.Scope.Prefixes, []string{"https://example.com/blog/", "https://example.com/doc/"}) || b.TermsURL != "https://example.com/terms" {
			t.Errorf("%s: scope %q, terms %q", name, b.Scope.Prefixes, b.TermsURL)
		}
	}
}
