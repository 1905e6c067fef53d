package site

import (
	"html"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/preferences"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
)

// maxFrontMatter bounds front matter, in octets: what the parser of YAML
// recurses into, and what it holds, has an end with it.
const maxFrontMatter = 16 << 10

// A frontMatter is what a Markdown file says about its page, between two lines
// "---" at its start. Keys that are not named here are passed over.
type frontMatter struct {
	title, description, language string
	modified                     time.Time // of lastmod, updated or date; zero if none can be read
	draft                        bool
	uses                         string // meta elements about the use of the page
}

// parseFrontMatter reads YAML, or tells why it cannot be used. ok is false for
// text between two rules, which is no front matter. Anchors and aliases are
// refused: a few lines of them stand for gigabytes (TestFrontMatterIsBounded).
func parseFrontMatter(text string) (m frontMatter, ok bool, reason string) {
	if len(text) > maxFrontMatter {
		return m, false, "front matter of more than 16 KiB"
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return m, false, "front matter that is no YAML"
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return m, doc.Kind == 0, "" // nothing at all, or a text
	}
	if hasAlias(&doc) {
		return m, false, "front matter with anchors or aliases"
	}
	said := make(map[string]string)
	for pairs := doc.Content[0].Content; len(pairs) >= 2; pairs = pairs[2:] {
		key, value := strings.ToLower(pairs[0].Value), pairs[1]
		if _, twice := said[key]; !twice && value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
			said[key] = strings.TrimSpace(value.Value)
		}
	}
	m.title, m.description = said["title"], said["description"]
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if preferences.Speaks(key) {
			m.uses += `<meta name="` + key + `" content="` + html.EscapeString(said[key]) + `">`
		}
	}
	m.draft = strings.EqualFold(said["draft"], "true") || strings.EqualFold(said["draft"], "yes")
	for _, key := range []string{"language", "lang"} {
		if _, err := language.Parse(said[key]); err == nil {
			m.language = said[key]
		}
	}
	for _, key := range []string{"date", "updated", "lastmod"} { // the last that can be read counts
		for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
			if t, err := time.Parse(form, said[key]); err == nil {
				m.modified = t.UTC().Truncate(time.Second)
			}
		}
	}
	return m, true, ""
}

// hasAlias looks through a tree whose size maxFrontMatter bounds.
func hasAlias(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return true
	}
	for _, c := range n.Content {
		if hasAlias(c) {
			return true
		}
	}
	return false
}

// head is what an HTML page would say of the same.
func (m frontMatter) head() string {
	var b strings.Builder
	if m.language != "" {
		b.WriteString(`<html lang="` + html.EscapeString(m.language) + `">`)
	}
	if m.title != "" {
		b.WriteString("<title>" + html.EscapeString(m.title) + "</title>")
	}
	if m.description != "" {
		b.WriteString(`<meta name="description" content="` + html.EscapeString(m.description) + `">`)
	}
	b.WriteString(m.uses)
	return b.String()
}
