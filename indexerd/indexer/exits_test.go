package indexer

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// An Exit tells what leaves by a way outside of this package, as names by ExitName, and
// false if that way is not for such a reader.
type Exit func(t testing.TB, x *Indexer, purpose grants.Purpose, thirdParty bool) (map[string]bool, bool)

// exits are those that the tests outside of the package have named.
var exits = make(map[string]Exit)

// AddExit names one.
func AddExit(name string, e Exit) bool {
	exits[name] = e
	return true
}

// ExitName names a page.
func ExitName(publisher envelope.Name, url string) string { return string(publisher) + " " + url }

// leaves compares what leaves by every exit with the model.
func (c *course) leaves() error {
	for _, l := range []listener{{purpose: grants.SearchIndex}, {purpose: grants.RAGRetrieve}, {purpose: grants.SearchIndex, thirdParty: true}} {
		want := make(map[string]bool)
		for u := range c.taken {
			if c.allowed(u, l) {
				want[ExitName(c.p.local.Name(), u)] = true
			}
		}
		for name, exit := range exits {
			got, serves := exit(c.r.t, c.r.x, l.purpose, l.thirdParty)
			if !serves {
				continue
			}
			maps.DeleteFunc(got, func(page string, _ bool) bool {
				return len(page) < len(c.p.local.Name()) || page[:len(c.p.local.Name())+1] != string(c.p.local.Name())+" "
			})
			if !maps.Equal(got, want) {
				return fmt.Errorf("%s for %s (third party: %t) lets out %v, the model %v", name, l.purpose, l.thirdParty, got, want)
			}
		}
	}
	return nil
}

// Agreed is an agreement under which pages come to an indexer of its own, for the tests
// outside of the package.
type Agreed struct {
	X *Indexer
	r *rig
	s *series
	c *client
}

// Site is the URL below which its pages are.
const Site = site

// Agree begins one; change may be nil.
func Agree(t testing.TB, change func(*grants.Draft)) *Agreed {
	t.Helper()
	a := &Agreed{r: newRig(t)}
	a.X = a.r.x
	a.s = a.r.example().series("docs-1", site, change)
	a.c = a.s.p.session(a.s)
	t.Cleanup(func() { a.c.close() })
	return a
}

// Push brings pages, by their URLs; one without text is deleted.
func (a *Agreed) Push(pages map[string]string) {
	a.r.t.Helper()
	var all []change
	for _, u := range slices.Sorted(maps.Keys(pages)) {
		all = append(all, change{url: u, text: pages[u]})
	}
	a.c.push(a.s, all...)
}

// Revoke withdraws it.
func (a *Agreed) Revoke(d grants.Disposition) {
	a.r.t.Helper()
	a.s.p.revoke(a.s.p.revocation(a.s.pair.Grant.Revoke(d)))
}

// Renew announces a newer grant, which takes over nothing yet.
func (a *Agreed) Renew(change func(*grants.Draft)) {
	a.r.t.Helper()
	a.s.pair = a.s.grant(a.s.pair.Grant.Object.Sequence+1, change)
	a.c.close()
	a.c = a.s.p.session(a.s)
}

// Forward moves the indexer's clock on, and Now shows it.
func (a *Agreed) Forward(d time.Duration) { a.r.forward(d) }
func (a *Agreed) Now() time.Time          { return a.r.now() }

// Card is the indexer's.
func (a *Agreed) Card() *identity.Card { return a.r.card }

// Payload is what Push offers for a text.
func Payload(url, text string) []byte { return payloadOf(url, text) }
