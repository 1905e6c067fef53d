package preferences

import (
	"fmt"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// maxIgnored bounds what a Statement tells of what it passed over, in lines.
const maxIgnored = 100

// A Statement is what one text, or one page, states about its use. The zero
// value states nothing.
type Statement struct {
	Preferences content.Preferences
	// Attribution says that a use is allowed only if the source is named.
	Attribution bool
	// Ignored tells what was passed over, and why; at most 100 lines.
	Ignored []string
}

// Ignore notes something that was passed over.
func (s *Statement) Ignore(format string, args ...any) {
	if len(s.Ignored) < maxIgnored {
		s.Ignored = append(s.Ignored, fmt.Sprintf(format, args...))
	}
}

// The tables below are only read.

// withoutIt lists what consists in, or needs, another purpose.
var withoutIt = map[string][]string{
	content.PurposeSearchIndex: {content.PurposeSearchSnippet},
	content.PurposeRAGRetrieve: {content.PurposeAISummarise},
	content.PurposeAITrain:     {content.PurposeAIFinetune},
}

// State adds a statement. A denial is one of everything that is not possible
// without the purpose as well.
func (s *Statement) State(purpose string, a content.Answer, origin string) {
	s.Preferences.State(purpose, a, origin)
	if a == content.No {
		for _, p := range withoutIt[purpose] {
			s.Preferences.State(p, a, origin)
		}
	}
}

// Widen adds the denials that those of p imply.
func (s *Statement) Widen(p content.Preferences) {
	for _, x := range p.Stated() {
		s.State(x.Purpose, x.Answer, x.Origin)
	}
}

// Join adds all that o states.
func (s *Statement) Join(o Statement) {
	s.Preferences.Join(o.Preferences)
	s.Attribution = s.Attribution || o.Attribution
	for _, line := range o.Ignored {
		s.Ignore("%s", line)
	}
}

// Speaks reports whether a field, a meta element or a key of front matter of
// that name, in any case, is one that Field reads.
func Speaks(name string) bool {
	switch strings.ToLower(name) {
	case "content-usage", "content-signal", "robots", "x-robots-tag":
		return true
	}
	return false
}

// Field reads one field by its name: of an HTTP header, of a page's meta
// element, or of front matter. place says where it stands, for the operator.
// Other names state nothing. A Content-Usage that is no dictionary is an error,
// and states nothing either (RFC 9651, 4.2).
func (s *Statement) Field(name, value, place string) error {
	switch strings.ToLower(name) {
	case "content-usage":
		return s.usage([]line{{place, value}})
	case "content-signal":
		s.signal(value, place, true)
	case "robots", "x-robots-tag":
		s.robots(value, place)
	}
	return nil
}

// A line is a value with where it stands.
type line struct{ place, value string }

// usageLabels maps the labels of AIPREF's vocabulary; of earlierLabels, which
// drafts before it had, only a denial counts.
var (
	usageLabels   = map[string]string{"train-ai": content.PurposeAITrain, "search": content.PurposeSearchIndex}
	earlierLabels = map[string][]string{
		"train-genai": {content.PurposeAITrain},
		"ai":          aiPurposes,
		"bots":        append([]string{content.PurposeSearchIndex, content.PurposeArchive}, aiPurposes...),
	}
	aiPurposes = []string{content.PurposeAITrain, content.PurposeRAGRetrieve, content.PurposeAISummarise, content.PurposeAIEmbed}
)

// usage reads the lines of one Content-Usage field. They are one dictionary, so
// that the last of several members with one label counts.
func (s *Statement) usage(lines []line) error {
	type said struct {
		member
		place string
	}
	var all []said
	at := make(map[string]int)
	for _, l := range lines {
		members, err := parseDictionary(l.value)
		if err != nil {
			return fmt.Errorf("%s: Content-Usage %.80q is no dictionary of RFC 9651: %w", l.place, l.value, err)
		}
		for _, m := range members {
			i, twice := at[m.key]
			if !twice {
				i = len(all)
				at[m.key] = i
				all = append(all, said{})
			}
			all[i] = said{m, l.place}
		}
	}
	for _, m := range all {
		s.label(m.member, m.place)
	}
	return nil
}

func (s *Statement) label(m member, place string) {
	answer := content.Unknown
	if m.kind == token {
		answer = map[string]content.Answer{"y": content.Yes, "n": content.No}[m.word]
	}
	purpose, known := usageLabels[m.key]
	earlier := earlierLabels[m.key]
	origin := fmt.Sprintf("%s: Content-Usage %s=%s", place, m.key, m.word)
	switch {
	case !known && (earlier == nil || answer == content.Yes):
		s.Ignore("%s: Content-Usage label %.60q has no purpose here", place, m.key)
	case answer == content.Unknown:
		s.Ignore("%s: Content-Usage %.60q is neither the token y nor n, and so states nothing", place, m.key)
	case known:
		s.State(purpose, answer, origin)
	}
	if answer == content.No {
		for _, p := range earlier {
			s.State(p, answer, origin)
		}
	}
}

// signals maps the words of Content-Signal.
var signals = map[string]string{
	"ai-input": content.PurposeRAGRetrieve, "ai-train": content.PurposeAITrain, "search": content.PurposeSearchIndex,
}

// signal reads a Content-Signal. If it does not speak to all, only what it
// denies counts.
func (s *Statement) signal(value, place string, toAll bool) {
	for part := range strings.SplitSeq(value, ",") {
		name, said, ok := strings.Cut(strings.ToLower(part), "=")
		name, said = strings.TrimSpace(name), strings.TrimSpace(said)
		answer := map[string]content.Answer{"yes": content.Yes, "no": content.No}[said]
		purpose, known := signals[name]
		switch {
		case name == "" && !ok:
		case !known:
			s.Ignore("%s: Content-Signal %.60q has no purpose here", place, name)
		case answer == content.Unknown:
			s.Ignore("%s: Content-Signal %.60q is neither yes nor no, and so states nothing", place, name)
		case answer == content.Yes && !toAll:
			s.Ignore("%s: Content-Signal %s=yes is for some agents or paths only, and so allows nothing", place, name)
		default:
			s.State(purpose, answer, fmt.Sprintf("%s: Content-Signal %s=%s", place, name, said))
		}
	}
}

// directives maps what robots directives deny.
var directives = map[string][]string{
	"noindex": {content.PurposeSearchIndex}, "none": {content.PurposeSearchIndex},
	"nosnippet": {content.PurposeSearchSnippet}, "max-snippet:0": {content.PurposeSearchSnippet},
	"noarchive": {content.PurposeArchive}, "nocache": {content.PurposeArchive},
	"noai": aiPurposes,
}

// robots reads the directives of a robots meta element or an X-Robots-Tag. What
// denies something to one crawler by name counts as denied to all: who is asked
// to leave a page alone is asked with reason. What is allowed to one is not.
func (s *Statement) robots(value, place string) {
	named := false
	for part := range strings.SplitSeq(strings.ToLower(value), ",") {
		word := strings.ReplaceAll(strings.TrimSpace(part), " ", "")
		switch name, behind, colon := strings.Cut(word, ":"); {
		case colon && name != "max-snippet" && name != "max-image-preview" && name != "max-video-preview" && name != "unavailable_after":
			named, word = true, behind
		}
		denied, known := directives[word]
		for _, p := range denied {
			s.State(p, content.No, fmt.Sprintf("%s: robots directive %s", place, word))
		}
		switch {
		case known || word == "":
		case (word == "index" || word == "all") && !named:
			s.State(content.PurposeSearchIndex, content.Yes, fmt.Sprintf("%s: robots directive %s", place, word))
		default:
			s.Ignore("%s: robots directive %.60q is about nothing that is granted here", place, word)
		}
	}
}
