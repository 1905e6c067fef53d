package rbt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// inManifest puts members of the text's examples of {"manifest":{…}} into good.
func inManifest(t testing.TB, b []byte) []byte {
	t.Helper()
	_, inner, ok := strings.Cut(strings.TrimSpace(string(b)), `"manifest": {`)
	inner, end := strings.CutSuffix(strings.TrimSpace(inner), "}")
	inner, end2 := strings.CutSuffix(strings.TrimSpace(inner), "}")
	if !ok || !end || !end2 {
		t.Fatalf("no manifest in %s", b)
	}
	return replaced(t, `"title":"T"`, `"title":"T",`+inner)
}

// TestEachExampleOfTheDraft reads each of the examples, or says why it is refused.
func TestEachExampleOfTheDraft(t *testing.T) {
	root := func(name string) []byte {
		return replaced(t, `"roots":[`, `"roots":[`+string(example(t, name))+`,`)
	}
	manifest := func(b []byte) (any, error) { return rbt.ParseManifest(b, rbt.Options{}) }
	registry := func(b []byte) (any, error) { return rbt.ParseRegistry(b, rbt.Options{}) }
	burrow := func(b []byte) (any, error) { return rbt.ParseBurrowPointer(b, rbt.Options{}) }
	warren := func(b []byte) (any, error) { return rbt.ParseWarrenPointer(b, rbt.Options{}) }
	for _, tt := range []struct {
		name  string
		read  func([]byte) (any, error)
		doc   []byte
		wants string // of the error; "" for none
		holds string // what is read
	}{
		{"a Git root", manifest, root("root-git"), "", "git https://github.com/org/burrow.git refs/heads/main /"},
		{"an HTTPS root", manifest, root("root-https"), "", "https https://cdn.example.org/burrows/example/"},
		{"children", manifest, replaced(t, `"rel":["item"]`, `"rel":["item"],`+strings.Trim(string(example(t, "children")), "{} \n")+"}"), "", "collection-page-2.json"},
		{"the manifest as it is printed, with digests that are cut short", manifest, example(t, "manifest"), "is no RID", ""},
		{"the manifest with whole digests", manifest, whole(example(t, "manifest")), "", "About this burrow"},
		{"cache directives", manifest, inManifest(t, example(t, "cache")), "", "24h0m0s"},
		{"the registry", registry, example(t, "registry"), "", "rbt-spec"},
		{"the pointer to a manifest", burrow, example(t, "well-known-burrow"), "", "https://example.org/burrow/.burrow.json"},
		{"the pointer to a registry", warren, example(t, "well-known-warren"), "", "https://example.org/registry/.warren.md"},
		{"provenance, with a commit that is cut short", manifest, inManifest(t, example(t, "provenance")), "", "Jane Doe"},
		{"repository files", manifest, inManifest(t, example(t, "repo")), "", "CONTRIBUTING.md"},
		{"agents", manifest, inManifest(t, example(t, "agents")), "", "Technical specification"},
		{"agents, at length", manifest, inManifest(t, example(t, "agents-acme")), "", "prefer versioned docs"},
		{"permissions", manifest, replaced(t, `"title":"T"`, `"title":"T","agents":`+string(example(t, "permissions"))), "", "permission train is false"},
		{"a hint about access", manifest, inManifest(t, example(t, "auth")), "", "https://example.org/docs/access"},
		{"a signature, which is reserved", manifest, inManifest(t, example(t, "signature")), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.read(tt.doc)
			if tt.wants != "" {
				if !errors.Is(err, rbt.ErrInvalid) || !strings.Contains(err.Error(), tt.wants) {
					t.Errorf("%v, want one that says %q", err, tt.wants)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(dump(got), tt.holds) {
				t.Errorf("%s does not hold %q", dump(got), tt.holds)
			}
		})
	}
}

// dump writes all that was read.
func dump(v any) string {
	switch v := v.(type) {
	case *rbt.Manifest:
		var b strings.Builder
		for _, r := range v.Roots {
			fmt.Fprintln(&b, r)
		}
		for _, e := range v.Entries {
			fmt.Fprintf(&b, "%+v %+v\n", e, e.Children)
		}
		fmt.Fprintf(&b, "%+v %+v %+v %+v %+v", v.Git, v.Cache, v.Repo, v.Agents, v.Auth)
		return b.String()
	default:
		return fmt.Sprintf("%+v", v)
	}
}

// TestPermissionsBecomePurposes holds the words of the text against purposes.
func TestPermissionsBecomePurposes(t *testing.T) {
	m, err := rbt.ParseManifest(replaced(t, `"title":"T"`, `"title":"T","agents":`+string(example(t, "permissions"))), rbt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for purpose, want := range map[string]content.Answer{
		content.PurposeAISummarise: content.Yes, content.PurposeSearchSnippet: content.Yes, content.PurposeSearchIndex: content.Yes,
		content.PurposeAITrain: content.No, content.PurposeAIFinetune: content.No, content.PurposeRAGRetrieve: content.Unknown,
	} {
		if got, _ := m.Agents.Uses.Preferences.About(purpose); got != want {
			t.Errorf("%s is %v, want %v", purpose, got, want)
		}
	}
	if !m.Agents.Uses.Attribution {
		t.Error("with-attribution is lost")
	}
}

// TestAReportHasTheFormOfTheText compares members with those of the example.
func TestAReportHasTheFormOfTheText(t *testing.T) {
	var want, got map[string]map[string]any
	if err := json.Unmarshal(example(t, "report"), &want); err != nil {
		t.Fatal(err)
	}
	r := rbt.Report{Manifest: "https://example.org/.burrow.json", Started: testNow, Completed: testNow}
	r.Processed, r.Skipped = 150, 3
	r.Add(rbt.Problem{Category: rbt.EntryNotFound, EntryID: "missing-doc", Href: "docs/missing.md", Attempts: []rbt.Attempt{
		{Root: "git", Error: "blob not found"}, {Root: "https", Status: 404},
	}})
	b, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want["traversal"]["started"], want["traversal"]["completed"] = "2026-03-04T05:06:07Z", "2026-03-04T05:06:07Z"
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for range rbt.MaxProblems + 5 {
		r.Add(rbt.Problem{})
	}
	if len(r.Problems) != rbt.MaxProblems || r.More != 6 {
		t.Errorf("%d problems and %d more", len(r.Problems), r.More)
	}
}

func TestAReportIsBounded(t *testing.T) {
	var r rbt.Report
	p := rbt.Problem{Category: rbt.TransportError, Attempts: make([]rbt.Attempt, 32)}
	for i := range p.Attempts {
		p.Attempts[i].Error = strings.Repeat("x", 1000)
	}
	for range 100_000 {
		r.Add(p)
	}
	if told := len(r.Problems); told < 100 || told > 1000 || int64(told)+r.More != 100_000 {
		t.Errorf("%d problems of 32 KB are told, %d counted", told, r.More)
	}
}
