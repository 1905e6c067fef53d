package indexer

import (
	"fmt"
	"maps"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
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
