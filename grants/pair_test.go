package grants_test

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestPairAllowsOnlyWhatBothAllow(t *testing.T) {
	p := issue(t, func(d *grants.Draft) {
		d.Terms.Allowed = []string{"archive", "rag.retrieve", "search.index"}
	})
	end := noon.Add(grants.DefaultLifetime)
	for _, tt := range []struct {
		name    string
		purpose grants.Purpose
		now     time.Time
		want    grants.Reason
	}{
		{"granted and allowed", grants.SearchIndex, noon, ""},
		{"granted and allowed, in the last second", grants.SearchIndex, end.Add(-time.Second), ""},
		{"the expiry second is already too late", grants.SearchIndex, end, grants.ErrExpired},
		{"long before the issue is too early", grants.SearchIndex, noon.Add(-time.Hour), grants.ErrNotYetValid},
		{"allowed by the policy alone", grants.Archive, noon, grants.ErrPurpose},
		{"another of the same family", grants.SearchSnippet, noon, grants.ErrPurpose},
		{"denied", grants.AITrain, noon, grants.ErrPurpose},
		{"unknown", "ai.dream", noon, grants.ErrPurpose},
		{"a private one that nobody named", "x.example.com.a", noon, grants.ErrPurpose},
	} {
		t.Run(tt.name, func(t *testing.T) {
			intact := unchanged(t, p)
			wantReason(t, p.Permits(tt.purpose, tt.now), tt.want)
			intact()
		})
	}
	// A pair put together by hand is held to its policy all the same.
	p.Grant.Body.Purposes = grants.Purposes{grants.AIFinetune}
	wantReason(t, p.Permits(grants.AIFinetune, noon), grants.ErrPolicy)
}

func TestPairChecksURLAndTime(t *testing.T) {
	p := issue(t, nil)
	for _, tt := range []struct {
		name string
		url  string
		now  time.Time
		want grants.Reason
	}{
		{"inside the scope, before expiry", "https://example.com/doc/a", p.ExpiresAt().Add(-time.Second), ""},
		{"the expiry second is already too late", "https://example.com/doc/a", p.ExpiresAt(), grants.ErrExpired},
		{"a sibling path is outside", "https://example.com/docs-private", noon, grants.ErrScope},
	} {
		t.Run(tt.name, func(t *testing.T) { wantReason(t, p.Check(tt.url, tt.now), tt.want) })
	}
	if n := testing.AllocsPerRun(100, func() { _ = p.Check("https://example.com/doc/a", noon) }); n != 0 {
		t.Errorf("a check allocates %v times", n)
	}
}

func TestGrantBeyondItsPolicyIsRefused(t *testing.T) {
	p := issue(t, nil)
	policy := func(change func(*envelope.Header, *grants.PolicyBody)) *grants.Policy {
		h := envelope.Header{
			Type: envelope.Policy, Authority: publisher.Authority(), Subject: publisher, Audience: indexer,
			Epoch: 1, Sequence: 7, IssuedAt: noon,
		}
		b := p.Policy.Body
		change(&h, &b)
		o, err := envelope.Sign(h, &b, signerOf(t, publisher))
		if err != nil {
			t.Fatal(err)
		}
		return &grants.Policy{Object: o, Body: b}
	}
	for _, tt := range []struct {
		name   string
		change func(*envelope.Header, *grants.PolicyBody)
		want   grants.Reason
	}{
		{"a policy that fits", func(*envelope.Header, *grants.PolicyBody) {}, ""},
		{"a policy for any audience", func(h *envelope.Header, _ *grants.PolicyBody) { h.Audience = "" }, ""},
		{"a wider policy", func(_ *envelope.Header, b *grants.PolicyBody) {
			b.Scope.Prefixes = []string{"https://example.com/"}
		}, ""},
		{"a policy for another indexer", func(h *envelope.Header, _ *grants.PolicyBody) { h.Audience = other }, grants.ErrPolicy},
		{"a policy of another series", func(_ *envelope.Header, b *grants.PolicyBody) { b.Series = "blog-1" }, grants.ErrPolicy},
		{"a policy of another publisher", func(_ *envelope.Header, b *grants.PolicyBody) { b.Issuer = stranger }, grants.ErrPolicy},
		{"a policy over part of the pages", func(_ *envelope.Header, b *grants.PolicyBody) {
			b.Scope.Prefixes = []string{"https://example.com/doc/a/"}
		}, grants.ErrPolicy},
		{"a purpose that is denied", func(_ *envelope.Header, b *grants.PolicyBody) {
			b.Denied = grants.Purposes{grants.SearchIndex}
		}, grants.ErrPolicy},
		{"a purpose that is not allowed", func(_ *envelope.Header, b *grants.PolicyBody) {
			b.Allowed = grants.Purposes{grants.RAGRetrieve}
		}, grants.ErrPolicy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := policy(tt.change)
			g := *p.Grant
			g.Body.PolicyHash = q.Object.ID
			intact := unchanged(t, p)
			_, err := grants.NewPair(&g, q)
			wantReason(t, err, tt.want)
			intact()
		})
	}
	_, err := grants.NewPair(p.Grant, policy(func(_ *envelope.Header, b *grants.PolicyBody) { b.Nonce = grants.Nonce{9} }))
	wantReason(t, err, grants.ErrPolicy)
	_, err = grants.NewPair(p.Grant, nil)
	wantReason(t, err, grants.ErrPolicy)
}

func TestDeniedDerivativeDeniesItsPurpose(t *testing.T) {
	b := grants.PolicyBody{
		Allowed:     grants.CommonPurposes(),
		Derivatives: grants.Derivatives{Embeddings: grants.Denied, Snippets: grants.Denied, Summary: grants.Denied},
	}
	for _, p := range grants.CommonPurposes() {
		want := grants.Reason("")
		if p == grants.AIEmbed || p == grants.SearchSnippet || p == grants.AISummarise {
			want = grants.ErrPolicy
		}
		wantReason(t, b.Permit(p), want)
	}
	b.Denied = grants.Purposes{grants.AITrain}
	wantReason(t, b.Permit(grants.AIFinetune), grants.ErrPolicy)
}

func TestOpenPolicyRefuses(t *testing.T) {
	p := issue(t, nil)
	for _, tt := range []struct {
		name   string
		change func(*grants.PolicyBody)
		view   func(*grants.Verifier)
		want   grants.Reason
	}{
		{"what was issued is accepted", nil, nil, ""},
		{"a policy of another than the peer", nil, func(v *grants.Verifier) { v.Publisher = stranger }, grants.ErrIssuer},
		{"a policy for another indexer", nil, func(v *grants.Verifier) { v.Indexer = other }, grants.ErrAudience},
		{"a permission that is neither", func(b *grants.PolicyBody) { b.Redistribution = "maybe" }, nil, grants.ErrMalformed},
		{"a derivative that is not decided", func(b *grants.PolicyBody) { b.Derivatives.Summary = "" }, nil, grants.ErrMalformed},
		{"a retention of more than a century", func(b *grants.PolicyBody) { b.Retention.FeatureDays = 36501 }, nil, grants.ErrMalformed},
		{"a nonce that was never drawn", func(b *grants.PolicyBody) { b.Nonce = grants.Nonce{} }, nil, grants.ErrMalformed},
		{"a link that is none", func(b *grants.PolicyBody) { b.TermsURL = "javascript:alert(1)" }, nil, grants.ErrMalformed},
		{"no series", func(b *grants.PolicyBody) { b.Series = "" }, nil, grants.ErrMalformed},
		{"an unknown purpose among the allowed", func(b *grants.PolicyBody) { b.Allowed = grants.Purposes{"ai.dream"} }, nil, grants.ErrPurpose},
		{"an unknown purpose among the denied", func(b *grants.PolicyBody) { b.Denied = grants.Purposes{"ai.dream"} }, nil, grants.ErrPurpose},
		{"an empty scope", func(b *grants.PolicyBody) { b.Scope.Prefixes = nil }, nil, grants.ErrScope},
		{"a scope of another type", func(b *grants.PolicyBody) { b.Scope.Type = "everything" }, nil, grants.ErrScopeType},
	} {
		t.Run(tt.name, func(t *testing.T) {
			intact := unchanged(t, p)
			b := p.Policy.Body
			if tt.change != nil {
				tt.change(&b)
			}
			h := envelope.Header{
				Type: envelope.Policy, Authority: publisher.Authority(), Subject: publisher, Audience: indexer,
				Epoch: 1, Sequence: 7, IssuedAt: noon,
			}
			v := verifier(t)
			if tt.view != nil {
				tt.view(&v)
			}
			_, err := grants.OpenPolicy(signed(t, h, members(t, &b), signerOf(t, publisher)), v)
			wantReason(t, err, tt.want)
			intact()
		})
	}
}

func TestPolicyThatEndsEndsThePair(t *testing.T) {
	p := issue(t, nil)
	end := noon.Add(time.Hour)
	raw := signed(t, envelope.Header{
		Type: envelope.Policy, Authority: publisher.Authority(), Subject: publisher, Epoch: 1, Sequence: 7, IssuedAt: noon, ExpiresAt: end,
	}, &p.Policy.Body, signerOf(t, publisher))
	q, err := grants.OpenPolicy(raw, verifier(t))
	if err != nil {
		t.Fatal(err)
	}
	g := resign(t, p.Grant, func(_ *envelope.Header, b *grants.GrantBody) { b.PolicyHash = q.Object.ID })
	pair, err := grants.OpenPair(g, raw, verifier(t))
	if err != nil {
		t.Fatal(err)
	}
	if !pair.ExpiresAt().Equal(end) {
		t.Errorf("ExpiresAt = %s, want %s", pair.ExpiresAt(), end)
	}
	wantReason(t, pair.Permits(grants.SearchIndex, end.Add(-time.Second)), "")
	wantReason(t, pair.Permits(grants.SearchIndex, end), grants.ErrExpired)
}

func TestReadPairGivesBackWhatWasIssued(t *testing.T) {
	p := issue(t, nil)
	q, err := grants.ReadPair(p.Grant.Object.Raw, p.Policy.Object.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if q.Grant.Object.ID != p.Grant.Object.ID || q.Policy.Object.ID != p.Policy.Object.ID || q.Grant.ScopeHash != p.Grant.ScopeHash {
		t.Error("another pair came back")
	}
	foreign := issue(t, func(d *grants.Draft) { d.PolicyNonce = grants.Nonce{8} })
	_, err = grants.ReadPair(p.Grant.Object.Raw, foreign.Policy.Object.Raw)
	wantReason(t, err, grants.ErrPolicy)
	_, err = grants.ReadPair(p.Grant.Object.Raw, []byte("{}"))
	wantReason(t, err, grants.ErrMalformed)
}

func TestRetentionIsTheShorterOne(t *testing.T) {
	p := issue(t, func(d *grants.Draft) { d.Constraints.RetentionDays = 7 })
	if got := p.Retention(); got != (grants.Retention{CachedCopyDays: 7, FeatureDays: 7}) {
		t.Errorf("capped at 7 days: %+v", got)
	}
	p = issue(t, func(d *grants.Draft) { d.Constraints.RetentionDays = 400 })
	if got := p.Retention(); got != (grants.Retention{CachedCopyDays: 30, FeatureDays: 30}) {
		t.Errorf("capped above the policy's own: %+v", got)
	}
}
