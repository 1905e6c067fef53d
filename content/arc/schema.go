package arc

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed schema/*.json
var schemas embed.FS

// The names of the schemas in schema/.
const (
	sitemapSchema = "schema/sitemap.json"
	policySchema  = "schema/policy.json"
)

// A schemaSet is what is compiled once for all.
type schemaSet struct{ sitemap, entry, policy *jsonschema.Schema }

// compiled are the schemas. Formats are asserted, which draft-07 leaves open.
var compiled = sync.OnceValues(func() (set schemaSet, err error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.AssertFormat()
	c.UseLoader(nowhere{})
	for _, name := range []string{sitemapSchema, policySchema} {
		text, err := schemas.ReadFile(name)
		if err != nil {
			return set, err
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return set, err
		}
		if err := c.AddResource("arc:///"+name, document); err != nil {
			return set, err
		}
	}
	for _, s := range []struct {
		at string
		to **jsonschema.Schema
	}{{sitemapSchema, &set.sitemap}, {sitemapSchema + "#/definitions/entry", &set.entry}, {policySchema, &set.policy}} {
		if *s.to, err = c.Compile("arc:///" + s.at); err != nil {
			return set, err
		}
	}
	return set, nil
})

// nowhere loads no schema, whatever one refers to.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) { return nil, fmt.Errorf("no schema is fetched: %s", url) }

// A Violation is one thing that the schema objects to.
type Violation struct {
	At   string // a JSON pointer, empty for the whole
	What string
	// form says that it is about the form of a string whose value may yet be
	// understood.
	form bool
}

// String says where it is and what.
func (v Violation) String() string {
	if v.At == "" {
		return v.What
	}
	return v.At + ": " + v.What
}

// maxViolations bounds what is told of one document.
const maxViolations = 100

// Validate holds a whole sitemap or delta, in JSON, against the schema of what is
// written here, and returns what it objects to; at most 100 things. It is
// stricter than reading is. The error is for what is no JSON, or more than 100
// MiB of it.
func Validate(r io.Reader) ([]Violation, error) {
	const most = 100 << 20
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, limit("more than %d octets", most)
	}
	if err := checkDepth(text, maxDepth+2); err != nil {
		return nil, err
	}
	set, err := compiled()
	if err != nil {
		return nil, err
	}
	return violations(set.sitemap, text)
}

// violations holds JSON against a schema.
func violations(s *jsonschema.Schema, text []byte) ([]Violation, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, malformed("%w", err)
	}
	return violationsOf(s, value)
}

func violationsOf(s *jsonschema.Schema, value any) ([]Violation, error) {
	err := s.Validate(value)
	var failed *jsonschema.ValidationError
	if err == nil || !errors.As(err, &failed) {
		return nil, err
	}
	var all []Violation
	printer := message.NewPrinter(language.English)
	var leaves func(e *jsonschema.ValidationError)
	leaves = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			leaves(c)
		}
		if len(e.Causes) > 0 || len(all) >= maxViolations {
			return
		}
		v := Violation{What: fmt.Sprintf("%.300s", e.ErrorKind.LocalizedString(printer))}
		if len(e.InstanceLocation) > 0 {
			v.At = "/" + strings.Join(e.InstanceLocation, "/")
		}
		switch e.ErrorKind.(type) {
		case *kind.Format, *kind.Pattern:
			v.form = true
		}
		all = append(all, v)
	}
	leaves(failed)
	return all, nil
}
