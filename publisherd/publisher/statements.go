package publisher

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/arc"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// The forms of a Statement.
const (
	formTerms       = "policy terms"
	formTCT         = "TCT policy descriptor"
	formPermissions = "RBT permissions"
	formHeader      = "HTTP header"
	formRobots      = "robots.txt"
	formHTML        = "HTML"
	formARC         = "ARC policy"
)

// maxStatements is how many files one grant may be drawn from.
const maxStatements = 32

// A Statement is a file that says how content may be used, in whatever form, as
// it stood when a grant was drawn from it. The grant's file keeps it, so that
// it can be told later on what the consent rests.
type Statement struct {
	File   string        `json:"file"` // absolute
	Form   string        `json:"form"`
	Digest envelope.Hash `json:"digest"` // SHA-256 of its octets
	// Says is what was understood, a line a purpose; Ignored what was not, or
	// has no place in a policy.
	Says    []string `json:"says"`
	Ignored []string `json:"ignored"`

	stated      content.Preferences
	terms       grants.PolicyTerms // of policy terms; else what the form asks for
	attribution bool               // is asked for by a form that has no terms
	linkBack    bool
}

// ReadStatement reads a file, and finds out its form by what it begins with.
func ReadStatement(file string) (*Statement, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, preferences.MaxText+1))
	if err != nil {
		return nil, err
	}
	if len(text) > preferences.MaxText {
		return nil, fmt.Errorf("%s: more than %d octets", path, preferences.MaxText)
	}
	s := &Statement{File: path, Form: formOf(filepath.Base(path), text), Digest: sha256.Sum256(text), Says: []string{}, Ignored: []string{}}
	if err := s.read(filepath.Base(path), text); err != nil {
		return nil, err
	}
	s.Says = append(s.Says, s.stated.Lines()...)
	return s, nil
}

// formOf tells forms apart.
func formOf(name string, text []byte) string {
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	lower := bytes.ToLower(trimmed)
	has := func(names ...string) bool {
		for l := range bytes.Lines(lower) {
			field, _, ok := bytes.Cut(l, []byte(":"))
			if ok && slices.Contains(names, string(bytes.TrimSpace(field))) {
				return true
			}
		}
		return false
	}
	switch {
	case bytes.HasPrefix(trimmed, []byte("<")):
		return formHTML
	case bytes.HasPrefix(trimmed, []byte("{")):
		var top map[string]jsontext.Value
		if json.Unmarshal(trimmed, &top) == nil && (len(top["purposes"]) > 0 || strings.HasPrefix(string(top["profile"]), `"tct-policy`)) {
			return formTCT
		}
		if len(top["arc_policy_version"]) > 0 {
			return formARC
		}
		if preferences.HasPermissions(trimmed) {
			return formPermissions
		}
	case name == "robots.txt", has("user-agent"):
		return formRobots
	case bytes.HasPrefix(lower, []byte("http/")), has("content-usage", "content-signal", "x-robots-tag"):
		return formHeader
	}
	return formTerms
}

func (s *Statement) read(name string, text []byte) (err error) {
	var stated preferences.Statement
	switch s.Form {
	case formTerms:
		return s.readTerms(name, text)
	case formTCT:
		stated, err = s.readTCT(name, text)
	case formARC:
		stated, err = s.readARC(name, text)
	case formPermissions:
		stated, err = preferences.ReadPermissions(text, name)
	case formHeader:
		stated, err = preferences.ReadHeader(text, name)
	case formRobots:
		stated, err = preferences.ReadRobots(text, name)
	case formHTML:
		stated, err = preferences.ReadHTML(text, name)
	}
	if err != nil {
		return err
	}
	s.stated = stated.Preferences
	s.attribution = s.attribution || stated.Attribution
	s.Ignored = append(s.Ignored, stated.Ignored...)
	return nil
}

// readTerms takes what our own terms, or those of the sample, allow and deny
// for statements like any other.
func (s *Statement) readTerms(name string, text []byte) error {
	terms, notes, err := grants.ReadPolicyTerms(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var stated preferences.Statement
	for _, l := range []struct {
		word     string
		purposes []string
		answer   content.Answer
	}{{"allowed", terms.Allowed, content.Yes}, {"denied", terms.Denied, content.No}} {
		purposes, err := grants.ParsePurposes(l.purposes)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", name, l.word, err)
		}
		for _, p := range purposes {
			line := preferences.LineOf(text, l.word, string(p))
			stated.State(string(p), l.answer, fmt.Sprintf("%s line %d: %s", name, line, l.word))
		}
	}
	for _, d := range []struct {
		word    string
		said    grants.Permission
		purpose string
	}{
		{"embeddings", terms.Derivatives.Embeddings, content.PurposeAIEmbed},
		{"snippets", terms.Derivatives.Snippets, content.PurposeSearchSnippet},
		{"summary", terms.Derivatives.Summary, content.PurposeAISummarise},
	} {
		if d.said == grants.Denied {
			line := preferences.LineOf(text, "derivatives", d.word)
			stated.State(d.purpose, content.No, fmt.Sprintf("%s line %d: %s denied", name, line, d.word))
		}
	}
	s.stated, s.terms = stated.Preferences, terms
	s.Says = append(s.Says, notes...)
	return nil
}

// readTCT reads a policy descriptor; its requirements become terms where terms
// have words for them.
func (s *Statement) readTCT(name string, text []byte) (stated preferences.Statement, err error) {
	p, odd, err := tct.ReadPolicy(bytes.NewReader(text))
	if err != nil {
		return stated, fmt.Errorf("%s: %w", name, err)
	}
	for _, m := range []struct {
		member, purpose string
		answer          content.Answer
	}{
		{"allow_ai_input", content.PurposeRAGRetrieve, p.AllowAIInput},
		{"allow_ai_train", content.PurposeAITrain, p.AllowAITrain},
		{"allow_search_indexing", content.PurposeSearchIndex, p.AllowSearchIndexing},
	} {
		place := fmt.Sprintf("%s line %d", name, preferences.LineOf(text, `"purposes"`, `"`+m.member+`"`))
		stated.State(m.purpose, m.answer, fmt.Sprintf("%s: %s is %t", place, m.member, m.answer == content.Yes))
	}
	s.attribution, s.linkBack = p.AttributionRequired == content.Yes, p.LinkBackRequired == content.Yes
	s.terms.TermsURL, _ = content.CanonicalURL(p.TermsOfService)
	for _, o := range odd {
		stated.Ignore("%s: %s", name, o)
	}
	if p.NoticeRequired == content.Yes {
		stated.Ignore("%s: notice_required has no member in a policy; agree on it by the terms for people", name)
	}
	if p.MaxRequestsPerSecond > 0 || p.MaxRequestsPerDay > 0 {
		stated.Ignore("%s: rate_hints are about crawling", name)
	}
	if p.PaymentInfo != "" || p.Contact != "" {
		stated.Ignore("%s: of policy_urls, only the terms of service have a member", name)
	}
	return stated, nil
}

// readARC reads an ARC policy: the uses that it allows and denies, and for how
// long content may be kept.
func (s *Statement) readARC(name string, text []byte) (stated preferences.Statement, err error) {
	p, odd, err := arc.ReadPolicy(bytes.NewReader(text), name)
	if err != nil {
		return stated, fmt.Errorf("%s: %w", name, err)
	}
	for _, o := range odd {
		p.Uses.Ignore("%s: %s", name, o)
	}
	for _, says := range p.Says() {
		p.Uses.Ignore("%s: %s; a policy has no member for it", name, says)
	}
	return p.Uses, nil
}

// joined is what all statements say together: any denial wins.
func joined(all []*Statement) (p content.Preferences) {
	for _, s := range all {
		p.Join(s.stated)
	}
	return p
}

// Draw says which purposes a grant has by what was asked for and what is stated:
// what is denied is refused, and what nothing allows is left out, with a note.
// Without a wish it is all that is allowed, but for training.
func Draw(all []*Statement, wanted grants.Purposes) (granted grants.Purposes, notes []string, err error) {
	if len(all) == 0 {
		return wanted, nil, nil
	}
	if len(all) > maxStatements {
		return nil, nil, fmt.Errorf("%d statements, at most %d", len(all), maxStatements)
	}
	stated := joined(all)
	if len(wanted) == 0 {
		wanted, notes = offeredBy(stated)
	}
	for _, p := range wanted {
		switch answer, by := stated.About(string(p)); answer {
		case content.No:
			return nil, nil, &Refused{Reason: grants.ErrPurpose, Detail: fmt.Sprintf("%s is denied by %s", p, by.Origin)}
		case content.Yes:
			granted = append(granted, p)
		default:
			notes = append(notes, fmt.Sprintf("%s is left out: no statement allows it", p))
		}
	}
	if len(granted) == 0 {
		return nil, nil, &Refused{Reason: grants.ErrPurpose, Detail: "the statements allow nothing of what could be granted; " + strings.Join(notes, "; ")}
	}
	return granted, notes, nil
}

// offeredBy lists what is allowed, but for training, which is noted.
func offeredBy(stated content.Preferences) (all grants.Purposes, notes []string) {
	for _, s := range stated.Stated() {
		switch p := grants.Purpose(s.Purpose); {
		case !stated.Allows(s.Purpose) || slices.Contains(all, p):
		case p == grants.AITrain || p == grants.AIFinetune:
			notes = append(notes, fmt.Sprintf("%s is allowed by %s, and is left out: training has to be asked for by --purpose", p, s.Origin))
		default:
			all = append(all, p)
		}
	}
	return all, notes
}

// byStatements narrows purposes and terms for an indexer by all statements.
func byStatements(
	all []*Statement, indexer envelope.Name, wanted grants.Purposes, terms grants.PolicyTerms, scope grants.Scope,
) (grants.Purposes, grants.PolicyTerms, error) {
	if err := approved(joined(all), indexer); err != nil {
		return nil, terms, err
	}
	granted, _, err := Draw(all, wanted)
	if err != nil {
		return nil, terms, err
	}
	terms, err = narrow(terms, all, granted, scope)
	return granted, terms, err
}

// narrow makes of terms what all statements allow of them as well.
func narrow(terms grants.PolicyTerms, all []*Statement, granted grants.Purposes, scope grants.Scope) (grants.PolicyTerms, error) {
	var denied grants.Purposes
	for _, d := range joined(all).Denied() {
		denied = append(denied, grants.Purpose(d.Purpose))
	}
	for _, s := range all {
		if s.terms.Scope != nil && !coversAll(*s.terms.Scope, scope) {
			return terms, &Refused{Reason: grants.ErrScope, Detail: fmt.Sprintf("the grant reaches beyond the scope of %s", filepath.Base(s.File))}
		}
		terms.Narrow(s.terms)
	}
	for _, s := range all {
		// By default more is asked for than any other form can ask for.
		if terms.Attribution != nil && (s.attribution || s.linkBack) {
			terms.Narrow(grants.PolicyTerms{Attribution: &grants.Attribution{Required: s.attribution, LinkBack: s.linkBack}})
		}
	}
	if k, limited := joined(all).Keeping(); limited {
		terms.KeepAtMost(k.Days)
	}
	if len(all) > 0 {
		terms.Deny(granted, denied)
	}
	return terms, nil
}

// coversAll reports whether outer, as a file states it, covers scope.
func coversAll(outer, scope grants.Scope) bool {
	if outer.Type == "" {
		outer.Type = grants.URLPrefix
	}
	if scope.IsListed() {
		scope = scope.Frame()
	}
	return outer.Covers(scope)
}
