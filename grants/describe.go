package grants

import (
	"fmt"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// words say a purpose to a person. Nothing writes to it.
var words = map[Purpose]string{
	SearchIndex:   "finding pages in a search index",
	SearchSnippet: "showing extracts in search results",
	RAGRetrieve:   "retrieving passages as the basis of generated answers",
	AITrain:       "training models",
	AIFinetune:    "fine-tuning models",
	AISummarise:   "summarising by a model",
	AIEmbed:       "computing embeddings",
	Archive:       "keeping an archive",
}

// Words are the purposes in words, with the code of each.
func (ps Purposes) Words() string {
	said := make([]string, len(ps))
	for i, p := range ps {
		if w, ok := words[p]; ok {
			said[i] = fmt.Sprintf("%s (%s)", w, p)
		} else {
			said[i] = fmt.Sprintf("the private purpose %s", p)
		}
	}
	return list(said)
}

// Describe says in plain English what the pair allows, one sentence an
// element, for the person who signs it or who has to keep it.
func Describe(p Pair) []string {
	g, policy := p.Grant.Body, p.Policy.Body
	lines := []string{
		fmt.Sprintf("%s may use pages of %s: %s.", p.Grant.Object.Audience, g.Issuer, g.Scope.words()),
		fmt.Sprintf("It may use them for %s, and for nothing else.", g.Purposes.Words()),
	}
	if len(policy.Denied) > 0 {
		lines = append(lines, fmt.Sprintf("Expressly denied: %s.", policy.Denied.Words()))
	}
	if said := p.trainingWords(); said != "" {
		lines = append(lines, said)
	}
	lines = append(lines, policy.Derivatives.words(), p.retentionWords(), policy.attributionWords(g.Constraints.Attribution))
	if policy.Redistribution == Allowed {
		lines = append(lines, "The content may be handed to third parties, for the same purposes.")
	} else {
		lines = append(lines, "The content must not be handed to third parties.")
	}
	lines = append(lines, g.Mode.words())
	if limits := g.Constraints.words(); limits != "" {
		lines = append(lines, limits)
	}
	if g.Listing == ListingPublic {
		lines = append(lines, "The public log names the publisher.")
	} else {
		lines = append(lines, "The public log does not name the publisher.")
	}
	if policy.TermsURL != "" {
		lines = append(lines, fmt.Sprintf("Further terms, for people: %s.", policy.TermsURL))
	}
	life := p.ExpiresAt().Sub(p.BeginsAt())
	return append(lines, fmt.Sprintf("This holds for %s, from %s until %s, unless it is revoked before.", span(life), envelope.At(p.BeginsAt()), envelope.At(p.ExpiresAt())))
}

// trainingWords says what follows from silence about training: whoever signs
// should not have to know it.
func (p Pair) trainingWords() string {
	var unsaid Purposes
	for _, purpose := range []Purpose{AIFinetune, AITrain} {
		if !p.Grant.Body.Purposes.Has(purpose) && !p.Policy.Body.Denied.Deny(purpose) {
			unsaid = append(unsaid, purpose)
		}
	}
	if len(unsaid) == 0 {
		return ""
	}
	return fmt.Sprintf("Not denied in words, and not allowed either: %s.", unsaid.Words())
}

// span writes a duration in words, in whole units where it is one.
func span(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / u.size; n > 0 && d%u.size == 0 {
			return count(uint64(n), u.name)
		}
	}
	return d.String()
}

func count(n uint64, name string) string {
	if n == 1 {
		return "1 " + name
	}
	return fmt.Sprintf("%d %ss", n, name)
}

func (s Scope) words() string {
	places := make([]string, len(s.Prefixes))
	for i, p := range s.Prefixes {
		if strings.HasSuffix(p, "/") {
			places[i] = "everything under " + p
		} else {
			places[i] = p + " and everything under it"
		}
	}
	said := list(places)
	if s.Type == Collection {
		said = fmt.Sprintf("those of the collection %q among %s", s.ID, said)
	}
	if s.Type == InFeed {
		said = "those that the publisher's newest signed feed lists among " + said
	}
	if n := max(s.Count, uint64(len(s.Digests))); s.Type == HashSet {
		said = fmt.Sprintf("those whose content has one of %d digests, as long as it does not change, among %s", n, said)
	}
	if s.Query {
		return said + ", with or without a query"
	}
	return said + ", without URLs that have a query"
}

func (d Derivatives) words() string {
	var may, mayNot []string
	for _, x := range []struct {
		name string
		p    Permission
	}{{"embeddings", d.Embeddings}, {"snippets", d.Snippets}, {"summaries", d.Summary}, {"anything else out of them", d.Other}} {
		if x.p == Allowed {
			may = append(may, x.name)
		} else {
			mayNot = append(mayNot, x.name)
		}
	}
	switch {
	case len(may) == 0:
		return fmt.Sprintf("It must not make %s.", alternatives(mayNot))
	case len(mayNot) == 0:
		return fmt.Sprintf("It may make %s.", list(may))
	}
	return fmt.Sprintf("It may make %s, but not %s.", list(may), alternatives(mayNot))
}

func (p Pair) retentionWords() string {
	r := p.Retention()
	said := func(n uint64) string {
		switch n {
		case 0:
			return "no longer than it takes to process them"
		}
		return "for " + count(n, "day")
	}
	return fmt.Sprintf("Copies may be kept %s, what was extracted from them %s, counted from the last delivery.", said(r.CachedCopyDays), said(r.FeatureDays))
}

func (b PolicyBody) attributionWords(text string) string {
	var must []string
	if b.Attribution.Required {
		must = append(must, "name the source")
	}
	if b.Attribution.LinkBack {
		must = append(must, "link to the page")
	}
	if text != "" {
		must = append(must, fmt.Sprintf("show the words %q", text))
	}
	if len(must) == 0 {
		return "No attribution is asked for."
	}
	return fmt.Sprintf("Whoever shows the content must %s.", list(must))
}

func (m Mode) words() string {
	switch m {
	case ModePush:
		return "The publisher sends what changed; the indexer does not ask."
	case ModeRequest:
		return "The indexer asks for what it wants; the publisher sends nothing unasked but deletions."
	}
	return "The publisher sends what changed, and the indexer may ask for pages."
}

func (c Constraints) words() string {
	var limits []string
	if n := c.MaxFetchPerSecond; n > 0 {
		limits = append(limits, fmt.Sprintf("ask for at most %s a second", count(n, "page")))
	}
	if n := c.MaxBytesPerDay; n > 0 {
		limits = append(limits, fmt.Sprintf("take at most %s of pages a day, by UTC", count(n, "octet")))
	}
	if len(limits) == 0 {
		return ""
	}
	return fmt.Sprintf("The indexer may %s.", list(limits))
}

// list joins by commas and "and", alternatives by commas and "or".
func list(items []string) string         { return join(items, " and ") }
func alternatives(items []string) string { return join(items, " or ") }

func join(items []string, last string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	n := len(items) - 1
	return strings.Join(items[:n], ", ") + last + items[n]
}
