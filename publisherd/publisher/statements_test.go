package publisher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

const (
	descriptor = `{"profile":"tct-policy-1","version":1,
"policy_urls":{"terms_of_service":"https://example.com/terms/","contact":"https://example.com/c"},
"purposes":{"allow_ai_input":true,
"allow_ai_train":false,"allow_search_indexing":true},
"requirements":{"attribution_required":true,"link_back_required":false,"notice_required":true},"rate_hints":{"max_requests_per_day":10}}`
	terms = "scope: https://example.com/*\nallowed: [search.index, rag.retrieve]\ndenied:\n - ai.train\nretention: {cached_copy_days: 7, feature_days: 60}\nderivatives: {summary: denied}\n"
)

// statement writes a file and reads it.
func statement(t testing.TB, name, text string) *Statement {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	check(t, os.WriteFile(file, []byte(text), 0o644))
	s, err := ReadStatement(file)
	check(t, err)
	return s
}

func TestEachFormIsFoundOutAndMapped(t *testing.T) {
	for _, tt := range []struct{ name, file, text, form, allowed, denied string }{
		{"terms in YAML", "p.yaml", terms, formTerms, "rag.retrieve search.index", "ai.finetune ai.summarise ai.train"},
		{"terms in JSON", "p.json", `{"allowed":["archive"]}`, formTerms, "archive", ""},
		{"the sample of 11.2", "p.json", `{"scope":"https://example.com/docs/*","allowed_purposes":["search.index"],"denied_purposes":["ai.finetune"]}`, formTerms, "search.index", "ai.finetune"},
		{"a TCT descriptor", "llm-policy.json", descriptor, formTCT, "rag.retrieve search.index", "ai.finetune ai.train"},
		{"a TCT descriptor without a profile", "p.json", `{"purposes":{"allow_ai_input":false}}`, formTCT, "", "ai.summarise rag.retrieve"},
		{"an RBT manifest", ".burrow.json", `{"rbt":"0.2","manifest":{"agents":{"permissions":{"index":true,"train":false}}}}`, formPermissions, "search.index", "ai.finetune ai.train"},
		{"a header", "h.txt", "content-usage: train-ai=n, search=y", formHeader, "search.index", "ai.finetune ai.train"},
		{"a saved header", "h.txt", "HTTP/2 200\nServer: x\nContent-Signal: search=no\n", formHeader, "", "search.index search.snippet"},
		{"a robots.txt by its name", "robots.txt", "Content-Signal: search=yes\n", formRobots, "search.index", ""},
		{"a robots.txt by its groups", "r", "# hello\nUser-Agent: *\nContent-Signal: ai-train=no\n", formRobots, "", "ai.finetune ai.train"},
		{"a page", "p.html", "\n<!doctype html><meta name=robots content=noarchive>", formHTML, "", "archive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := statement(t, tt.file, tt.text)
			var allowed, denied []string
			for _, p := range s.stated.Stated() {
				if p.Answer == content.Yes {
					allowed = append(allowed, p.Purpose)
				} else {
					denied = append(denied, p.Purpose)
				}
			}
			if s.Form != tt.form || strings.Join(allowed, " ") != tt.allowed || strings.Join(denied, " ") != tt.denied {
				t.Errorf("%s allows %q and denies %q; want %s, %q, %q", s.Form, allowed, denied, tt.form, tt.allowed, tt.denied)
			}
			if s.Digest.IsZero() || !filepath.IsAbs(s.File) || len(s.Says) < len(allowed)+len(denied) {
				t.Errorf("kept %+v", s)
			}
		})
	}
}

func TestStatementsThatCannotBeReadAreErrors(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"a member that is not known", `{"denyed":["ai.train"]}`},
		{"a purpose that is not known", "denied: [train-ai]\n"},
		{"a descriptor that is no JSON", `{"purposes":`},
		{"a header that is no dictionary", "Content-Usage: train-ai=n,"},
		{"more than is read", strings.Repeat("#", 300<<10)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f")
			check(t, os.WriteFile(file, []byte(tt.text), 0o644))
			if s, err := ReadStatement(file); err == nil {
				t.Errorf("read as %+v", s)
			}
		})
	}
}

func TestPurposesAreDrawnFromStatements(t *testing.T) {
	policy, page := statement(t, "p.yaml", terms), statement(t, "h", "Content-Usage: train-ai=y, search=y")
	signal := statement(t, "robots.txt", "User-agent: *\nContent-Signal: ai-input=no\n")
	for _, tt := range []struct {
		name    string
		all     []*Statement
		wanted  string
		granted string
		told    string // of a note, or of the refusal if granted is empty
	}{
		{"what is allowed", []*Statement{policy}, "search.index", "search.index", ""},
		{"what is denied names its line", []*Statement{page, policy}, "ai.train search.index", "", "ai.train is denied by p.yaml line 4: denied"},
		{"who denies training denies fine-tuning", []*Statement{policy}, "ai.finetune", "", "ai.finetune is denied by p.yaml line 4"},
		{"a derivative that is denied", []*Statement{policy}, "ai.summarise", "", "ai.summarise is denied by p.yaml line 6: summary denied"},
		{"what nothing allows is left out", []*Statement{policy, page}, "archive search.index", "search.index", "archive is left out"},
		{"and if nothing is left, refused", []*Statement{policy}, "archive", "", "archive is left out"},
		{"any denial wins", []*Statement{policy, signal}, "rag.retrieve", "", "robots.txt line 2: Content-Signal ai-input=no"},
		{"all that is allowed, without a wish", []*Statement{policy}, "", "rag.retrieve search.index", ""},
		{"but training", []*Statement{page}, "", "search.index", "ai.train is allowed by h line 1: Content-Usage train-ai=y, and is left out"},
		{"which may be wished", []*Statement{page}, "ai.train", "ai.train", ""},
		{"without statements, the wish", nil, "archive", "archive", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wanted, err := grants.ParsePurposes(strings.Fields(tt.wanted))
			check(t, err)
			granted, notes, err := Draw(tt.all, wanted)
			told := strings.Join(notes, "; ")
			var refused *Refused
			if err != nil {
				if told = err.Error(); !errors.As(err, &refused) || refused.Reason != grants.ErrPurpose {
					t.Errorf("refused by %v", err)
				}
			}
			if strings.Join(granted.Strings(), " ") != tt.granted || !strings.Contains(told, tt.told) {
				t.Errorf("granted %q, told %q; want %q, %q", granted, told, tt.granted, tt.told)
			}
		})
	}
}

func TestNothingIsDrawnThatAStatementDenies(t *testing.T) {
	purposes := grants.CommonPurposes()
	rapid.Check(t, func(r *rapid.T) {
		var all []*Statement
		allowed, denied := map[grants.Purpose]bool{}, map[grants.Purpose]bool{}
		for range rapid.IntRange(1, 4).Draw(r, "statements") {
			s := new(Statement)
			for range rapid.IntRange(0, 6).Draw(r, "lines") {
				p := rapid.SampledFrom(purposes).Draw(r, "purpose")
				no := rapid.Bool().Draw(r, "denied")
				s.stated.State(string(p), map[bool]content.Answer{true: content.No, false: content.Yes}[no], "x")
				allowed[p], denied[p] = allowed[p] || !no, denied[p] || no
			}
			all = append(all, s)
		}
		wanted := rapid.SampledFrom([]grants.Purposes{nil, purposes, purposes[2:5], purposes[4:]}).Draw(r, "wanted")
		granted, _, err := Draw(all, wanted)
		slices.Reverse(all)
		again, _, err2 := Draw(all, wanted)
		if !slices.Equal(granted, again) || (err == nil) != (err2 == nil) {
			r.Fatalf("the order counts: %q and %q", granted, again)
		}
		for _, p := range granted {
			if denied[p] || !allowed[p] || wanted != nil && !wanted.Has(p) {
				r.Fatalf("%s is granted", p)
			}
		}
	})
}

func TestStatementsNarrowTheTerms(t *testing.T) {
	dir := newFolder(t)
	q := GrantRequest{
		Indexer: peerName, Source: "docs", Scope: scopeOf(t, "https://example.com/docs/"), Purposes: grants.Purposes{grants.RAGRetrieve, grants.SearchIndex}, Lifetime: 24 * time.Hour,
		Terms:      grants.PolicyTerms{Attribution: &grants.Attribution{}, Derivatives: grants.Derivatives{Summary: grants.Allowed}},
		Statements: []*Statement{statement(t, "llm-policy.json", descriptor), statement(t, "p.yaml", terms)},
	}
	r, _, err := IssueGrant(dir, q, noon)
	check(t, err)
	b := r.Pair.Policy.Body
	if b.Retention != (grants.Retention{CachedCopyDays: 7, FeatureDays: 60}) || b.Attribution != (grants.Attribution{Required: true}) || b.Derivatives.Summary != grants.Denied {
		t.Errorf("retention %+v, attribution %+v, derivatives %+v", b.Retention, b.Attribution, b.Derivatives)
	}
	if b.TermsURL != "https://example.com/terms/" || !slices.Equal(b.Denied, grants.Purposes{grants.AIFinetune, grants.AISummarise, grants.AITrain}) {
		t.Errorf("terms %q, denied %q", b.TermsURL, b.Denied)
	}
	kept, err := FindGrant(dir, r.Series)
	check(t, err)
	if len(kept.Statements) != 2 || kept.Statements[0].Digest != q.Statements[0].Digest || !slices.Equal(kept.Statements[1].Says, q.Statements[1].Says) {
		t.Errorf("kept %+v", kept.Statements)
	}
	q.Scope = scopeOf(t, "https://example.org/")
	var refused *Refused
	if _, _, err := IssueGrant(dir, q, noon); !errors.As(err, &refused) || refused.Reason != grants.ErrScope || !strings.Contains(refused.Detail, "p.yaml") {
		t.Errorf("beyond the scope of a statement: %v", err)
	}
}

// TestWhatASourceLimitsNarrowsTheGrant limits by a file that a grant is drawn
// from, and by what the last scan found.
func TestWhatASourceLimitsNarrowsTheGrant(t *testing.T) {
	policy := func(consumer string, days int) string {
		return fmt.Sprintf(`{"arc_policy_version":"1","retention":{"max_days":%d},"approved_consumers":[%q],"access":{"uses":{"search.index":true}}}`, days, consumer)
	}
	limits := func(consumer string, days int) content.Preferences {
		return statement(t, "arc-policy.json", policy(consumer, days)).stated
	}
	for _, tt := range []struct {
		name     string
		consumer string
		days     int
		kept     uint64
		want     grants.Reason
	}{
		{"a shorter retention counts", string(peerName), 7, 7, ""},
		{"a longer one widens nothing", string(peerName), 365, 30, ""},
		{"none at all", string(peerName), 0, 0, ""},
		{"another consumer", "ExampleBot", 7, 0, grants.ErrPolicy},
		{"a part of the name", string(peerName)[:len(peerName)-1], 7, 0, grants.ErrPolicy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := GrantRequest{Indexer: peerName, Source: "docs", Scope: scopeOf(t, "https://example.com/docs/"), Purposes: grants.Purposes{grants.SearchIndex}}
			found := newFolder(t)
			check(t, keepPreferences(found, "docs", limits(tt.consumer, tt.days)))
			for _, dir := range []string{found, newFolder(t)} {
				if dir != found {
					q.Statements = []*Statement{statement(t, "arc-policy.json", policy(tt.consumer, tt.days))}
				}
				r, _, err := IssueGrant(dir, q, noon)
				var refused *Refused
				if errors.As(err, &refused) != (tt.want != "") || tt.want != "" && refused.Reason != tt.want {
					t.Fatalf("issued: %v, want %q", err, tt.want)
				}
				if tt.want == "" && r.Pair.Retention() != (grants.Retention{CachedCopyDays: tt.kept, FeatureDays: tt.kept}) {
					t.Errorf("kept for %+v days", r.Pair.Retention())
				}
			}
		})
	}
	dir := newFolder(t)
	q := GrantRequest{Indexer: peerName, Source: "docs", Scope: scopeOf(t, "https://example.com/docs/"), Purposes: grants.Purposes{grants.SearchIndex}}
	r, _, err := IssueGrant(dir, q, noon)
	check(t, errors.Join(err, r.withheld(dir)))
	for _, p := range []content.Preferences{limits("ExampleBot", 365), limits(string(peerName), 29)} {
		check(t, keepPreferences(dir, "docs", p))
		var refused *Refused
		if err := r.withheld(dir); !errors.As(err, &refused) || refused.Reason != grants.ErrPolicy {
			t.Errorf("under a grant that was signed before: %v", err)
		}
	}
	r, _, err = RenewGrant(dir, r.Series, RenewRequest{}, noon)
	check(t, err)
	if err := r.withheld(dir); err != nil || r.Pair.Retention().CachedCopyDays != 29 {
		t.Errorf("renewed: %v, %+v", err, r.Pair.Retention())
	}
}

func TestEachPurposeOfContentCanBeGranted(t *testing.T) {
	all := []string{
		content.PurposeAIEmbed, content.PurposeAIFinetune, content.PurposeAISummarise, content.PurposeAITrain, content.PurposeArchive,
		content.PurposeRAGRetrieve, content.PurposeSearchIndex, content.PurposeSearchSnippet,
	}
	ps, err := grants.ParsePurposes(all)
	if err != nil || !slices.Equal(ps, grants.CommonPurposes()) {
		t.Errorf("%q, %v", ps, err)
	}
}

func TestADryRunSignsNothing(t *testing.T) {
	dir := newFolder(t)
	q := GrantRequest{Indexer: peerName, Source: "docs", Scope: scopeOf(t, "https://example.com/"), Purposes: grants.Purposes{grants.SearchIndex}, DryRun: true}
	r, warnings, err := IssueGrant(dir, q, noon)
	check(t, err)
	if len(grants.Describe(r.Pair)) < 8 || len(warnings) != 1 || warnings[0].Code != grants.WarnWholeOrigin {
		t.Errorf("described as %q, warned %q", grants.Describe(r.Pair), warnings)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "grants", "*")); err != nil || len(files) != 0 {
		t.Errorf("left %q, %v", files, err)
	}
	local, err := identity.Load(dir, noon)
	check(t, err)
	if s := r.Pair.Grant.Object.Signatures; len(s) != 1 || s[0].KeyID == local.Envelope.Public().ID() {
		t.Error("the identity's key signed")
	}
}
