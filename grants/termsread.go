package grants

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// maxTerms is the greatest size of a file of terms, in octets.
const maxTerms = 64 << 10

// ParsePolicyTerms is ReadPolicyTerms without the notes.
func ParsePolicyTerms(text []byte) (PolicyTerms, error) {
	t, _, err := ReadPolicyTerms(text)
	return t, err
}

// ReadPolicyTerms reads terms in JSON, if the first character is "{", or in
// YAML, and notes what was said in the words of the sample of UZPIF-OI 11.2 and
// is another member here. Unknown and duplicate members, and anything behind
// the terms, are errors: a misspelt denial must not be lost.
func ReadPolicyTerms(text []byte) (PolicyTerms, []string, error) {
	if len(text) > maxTerms {
		return PolicyTerms{}, nil, fmt.Errorf("policy terms of %d octets, at most %d", len(text), maxTerms)
	}
	trimmed := bytes.TrimLeft(text, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		var err error
		if trimmed, err = fromYAML(text); err != nil {
			return PolicyTerms{}, nil, fmt.Errorf("policy terms: %w", err)
		}
	}
	var f termsFile
	if err := json.Unmarshal(trimmed, &f, json.RejectUnknownMembers(true)); err != nil {
		return PolicyTerms{}, nil, fmt.Errorf("policy terms: %w", err)
	}
	t, notes, err := f.terms()
	if err != nil {
		return PolicyTerms{}, nil, fmt.Errorf("policy terms: %w", err)
	}
	return t, notes, nil
}

// fromYAML turns one document into JSON. What YAML has and JSON has not, such
// as keys that are numbers, is an error.
func fromYAML(text []byte) ([]byte, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var said any
	if err := d.Decode(&said); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var more yaml.Node
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	if said == nil {
		said = struct{}{}
	}
	return json.Marshal(said)
}

// A termsFile has the members of PolicyTerms, and in their place those that the
// sample has.
type termsFile struct {
	Allowed         []string     `json:"allowed"`
	AllowedPurposes []string     `json:"allowed_purposes"` // of the sample
	Attribution     *Attribution `json:"attribution"`
	Denied          []string     `json:"denied"`
	DeniedPurposes  []string     `json:"denied_purposes"` // of the sample
	Derivatives     Derivatives  `json:"derivatives"`
	Redistribution  Permission   `json:"redistribution"`
	Retention       *struct {
		RetentionTerms `json:",embed"`
		EmbeddingDays  *uint64 `json:"embedding_days"` // of the sample
	} `json:"retention"`
	Scope    *scopeTerms `json:"scope"`
	TermsURL string      `json:"terms_url"`
}

// scopeTerms are a scope, or one URL as the sample has it.
type scopeTerms struct {
	Scope
	url string
}

// UnmarshalJSONFrom reads either.
func (s *scopeTerms) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '"' {
		return json.UnmarshalDecode(d, &s.url)
	}
	return json.UnmarshalDecode(d, &s.Scope)
}

// terms brings what the file says under our names.
func (f *termsFile) terms() (t PolicyTerms, notes []string, err error) {
	t = PolicyTerms{
		Allowed: f.Allowed, Attribution: f.Attribution, Denied: f.Denied, Derivatives: f.Derivatives,
		Redistribution: f.Redistribution, TermsURL: f.TermsURL,
	}
	for _, x := range []struct {
		name   string
		sample []string
		ours   *[]string
	}{{"allowed", f.AllowedPurposes, &t.Allowed}, {"denied", f.DeniedPurposes, &t.Denied}} {
		if x.sample == nil {
			continue
		}
		if *x.ours != nil {
			return t, nil, fmt.Errorf("both %s and %s_purposes; say it once", x.name, x.name)
		}
		*x.ours = x.sample
		notes = append(notes, fmt.Sprintf("%s_purposes is read as %s", x.name, x.name))
	}
	if r := f.Retention; r != nil {
		t.Retention = &r.RetentionTerms
		if r.EmbeddingDays != nil {
			if r.FeatureDays != nil {
				return t, nil, errors.New("both feature_days and embedding_days; say it once")
			}
			t.Retention.FeatureDays = r.EmbeddingDays
			notes = append(notes, "embedding_days is read as feature_days, which counts for all that is extracted")
		}
	}
	if f.Scope != nil && f.Scope.url != "" {
		prefix := strings.TrimSuffix(f.Scope.url, "*")
		if prefix != f.Scope.url && !strings.HasSuffix(prefix, "/") {
			return t, nil, fmt.Errorf("scope %.200q: a wildcard stands behind a /, since scopes hold whole segments", f.Scope.url)
		}
		if f.Scope.Scope, err = PrefixScope(prefix); err != nil {
			return t, nil, fmt.Errorf("scope: %w", err)
		}
		notes = append(notes, fmt.Sprintf("scope %q is read as the URL prefix %s", f.Scope.url, prefix))
	}
	if f.Scope != nil {
		t.Scope = &f.Scope.Scope
	}
	return t, notes, nil
}
