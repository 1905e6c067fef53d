package grants_test

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

func revoke(t testing.TB, b grants.RevocationBody, epoch uint64) *grants.Revocation {
	t.Helper()
	s := grants.Stamp{Indexer: indexer, Epoch: epoch, Sequence: 1, At: noon}
	r, err := grants.SignRevocation(b, s, signerOf(t, b.Publisher))
	if err != nil {
		t.Fatal(err)
	}
	v := verifier(t)
	v.Publisher = ""
	if r, err = grants.OpenRevocation(r.Object.Raw, v); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRevocationReaches(t *testing.T) {
	at := func(epoch, sequence uint64) func(*grants.Draft) {
		return func(d *grants.Draft) { d.Epoch, d.Sequence = epoch, sequence }
	}
	g := issue(t, nil).Grant // epoch 1, sequence 7, under /doc/
	older, newer := issue(t, at(1, 6)).Grant, issue(t, at(1, 8)).Grant
	nextEpoch := issue(t, at(2, 0)).Grant
	otherSeries := issue(t, func(d *grants.Draft) { d.Series = "blog-1" }).Grant
	otherIndexer := issue(t, func(d *grants.Draft) { d.Indexer = other }).Grant
	otherPublisher := issue(t, func(d *grants.Draft) { d.Publisher = stranger }).Grant
	misplaced := g.Revoke(grants.DispositionStop)
	misplaced.Series, misplaced.Through = "blog-1", &grants.Through{}
	byStranger := g.Revoke(grants.DispositionDelete)
	byStranger.Publisher = stranger

	grant := revoke(t, g.Revoke(grants.DispositionStop), 1)
	part := revoke(t, g.RevokeScope(prefixes(t, "https://example.com/doc/part/"), grants.DispositionDelete), 1)
	whole := revoke(t, g.RevokeScope(prefixes(t, "https://example.com/"), grants.DispositionDelete), 1)
	beside := revoke(t, g.RevokeScope(prefixes(t, "https://example.com/blog/"), grants.DispositionDelete), 1)
	all := revoke(t, grants.RevokeAll(publisher, grants.DispositionRetention), 1)
	const page, elsewhere = "https://example.com/doc/part/x", "https://example.com/doc/x"
	for _, tt := range []struct {
		name          string
		r             *grants.Revocation
		g             *grants.Grant
		reaches       bool
		whole         bool
		here, outside bool // whether it reaches page, and elsewhere
	}{
		{"a grant reaches itself", grant, g, true, true, true, true},
		{"a grant reaches the older one that is shown again", grant, older, true, true, true, true},
		{"a grant leaves the one that was issued later", grant, newer, false, false, false, false},
		{"a grant leaves the one of a later epoch", grant, nextEpoch, false, false, false, false},
		{"a grant leaves another series", grant, otherSeries, false, false, false, false},
		{"a grant leaves another indexer", grant, otherIndexer, false, false, false, false},
		{"a grant leaves another publisher", grant, otherPublisher, false, false, false, false},
		{"one who does not own a grant cannot revoke it", revoke(t, byStranger, 1), g, false, false, false, false},
		{"a grant that is named is reached whatever the series says", revoke(t, misplaced, 1), g, true, true, true, true},
		{"a part reaches its pages alone", part, g, true, false, true, false},
		{"a part reaches the older grant likewise", part, older, true, false, true, false},
		{"a part leaves the grant that was issued later", part, newer, false, false, false, false},
		{"an origin reaches the whole of it", whole, g, true, true, true, true},
		{"a scope beside leaves it", beside, g, false, false, false, false},
		{"the relationship reaches a grant", all, g, true, true, true, true},
		{"the relationship reaches every sequence of its epoch", all, newer, true, true, true, true},
		{"the relationship reaches every series", all, otherSeries, true, true, true, true},
		{"the relationship leaves a later epoch", all, nextEpoch, false, false, false, false},
		{"the relationship leaves another indexer", all, otherIndexer, false, false, false, false},
		{"the relationship leaves another publisher", all, otherPublisher, false, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.Reaches(tt.g); got != tt.reaches {
				t.Errorf("Reaches = %t, want %t", got, tt.reaches)
			}
			if got := tt.r.ReachesWhole(tt.g); got != tt.whole {
				t.Errorf("ReachesWhole = %t, want %t", got, tt.whole)
			}
			if here, outside := tt.r.ReachesPage(tt.g, page), tt.r.ReachesPage(tt.g, elsewhere); here != tt.here || outside != tt.outside {
				t.Errorf("ReachesPage = %t and %t, want %t and %t", here, outside, tt.here, tt.outside)
			}
		})
	}
}

func TestRevocationInDoubtReaches(t *testing.T) {
	g := issue(t, nil).Grant
	r := revoke(t, g.RevokeScope(prefixes(t, "https://example.com/doc/part/"), grants.DispositionDelete), 1)
	for _, url := range []string{"https://example.com/doc/part/x?y", "https://example.com/doc/part/../x", "https://EXAMPLE.com/doc/part/"} {
		if !r.ReachesPage(g, url) {
			t.Errorf("%s is not reached", url)
		}
	}
}

func TestOpenRevocationRefuses(t *testing.T) {
	p := issue(t, nil)
	for _, tt := range []struct {
		name   string
		change func(*envelope.Header, *grants.RevocationBody)
		view   func(*grants.Verifier)
		want   grants.Reason
	}{
		{"what was signed is accepted", nil, nil, ""},
		{"it needs no session", nil, func(v *grants.Verifier) { v.Publisher = "" }, ""},
		{"it counts whenever it arrives", nil, func(v *grants.Verifier) { v.Now = noon.AddDate(10, 0, 0) }, ""},
		{"another publisher's session", nil, func(v *grants.Verifier) { v.Publisher = stranger }, grants.ErrIssuer},
		{"another indexer", nil, func(v *grants.Verifier) { v.Indexer = other }, grants.ErrAudience},
		{"in the name of another", func(_ *envelope.Header, b *grants.RevocationBody) { b.Publisher = stranger }, nil, grants.ErrSignature},
		{"about another", func(h *envelope.Header, _ *grants.RevocationBody) { h.Subject = stranger }, nil, grants.ErrIssuer},
		{"one that lapses", func(h *envelope.Header, _ *grants.RevocationBody) { h.ExpiresAt = noon.Add(time.Hour) }, nil, grants.ErrMalformed},
		{"one that begins later", func(h *envelope.Header, _ *grants.RevocationBody) { h.NotBefore = noon.Add(time.Second) }, nil, grants.ErrMalformed},
		{"an unknown disposition", func(_ *envelope.Header, b *grants.RevocationBody) { b.Disposition = "forget" }, nil, grants.ErrMalformed},
		{"no target", func(_ *envelope.Header, b *grants.RevocationBody) { b.Target = grants.Target{} }, nil, grants.ErrMalformed},
		{"two targets", func(_ *envelope.Header, b *grants.RevocationBody) { b.Target.Relationship = true }, nil, grants.ErrMalformed},
		{"a grant without a series", func(_ *envelope.Header, b *grants.RevocationBody) { b.Series = "" }, nil, grants.ErrMalformed},
		{"a grant without an end", func(_ *envelope.Header, b *grants.RevocationBody) { b.Through = nil }, nil, grants.ErrMalformed},
		{"a relationship with a series", func(_ *envelope.Header, b *grants.RevocationBody) {
			b.Target, b.Through = grants.Target{Relationship: true}, nil
		}, nil, grants.ErrMalformed},
		{"a relationship with an end", func(_ *envelope.Header, b *grants.RevocationBody) {
			b.Target, b.Series = grants.Target{Relationship: true}, ""
		}, nil, grants.ErrMalformed},
		{"an end beyond 2^53-1", func(_ *envelope.Header, b *grants.RevocationBody) { b.Through = &grants.Through{Epoch: 1 << 53} }, nil, grants.ErrMalformed},
		{"a series that is no file's name", func(_ *envelope.Header, b *grants.RevocationBody) { b.Series = "a/b" }, nil, grants.ErrMalformed},
		{"an empty scope", func(_ *envelope.Header, b *grants.RevocationBody) {
			b.Target = grants.Target{Scope: &grants.Scope{Type: grants.URLPrefix}}
		}, nil, grants.ErrScope},
	} {
		t.Run(tt.name, func(t *testing.T) {
			intact := unchanged(t, p)
			h := envelope.Header{
				Type: envelope.Revocation, Authority: publisher.Authority(), Subject: publisher, Audience: indexer,
				Epoch: 1, Sequence: 1, IssuedAt: noon,
			}
			b := p.Grant.Revoke(grants.DispositionDelete)
			if tt.change != nil {
				tt.change(&h, &b)
			}
			v := verifier(t)
			if tt.view != nil {
				tt.view(&v)
			}
			if b.Through == nil || b.Through.Epoch <= envelope.MaxInteger { // beyond, not even the envelope signs it
				_, err := grants.OpenRevocation(signed(t, h, members(t, &b), signerOf(t, publisher)), v)
				wantReason(t, err, tt.want)
			}
			if err := b.Validate(); err != nil {
				_, err := grants.SignRevocation(b, grants.Stamp{Indexer: indexer, Epoch: 1, At: noon}, signerOf(t, publisher))
				wantReason(t, err, tt.want)
			}
			intact()
		})
	}
}

// FuzzOpenRevocation opens any octets, and whatever opens is asked what it
// reaches without a panic.
func FuzzOpenRevocation(f *testing.F) {
	g := issue(f, nil).Grant
	for _, b := range []grants.RevocationBody{
		g.Revoke(grants.DispositionStop), g.RevokeScope(g.Body.Scope, grants.DispositionDelete), grants.RevokeAll(publisher, grants.DispositionRetention),
	} {
		f.Add(revoke(f, b, 1).Object.Raw)
	}
	v := verifier(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := grants.OpenRevocation(raw, v)
		if err != nil {
			return
		}
		if (r.ReachesWhole(g) || r.ReachesPage(g, "https://example.com/doc/x")) && !r.Reaches(g) {
			t.Fatalf("reaches a part of what it does not reach: %s", raw)
		}
	})
}
