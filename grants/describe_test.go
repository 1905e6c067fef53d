package grants_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// described are pairs whose words stand in testdata/describe: one for each type
// of scope, and each member of grant and policy in one of them.
var described = map[string]func(t *testing.T, d *grants.Draft){
	"url-prefix": func(*testing.T, *grants.Draft) {},
	"collection": func(t *testing.T, d *grants.Draft) {
		days := uint64(0)
		scope, err := grants.CollectionScope("docs", "https://example.com/a", "https://example.com/b/")
		if err != nil {
			t.Fatal(err)
		}
		scope.Query = true
		d.Scope = scope
		d.Purposes = grants.Purposes{grants.AISummarise, "x.example.com.newsletter"}
		d.Constraints = grants.Constraints{Attribution: `by "Example"`, MaxBytesPerDay: 5000, MaxFetchPerSecond: 1, RetentionDays: 1}
		d.Mode, d.Listing = grants.ModeRequest, grants.ListingPublic
		d.Terms = grants.PolicyTerms{
			Denied: []string{}, Attribution: &grants.Attribution{}, Redistribution: grants.Allowed, TermsURL: "https://example.com/terms",
			Retention: &grants.RetentionTerms{CachedCopyDays: &days},
		}
	},
	"feed": func(t *testing.T, d *grants.Draft) {
		scope, err := grants.FeedScope("https://example.com/")
		if err != nil {
			t.Fatal(err)
		}
		d.Scope, d.Mode, d.Lifetime = scope, grants.ModePush, 36*time.Hour
		d.Purposes = grants.Purposes{grants.AITrain}
		d.Terms.Derivatives = grants.Derivatives{Embeddings: grants.Allowed, Other: grants.Allowed, Snippets: grants.Allowed, Summary: grants.Allowed}
	},
	"hash-set": func(t *testing.T, d *grants.Draft) {
		scope, err := grants.HashScope([]envelope.Hash{{1}, {2}, {3}}, "https://example.com/doc/")
		if err != nil {
			t.Fatal(err)
		}
		d.Scope, d.Mode, d.Lifetime = scope, grants.ModePush, 90*24*time.Hour
		d.Purposes = grants.Purposes{grants.Archive, grants.SearchIndex}
	},
}

func TestDescribeSaysWhatIsAllowed(t *testing.T) {
	for name, change := range described {
		t.Run(name, func(t *testing.T) {
			p := issue(t, func(d *grants.Draft) { change(t, d) })
			lines := grants.Describe(p)
			for _, w := range p.Warnings() {
				lines = append(lines, "Consider: "+w.Detail)
			}
			got := strings.Join(lines, "\n") + "\n"
			want, err := os.ReadFile(filepath.Join("testdata", "describe", name+".txt"))
			if err != nil || got != string(want) {
				t.Errorf("described as\n%s\nwant\n%s(%v)", got, want, err)
			}
		})
	}
}

// TestDescribeLeavesNothingOut changes one member after another: each change
// has to be heard.
func TestDescribeLeavesNothingOut(t *testing.T) {
	days := uint64(7)
	scope := prefixes(t, "https://example.com/doc/")
	scope.Query = true
	before := strings.Join(grants.Describe(issue(t, nil)), "\n")
	for name, change := range map[string]func(*grants.Draft){
		"audience":                    func(d *grants.Draft) { d.Indexer = other },
		"scope.prefixes":              func(d *grants.Draft) { d.Scope = prefixes(t, "https://example.com/doc/a/") },
		"scope.query":                 func(d *grants.Draft) { d.Scope = scope },
		"purposes":                    func(d *grants.Draft) { d.Purposes = grants.Purposes{grants.SearchIndex} },
		"mode":                        func(d *grants.Draft) { d.Mode = grants.ModePush },
		"listing":                     func(d *grants.Draft) { d.Listing = grants.ListingPublic },
		"expires_at":                  func(d *grants.Draft) { d.Lifetime = time.Hour },
		"constraints.attribution":     func(d *grants.Draft) { d.Constraints.Attribution = "by us" },
		"constraints.max_bytes":       func(d *grants.Draft) { d.Constraints.MaxBytesPerDay = 1 },
		"constraints.max_fetch":       func(d *grants.Draft) { d.Constraints.MaxFetchPerSecond = 2 },
		"constraints.retention":       func(d *grants.Draft) { d.Constraints.RetentionDays = 1 },
		"denied":                      func(d *grants.Draft) { d.Terms.Denied = []string{"archive"} },
		"denied, none":                func(d *grants.Draft) { d.Terms.Denied = []string{} },
		"derivatives.embeddings":      func(d *grants.Draft) { d.Terms.Derivatives.Embeddings = grants.Allowed },
		"derivatives.other":           func(d *grants.Draft) { d.Terms.Derivatives.Other = grants.Allowed },
		"derivatives.snippets":        func(d *grants.Draft) { d.Terms.Derivatives.Snippets = grants.Allowed },
		"derivatives.summary":         func(d *grants.Draft) { d.Terms.Derivatives.Summary = grants.Allowed },
		"retention.cached_copy_days":  func(d *grants.Draft) { d.Terms.Retention = &grants.RetentionTerms{CachedCopyDays: &days} },
		"retention.feature_days":      func(d *grants.Draft) { d.Terms.Retention = &grants.RetentionTerms{FeatureDays: &days} },
		"attribution.required":        func(d *grants.Draft) { d.Terms.Attribution = &grants.Attribution{LinkBack: true} },
		"attribution.link_back":       func(d *grants.Draft) { d.Terms.Attribution = &grants.Attribution{Required: true} },
		"redistribution":              func(d *grants.Draft) { d.Terms.Redistribution = grants.Allowed },
		"terms_url":                   func(d *grants.Draft) { d.Terms.TermsURL = "https://example.com/terms" },
		"purposes, for fine-tuning":   func(d *grants.Draft) { d.Purposes = grants.Purposes{grants.AIFinetune} },
		"purposes, a private purpose": func(d *grants.Draft) { d.Purposes = grants.Purposes{"x.example.com.a"} },
	} {
		if after := strings.Join(grants.Describe(issue(t, change)), "\n"); after == before {
			t.Errorf("%s changes nothing that is said", name)
		}
	}
}
