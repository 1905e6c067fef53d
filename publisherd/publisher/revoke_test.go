package publisher

import (
	"errors"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

var noon = time.Date(2025, 11, 3, 12, 0, 0, 0, time.UTC)

const peerName = envelope.Name("spiffe://search.example/indexer")

// newFolder is a publisher's folder, with one source and one trusted indexer.
func newFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	_, err := identity.Create(dir, identity.Options{
		Identity: "spiffe://example.com/publisher", Role: identity.Publisher, Origins: []identity.Origin{"https://example.com"}, Now: noon,
	})
	check(t, err)
	other, err := identity.Create(t.TempDir(), identity.Options{
		Identity: peerName, Role: identity.Indexer, Endpoint: "search.example:7443", LogURL: "https://log.search.example", Now: noon,
	})
	check(t, err)
	trust, err := OpenTrust(dir)
	check(t, err)
	_, err = trust.Add(other.Card.Object.Raw, identity.AddOptions{Now: noon})
	check(t, err)
	check(t, AddSource(dir, Source{Name: "docs", Kind: "site", Location: t.TempDir(), BaseURL: "https://example.com/"}))
	return dir
}

func scopeOf(t testing.TB, prefixes ...string) grants.Scope {
	t.Helper()
	s, err := grants.PrefixScope(prefixes...)
	check(t, err)
	return s
}

func issueIn(t testing.TB, dir string, scope grants.Scope) (*Relationship, error) {
	t.Helper()
	r, _, err := IssueGrant(dir, GrantRequest{
		Indexer: peerName, Source: "docs", Scope: scope, Purposes: grants.Purposes{grants.RAGRetrieve, grants.SearchIndex}, Lifetime: 24 * time.Hour,
	}, noon)
	return r, err
}

func mustIssue(t testing.TB, dir string, scope grants.Scope) *Relationship {
	t.Helper()
	r, err := issueIn(t, dir, scope)
	check(t, err)
	return r
}

func TestRenewalKeepsWhatIsNotSaidAnew(t *testing.T) {
	dir := newFolder(t)
	first := mustIssue(t, dir, scopeOf(t, "https://example.com/"))
	for _, tt := range []struct {
		name   string
		q      RenewRequest
		at     time.Time
		check  func(g *grants.Grant) bool
		policy func(p *grants.Policy) bool
	}{
		{"all of it", RenewRequest{}, noon.Add(time.Hour), func(g *grants.Grant) bool {
			return g.Body.Scope.Covers(first.Pair.Grant.Body.Scope) && len(g.Body.Purposes) == 2 && g.Object.ExpiresAt.Equal(noon.Add(25*time.Hour))
		}, func(p *grants.Policy) bool { return len(p.Body.Allowed) == 2 }},
		{"but the lifetime, after its end", RenewRequest{Lifetime: time.Hour}, noon.Add(48 * time.Hour), func(g *grants.Grant) bool {
			return g.Object.ExpiresAt.Equal(noon.Add(49 * time.Hour))
		}, nil},
		{"but the scope", RenewRequest{Prefixes: []string{"https://example.com/docs/"}}, noon.Add(48 * time.Hour), func(g *grants.Grant) bool {
			return g.Body.Scope.Match("https://example.com/blog/") != nil
		}, func(p *grants.Policy) bool { return p.Body.Scope.Match("https://example.com/blog/") != nil }},
		{"but the purposes", RenewRequest{Purposes: grants.Purposes{grants.AISummarise}}, noon.Add(48 * time.Hour), func(g *grants.Grant) bool {
			return len(g.Body.Purposes) == 1
		}, func(p *grants.Policy) bool {
			return p.Body.Derivatives.Summary == grants.Allowed && len(p.Body.Allowed) == 1
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, err := FindGrant(dir, first.Series)
			check(t, err)
			r, _, err := RenewGrant(dir, first.Series, tt.q, tt.at)
			check(t, err)
			g := r.Pair.Grant
			if g.Object.Sequence != before.Pair.Grant.Object.Sequence+1 || g.Body.LeafKeyCommit != first.LeafKey.Commit() || r.Relation != first.Relation {
				t.Errorf("sequence %d, leaf key %s", g.Object.Sequence, g.Body.LeafKeyCommit)
			}
			if !tt.check(g) || tt.policy != nil && !tt.policy(r.Pair.Policy) {
				t.Errorf("grant %+v\npolicy %+v", g.Body, r.Pair.Policy.Body)
			}
			if _, err := readObject(dir, before.Pair.Grant.Object.ID); err != nil {
				t.Errorf("the grant before is lost: %v", err)
			}
		})
	}
}

func TestRevocationCountsFromTheMomentOfItsSignature(t *testing.T) {
	for _, tt := range []struct {
		name    string
		q       RevokeRequest
		revoked bool
		url     error // for a page of /docs/
	}{
		{"the whole grant", RevokeRequest{Disposition: grants.DispositionStop}, true, grants.ErrRevoked},
		{"some of its pages", RevokeRequest{Disposition: grants.DispositionStop, Scope: new(grants.Scope)}, false, grants.ErrRevoked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := newFolder(t)
			r := mustIssue(t, dir, scopeOf(t, "https://example.com/"))
			tt.q.Grant = r.Pair.Grant.Object.ID.String()
			if tt.q.Scope != nil {
				*tt.q.Scope = scopeOf(t, "https://example.com/docs/")
			}
			all, err := Revoke(dir, tt.q, noon)
			check(t, err)
			again, err := Revoke(dir, tt.q, noon.Add(time.Minute))
			check(t, err)
			if len(all) != 1 || again[0].ID() != all[0].ID() {
				t.Errorf("the same words made %d revocations, then %s after %s", len(all), again[0].ID(), all[0].ID())
			}
			r, err = FindGrant(dir, r.Series)
			check(t, err)
			if r.Revoked() != tt.revoked || !errors.Is(r.Match("https://example.com/docs/a"), tt.url) {
				t.Errorf("revoked %v, page %v", r.Revoked(), r.Match("https://example.com/docs/a"))
			}
			if err := r.Match("https://example.com/blog/"); (err != nil) != tt.revoked {
				t.Errorf("another page: %v", err)
			}
		})
	}
}

func TestWhatWasRevokedBeginsAnew(t *testing.T) {
	dir := newFolder(t)
	scope := scopeOf(t, "https://example.com/")
	r := mustIssue(t, dir, scope)
	if _, err := issueIn(t, dir, scope); !errors.Is(err, grants.ErrOverlap) {
		t.Fatalf("a second grant for the same pages = %v", err)
	}
	_, err := Revoke(dir, RevokeRequest{Grant: r.Series, Disposition: grants.DispositionStop}, noon)
	check(t, err)
	_, _, err = RenewGrant(dir, r.Series, RenewRequest{}, noon.Add(time.Minute))
	check(t, err) // a later grant stands
	r, err = FindGrant(dir, r.Series)
	check(t, err)
	if r.Revoked() || r.State(noon.Add(time.Minute)) != "in-force" || len(r.Revocations()) != 1 {
		t.Errorf("state %s, %d revocations", r.State(noon), len(r.Revocations()))
	}
	_, err = Revoke(dir, RevokeRequest{Grant: r.Series, Disposition: grants.DispositionDelete}, noon)
	check(t, err)
	if _, _, err := RenewGrant(dir, r.Series, RenewRequest{}, noon); !errors.Is(err, grants.ErrRevoked) {
		t.Errorf("renewed what is to be deleted: %v", err)
	}
	mustIssue(t, dir, scope)
	_, err = Revoke(dir, RevokeRequest{Disposition: grants.DispositionDelete}, noon)
	check(t, err)
	if _, err := issueIn(t, dir, scopeOf(t, "https://example.com/new/")); !errors.Is(err, grants.ErrRevoked) {
		t.Errorf("issued under a relationship that ended: %v", err)
	}
	if _, err := Revoke(dir, RevokeRequest{Indexer: "spiffe://other.example/indexer", Disposition: grants.DispositionStop}, noon); !errors.Is(err, ErrNoGrant) {
		t.Errorf("revoked for an indexer without a grant: %v", err)
	}
}

func TestARevocationIsSettledWhenNothingMoreIsToCome(t *testing.T) {
	stop := Acknowledgement{Series: "a", Type: translog.RevokeAck}
	gone := Acknowledgement{Series: "a", Type: translog.DeleteAck}
	other := Acknowledgement{Series: "b", Type: translog.RevokeAck}
	for _, tt := range []struct {
		name      string
		d         grants.Disposition
		delivered bool
		acks      []Acknowledgement
		want      bool
	}{
		{"not delivered", grants.DispositionStop, false, nil, false},
		{"delivered, and nothing was reached", grants.DispositionDelete, true, nil, true},
		{"stopped as asked", grants.DispositionStop, true, []Acknowledgement{stop}, true},
		{"stopped, and kept for a while", grants.DispositionRetention, true, []Acknowledgement{stop}, true},
		{"stopped, to be deleted", grants.DispositionDelete, true, []Acknowledgement{stop}, false},
		{"deleted", grants.DispositionDelete, true, []Acknowledgement{stop, gone}, true},
		{"one of two series deleted", grants.DispositionDelete, true, []Acknowledgement{stop, gone, other}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := Revocation{Signed: &grants.Revocation{Body: grants.RevocationBody{Disposition: tt.d}}, Acknowledgements: tt.acks}
			if tt.delivered {
				v.Delivered = envelope.At(noon)
			}
			if v.Settled() != tt.want {
				t.Errorf("Settled = %v", v.Settled())
			}
		})
	}
}
