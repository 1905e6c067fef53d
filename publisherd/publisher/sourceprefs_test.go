package publisher

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// say writes a page whose head says how it may be used.
func (x *fixture) say(name, field, value string) {
	x.t.Helper()
	text := "<!DOCTYPE html><html lang=en><title>T</title><meta name='" + field + "' content='" + value + "'><p>words</p></html>"
	check(x.t, os.WriteFile(filepath.Join(x.site, name), []byte(text), 0o644))
}

// regrant stores the next grant of the series, for other purposes.
func (x *fixture) regrant(sequence uint64, purposes ...grants.Purpose) {
	x.t.Helper()
	pair := x.s.Grant(x.t, sequence, func(d *grants.Draft) { d.Purposes = purposes })
	x.fake.pairs[pair.Grant.Object.ID] = pair
	x.rel.Pair = pair
	check(x.t, x.rel.write(x.p.dir))
}

func (x *fixture) pushes(what string, sent, deleted, withheld int) {
	x.t.Helper()
	results, err := x.push()
	check(x.t, err)
	if r := results[0]; r.Sent != sent || r.Deleted != deleted || r.Withheld != withheld {
		x.t.Errorf("%s: %d sent, %d deleted, %d withheld; want %d, %d, %d", what, r.Sent, r.Deleted, r.Withheld, sent, deleted, withheld)
	}
	if c := x.cursor(); c.State != rootOf(x.t, x.fake.pages) || int(c.Pages) != len(x.fake.pages) {
		x.t.Errorf("%s: the two sides hold other pages", what)
	}
}

func TestAPageThatDeniesAPurposeIsWithdrawn(t *testing.T) {
	x := newFixture(t)
	x.regrant(2, grants.RAGRetrieve, grants.SearchIndex)
	x.say("a.html", "robots", "all")
	x.say("b.html", "content-signal", "ai-input=no")
	x.say("c.html", "content-usage", "train-ai=n")
	x.pushes("only what is granted is withheld", 2, 0, 1)
	x.say("a.html", "content-signal", "ai-input=no")
	x.pushes("a page that begins to deny, with the same words", 0, 1, 1)
	x.pushes("and nothing is left to do", 0, 0, 0)
	x.say("b.html", "content-signal", "ai-input=yes")
	x.pushes("a page that denies no more", 1, 0, 0)
}

func TestAnotherPurposeWithholdsOtherPages(t *testing.T) {
	x := newFixture(t)
	x.regrant(2, grants.RAGRetrieve, grants.SearchIndex)
	x.say("a.html", "content-signal", "ai-input=no")
	x.say("b.html", "content-usage", "train-ai=n")
	x.pushes("under the first grant", 1, 0, 1)
	x.regrant(3, grants.SearchIndex)
	x.pushes("without the purpose that the page denies", 1, 0, 0)
	x.regrant(4, grants.AITrain, grants.SearchIndex)
	x.pushes("with a purpose that the other page denies", 0, 1, 1)
}
