package grants_test

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestScopeHashTellsAPartFromTheWhole(t *testing.T) {
	g := issue(t, nil).Grant // under /doc/
	scope := func(p string) grants.RevocationBody {
		return g.RevokeScope(prefixes(t, p), grants.DispositionDelete)
	}
	seen := make(map[envelope.Hash]string)
	for _, tt := range []struct {
		name  string
		body  grants.RevocationBody
		whole bool
	}{
		{"the grant", g.Revoke(grants.DispositionStop), true},
		{"the relationship", grants.RevokeAll(publisher, grants.DispositionStop), true},
		{"a scope that holds all of it", scope("https://example.com/"), true},
		{"its own scope", scope("https://example.com/doc/"), true},
		{"a part", scope("https://example.com/doc/part/"), false},
		{"another part", scope("https://example.com/doc/other/"), false},
	} {
		got, err := revoke(t, tt.body, 1).ScopeHash(g)
		if err != nil || (got == g.ScopeHash) != tt.whole {
			t.Errorf("%s: %s, %v; the grant's is %s", tt.name, got, err, g.ScopeHash)
		}
		if before, twice := seen[got]; twice && !tt.whole {
			t.Errorf("%s has the hash of %s", tt.name, before)
		}
		seen[got] = tt.name
	}
}
