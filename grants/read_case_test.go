package grants_test

import (
	"bytes"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// FuzzReadPair reads back what a store could hold: what is read is the octets
// that are stored, belongs together, and says what its fields would print.
func FuzzReadPair(f *testing.F) {
	p, q := issue(f, nil), issue(f, func(d *grants.Draft) { d.Series, d.PolicyNonce = "blog-1", grants.Nonce{9} })
	f.Add(p.Grant.Object.Raw, p.Policy.Object.Raw)
	f.Add(p.Grant.Object.Raw, q.Policy.Object.Raw)
	f.Add(p.Policy.Object.Raw, p.Grant.Object.Raw)
	f.Add(p.Grant.Object.Raw[1:], []byte{})
	f.Fuzz(func(t *testing.T, grant, policy []byte) {
		if g, err := grants.ReadGrant(grant); err == nil {
			body, err := envelope.Canonical(&g.Body)
			if err != nil || !bytes.Equal(body, g.Object.Body) || !bytes.Equal(g.Object.Raw, grant) {
				t.Fatalf("%s is read as %s (%v)", grant, body, err)
			}
		}
		pair, err := grants.ReadPair(grant, policy)
		if err != nil {
			if grants.ReasonOf(err) == "" {
				t.Fatalf("refused without a reason: %v", err)
			}
			return
		}
		g, b := pair.Grant.Body, pair.Policy.Body
		if g.PolicyHash != pair.Policy.Object.ID || g.Issuer != b.Issuer || g.Series != b.Series {
			t.Fatalf("read as a pair, and not one: %s and %s", grant, policy)
		}
		if len(grants.Describe(pair)) == 0 || pair.ExpiresAt().Before(pair.BeginsAt()) {
			t.Fatalf("a pair from %v to %v: %s", pair.BeginsAt(), pair.ExpiresAt(), grant)
		}
	})
}
