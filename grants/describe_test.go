package grants_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestDescribeSaysWhatIsAllowed(t *testing.T) {
	p := issue(t, nil)
	want := []string{
		"spiffe://indexer.example/i1 may use pages of spiffe://example.com/publisher: everything under https://example.com/doc/, without URLs that have a query.",
		"It may use them for retrieving passages as the basis of generated answers (rag.retrieve) and finding pages in a search index (search.index), and for nothing else.",
		"Expressly denied: fine-tuning models (ai.finetune) and training models (ai.train).",
		"It must not make embeddings, snippets or summaries.",
		"Copies may be kept for 30 days, what was extracted from them for 30 days, counted from the last delivery.",
		"Whoever shows the content must name the source and link to the page.",
		"The content must not be handed to third parties.",
		"The publisher sends what changed, and the indexer may ask for pages.",
		"The public log does not name the publisher.",
		"This holds from 2026-03-16T12:00:00Z until 2026-04-15T12:00:00Z, unless it is revoked before.",
	}
	if got := grants.Describe(p); !slices.Equal(got, want) {
		t.Errorf("described as\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDescribeLeavesNothingOut(t *testing.T) {
	days := uint64(0)
	p := issue(t, func(d *grants.Draft) {
		scope, err := grants.CollectionScope("docs", "https://example.com/a", "https://example.com/b/")
		if err != nil {
			t.Fatal(err)
		}
		scope.Query = true
		d.Scope = scope
		d.Purposes = grants.Purposes{grants.AISummarise, "x.example.com.newsletter"}
		d.Constraints = grants.Constraints{Attribution: `by "Example"`, MaxBytesPerDay: 5000, MaxFetchPerSecond: 2, RetentionDays: 1}
		d.Mode, d.Listing = grants.ModeRequest, grants.ListingPublic
		d.Terms = grants.PolicyTerms{
			Denied: []string{}, Attribution: &grants.Attribution{}, Redistribution: grants.Allowed, TermsURL: "https://example.com/terms",
			Retention: &grants.RetentionTerms{CachedCopyDays: &days},
		}
	})
	text := strings.Join(grants.Describe(p), "\n")
	for _, part := range []string{
		`those of the collection "docs" among https://example.com/a and everything under it and everything under https://example.com/b/, with or without a query`,
		"summarising by a model (ai.summarise) and the private purpose x.example.com.newsletter",
		"It may make summaries, but not embeddings or snippets.",
		"kept no longer than it takes to process them, what was extracted from them for 1 day",
		`Whoever shows the content must show the words "by \"Example\"".`,
		"may be handed to third parties",
		"The indexer asks for what it wants",
		"The indexer may ask for at most 2 pages a second and take at most 5000 bytes a day.",
		"The public log names the publisher.",
		"Further terms: https://example.com/terms.",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not said in\n%s", part, text)
		}
	}
	if strings.Contains(text, "Expressly denied") {
		t.Error("denials are spoken of, and there are none")
	}
}
