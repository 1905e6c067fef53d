package grants_test

import (
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestOpenGrantAcceptsWhatIssueMade(t *testing.T) {
	p := issue(t, nil)
	v := verifier(t)
	for _, at := range []time.Duration{-envelope.Skew, 0, grants.DefaultLifetime - time.Second} {
		v.Now = noon.Add(at)
		g, err := grants.OpenGrant(p.Grant.Object.Raw, v)
		if err != nil {
			t.Fatalf("%s after issue: %v", at, err)
		}
		if g.ScopeHash != p.Grant.ScopeHash || g.ScopeHash.IsZero() {
			t.Errorf("scope hash %s, issued with %s", g.ScopeHash, p.Grant.ScopeHash)
		}
	}
}

func TestOpenGrantRefuses(t *testing.T) {
	p := issue(t, nil)
	later := func(by time.Duration) func(*grants.Verifier) {
		return func(v *grants.Verifier) { v.Now = noon.Add(by) }
	}
	same := func(*grants.Verifier) {}
	for _, tt := range []struct {
		name   string
		change func(*envelope.Header, *grants.GrantBody)
		view   func(*grants.Verifier)
		want   grants.Reason
	}{
		{"the very second of expiry", nil, later(grants.DefaultLifetime), grants.ErrExpired},
		{"a grant that was issued 121 seconds ahead", nil, later(-121 * time.Second), grants.ErrNotYetValid},
		{"a grant that begins tomorrow", func(h *envelope.Header, _ *grants.GrantBody) { h.NotBefore = noon.Add(24 * time.Hour) }, same, grants.ErrNotYetValid},
		{"a grant of another than the peer", nil, func(v *grants.Verifier) { v.Publisher = stranger }, grants.ErrIssuer},
		{"a grant without an authenticated peer", nil, func(v *grants.Verifier) { v.Publisher = "" }, grants.ErrIssuer},
		{"a grant for another indexer", nil, func(v *grants.Verifier) { v.Indexer = other }, grants.ErrAudience},
		{"a grant shown to nobody", nil, func(v *grants.Verifier) { v.Indexer = "" }, grants.ErrAudience},
		{"a grant about another", func(h *envelope.Header, _ *grants.GrantBody) { h.Subject = stranger }, same, grants.ErrIssuer},
		{"a grant under another authority", func(h *envelope.Header, _ *grants.GrantBody) { h.Authority = stranger.Authority() }, same, grants.ErrSignature},
		{"a grant under an authority that is not its issuer's", func(h *envelope.Header, _ *grants.GrantBody) { h.Authority = stranger.Authority() }, func(v *grants.Verifier) {
			key := signerOf(t, publisher).Public()
			v.Keys = keyring{key.ID(): {Key: key, Identity: publisher, Authority: stranger.Authority(), Use: envelope.UseEnvelope}}
		}, grants.ErrIssuer},
		{"a grant in the name of another", func(_ *envelope.Header, b *grants.GrantBody) { b.Issuer = stranger }, same, grants.ErrSignature},
		{"a grant by an unknown key", nil, func(v *grants.Verifier) { v.Keys = keyring{} }, grants.ErrSignature},
		{"a grant over the cap", func(h *envelope.Header, _ *grants.GrantBody) {
			h.ExpiresAt = noon.Add(grants.MaxLifetime + time.Second)
		}, same, grants.ErrLifetime},
		{"a grant over a narrower cap", nil, func(v *grants.Verifier) { v.MaxLifetime = time.Hour }, grants.ErrLifetime},
		{"a grant whose life began before its issue", func(h *envelope.Header, _ *grants.GrantBody) { h.NotBefore = noon.Add(-grants.MaxLifetime) }, same, grants.ErrLifetime},
		{"no purposes", func(_ *envelope.Header, b *grants.GrantBody) { b.Purposes = nil }, same, grants.ErrPurpose},
		{"an unknown purpose", func(_ *envelope.Header, b *grants.GrantBody) { b.Purposes = grants.Purposes{"ai.dream"} }, same, grants.ErrPurpose},
		{"purposes out of order", func(_ *envelope.Header, b *grants.GrantBody) {
			b.Purposes = grants.Purposes{grants.SearchIndex, grants.RAGRetrieve}
		}, same, grants.ErrPurpose},
		{"an empty scope", func(_ *envelope.Header, b *grants.GrantBody) { b.Scope.Prefixes = nil }, same, grants.ErrScope},
		{"a wildcard in the scope", func(_ *envelope.Header, b *grants.GrantBody) {
			b.Scope.Prefixes = []string{"https://example.com/doc/*"}
		}, same, grants.ErrScope},
		{"a scope of another type", func(_ *envelope.Header, b *grants.GrantBody) { b.Scope.Type = "everything" }, same, grants.ErrScopeType},
		{"an unknown mode", func(_ *envelope.Header, b *grants.GrantBody) { b.Mode = "pull" }, same, grants.ErrMalformed},
		{"an unknown listing", func(_ *envelope.Header, b *grants.GrantBody) { b.Listing = "secret" }, same, grants.ErrMalformed},
		{"a nonce that was never drawn", func(_ *envelope.Header, b *grants.GrantBody) { b.Nonce = grants.Nonce{} }, same, grants.ErrMalformed},
		{"no policy", func(_ *envelope.Header, b *grants.GrantBody) { b.PolicyHash = envelope.Hash{} }, same, grants.ErrMalformed},
		{"no leaf key", func(_ *envelope.Header, b *grants.GrantBody) { b.LeafKeyCommit = envelope.Hash{} }, same, grants.ErrMalformed},
		{"no series", func(_ *envelope.Header, b *grants.GrantBody) { b.Series = "" }, same, grants.ErrMalformed},
		{"a series that is no file's name", func(_ *envelope.Header, b *grants.GrantBody) { b.Series = "../a" }, same, grants.ErrMalformed},
		{"an attribution of two lines", func(_ *envelope.Header, b *grants.GrantBody) { b.Constraints.Attribution = "a\nb" }, same, grants.ErrMalformed},
		{"an attribution that is too long", func(_ *envelope.Header, b *grants.GrantBody) {
			b.Constraints.Attribution = strings.Repeat("a", 257)
		}, same, grants.ErrMalformed},
		{"a retention of more than a century", func(_ *envelope.Header, b *grants.GrantBody) { b.Constraints.RetentionDays = 36501 }, same, grants.ErrMalformed},
		{"a fetch rate beyond any", func(_ *envelope.Header, b *grants.GrantBody) { b.Constraints.MaxFetchPerSecond = 1 << 40 }, same, grants.ErrMalformed},
		{"an unknown critical extension", func(h *envelope.Header, _ *grants.GrantBody) {
			h.Extensions = map[string]envelope.Extension{"example.com/a": {Critical: true, Data: []byte("1")}}
		}, same, grants.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			intact := unchanged(t, p)
			raw := p.Grant.Object.Raw
			if tt.change != nil {
				raw = resign(t, p.Grant, tt.change)
			}
			v := verifier(t)
			tt.view(&v)
			g, err := grants.OpenGrant(raw, v)
			wantReason(t, err, tt.want)
			if g != nil {
				t.Error("a grant comes with the refusal")
			}
			intact()
		})
	}
}

func TestGrantSchemaIsClosed(t *testing.T) {
	p := issue(t, nil)
	v := verifier(t)
	o := p.Grant.Object
	h := envelope.Header{
		Type: o.Type, Authority: o.Authority, Subject: o.Subject, Audience: o.Audience, Epoch: o.Epoch, Sequence: o.Sequence,
		IssuedAt: o.IssuedAt, ExpiresAt: o.ExpiresAt,
	}
	for _, tt := range []struct {
		name   string
		change func(body map[string]any)
		want   grants.Reason
	}{
		{"as it was issued", func(map[string]any) {}, ""},
		{"a member that we do not know", func(b map[string]any) { b["colour"] = "blue" }, grants.ErrMalformed},
		{"a member less", func(b map[string]any) { delete(b, "mode") }, grants.ErrMalformed},
		{"no constraints", func(b map[string]any) { delete(b, "constraints") }, grants.ErrMalformed},
		{"a constraint that we could not keep", func(b map[string]any) { b["constraints"] = map[string]any{"max_pages": 1} }, grants.ErrMalformed},
		{"a constraint of zero, which reads as none", func(b map[string]any) { b["constraints"] = map[string]any{"retention_days": 0} }, grants.ErrMalformed},
		{"no list of prefixes", func(b map[string]any) { b["scope"] = map[string]any{"type": "url-prefix"} }, grants.ErrMalformed},
		{"a scope that says query: false", func(b map[string]any) { b["scope"].(map[string]any)["query"] = false }, grants.ErrMalformed},
		{"an unknown member of a known scope", func(b map[string]any) { b["scope"].(map[string]any)["hosts"] = "x" }, grants.ErrMalformed},
		{"a scope of another type, with members of its own", func(b map[string]any) {
			b["scope"] = map[string]any{"type": "pattern", "glob": "https://example.com/*"}
		}, grants.ErrScopeType},
		{"a feed that a member names", func(b map[string]any) {
			b["scope"].(map[string]any)["type"], b["scope"].(map[string]any)["feed"] = "feed", "sha256:"+strings.Repeat("1", 64)
		}, grants.ErrMalformed},
		{"a hash set without prefixes", func(b map[string]any) {
			b["scope"] = map[string]any{"type": "hash-set", "count": 1, "root": "sha256:" + strings.Repeat("1", 64)}
		}, grants.ErrMalformed},
		{"a hash set of a list without digests", func(b map[string]any) {
			b["scope"].(map[string]any)["type"], b["scope"].(map[string]any)["digests"] = "hash-set", []any{}
		}, grants.ErrMalformed},
		{"a hash set with a digest in upper case", func(b map[string]any) {
			b["scope"].(map[string]any)["type"], b["scope"].(map[string]any)["digests"] = "hash-set", []any{"sha256:" + strings.Repeat("A", 64)}
		}, grants.ErrMalformed},
		{"a nonce in another alphabet", func(b map[string]any) { b["nonce"] = "++++++++++++++++++++AA" }, grants.ErrMalformed},
		{"a nonce with stray bits", func(b map[string]any) { b["nonce"] = "AgAAAAAAAAAAAAAAAAAAAB" }, grants.ErrMalformed},
		{"a nonce with a line feed in it", func(b map[string]any) { b["nonce"] = "AgAAAAAAAAAAAAAAAAAAA\n" }, grants.ErrMalformed},
		{"a nonce of 15 octets", func(b map[string]any) { b["nonce"] = "AgAAAAAAAAAAAAAAAAAA" }, grants.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := members(t, &p.Grant.Body)
			tt.change(body)
			_, err := grants.OpenGrant(signed(t, h, body, signerOf(t, publisher)), v)
			wantReason(t, err, tt.want)
		})
	}
}

func TestOnlyAGrantOpensAsAGrant(t *testing.T) {
	p := issue(t, nil)
	_, err := grants.OpenGrant(p.Policy.Object.Raw, verifier(t))
	wantReason(t, err, grants.ErrMalformed)
	_, err = grants.OpenPolicy(p.Grant.Object.Raw, verifier(t))
	wantReason(t, err, grants.ErrMalformed)
	_, err = grants.ReadGrant(p.Policy.Object.Raw)
	wantReason(t, err, grants.ErrMalformed)
}
