package rbt

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// MaxInstruction is the greatest length of a text for agents, in octets.
const MaxInstruction = 64 << 10

// maxContradictions is how many of one text are told.
const maxContradictions = 100

// maxLink is how many octets of a link are looked at.
const maxLink = 1000

var (
	// A line that states something: a name, a colon and a value, also in a list.
	saidLine = regexp.MustCompile("^[ \t>*`-]*([A-Za-z-]+)[*`]*:[*`]*[ \t]*(.*?)[ \t\r`]*$")
	// Where a link of Markdown leads. Its length is bounded where it is used: a bound here
	// is a thousand states, which every start of a program paid for.
	linkTarget = regexp.MustCompile(`\]\(<?([^)\s>]+)`)
	answers    = map[string]content.Answer{
		"true": content.Yes, "yes": content.Yes, "allow": content.Yes, "allowed": content.Yes, "with-attribution": content.Yes,
		"false": content.No, "no": content.No, "deny": content.No, "denied": content.No,
	}
)

// Contradictions tells where a text for agents, which has this path, says
// otherwise than the manifest does (13.6): it states a use that the manifest
// denies, or denies one that the manifest does not, or leads to what agents are
// asked to pass over. Only what a program can read counts: lines as of a header
// (Content-Usage, Content-Signal, robots) or of the manifest's permissions, and
// links. Prose is not judged.
func (a *Agents) Contradictions(name, text string) (all []string) {
	tell := func(line int, format string, args ...any) {
		if len(all) < maxContradictions {
			all = append(all, fmt.Sprintf("%s line %d: ", name, line)+fmt.Sprintf(format, args...))
		}
	}
	number := 0
	for line := range strings.Lines(text[:min(len(text), MaxInstruction)]) {
		number++
		for _, p := range stated(line) {
			here, _ := a.Uses.Preferences.About(p.Purpose)
			if p.Answer != here && (p.Answer == content.No || here == content.No) {
				tell(number, "it says %s of %s, and the manifest's permissions say %s", p.Answer, p.Purpose, here)
			}
		}
		for _, link := range linkTarget.FindAllStringSubmatch(line, -1) {
			t, err := ResolveHref(name, link[1][:min(len(link[1]), maxLink)], Options{})
			if err == nil && t.URL == "" && a.Ignores(t.Path) {
				tell(number, "it leads to %.200q, which agents.ignore asks to pass over", t.Path)
			}
		}
	}
	return all
}

// stated are the answers that one line gives.
func stated(line string) []content.Preference {
	m := saidLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
	if m == nil {
		return nil
	}
	var s preferences.Statement
	if purpose, known := preferences.Permitted()[strings.ToLower(m[1])]; known {
		s.State(purpose, answers[strings.ToLower(strings.Trim(m[2], `"'`))], "")
	} else if s.Field(m[1], m[2], "") != nil {
		return nil // no dictionary, which states nothing
	}
	return s.Preferences.Stated()
}

// compare holds the texts for agents that are there against the manifest. One
// that cannot be read, or is too long to be one, is not judged.
func (x *Export) compare(a *Agents) {
	for _, name := range InstructionFiles() {
		info, err := os.Lstat(x.file(name))
		if err != nil || !info.Mode().IsRegular() || info.Size() > MaxInstruction {
			continue
		}
		if text, err := os.ReadFile(x.file(name)); err == nil {
			x.report.Contradictions = append(x.report.Contradictions, a.Contradictions(name, string(text))...)
		}
	}
}
