package grants_test

import (
	"bytes"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// FuzzMatch holds matching against the parser that most Go programs use: what
// matches has the prefix's host and leads no further up than the prefix, and
// resolving or cleaning it moves it nowhere.
func FuzzMatch(f *testing.F) {
	for _, u := range []string{
		"https://example.com/doc/", "https://example.com/doc/a%20b", "https://example.com/doc/..%2Fadmin", "https://example.com/doc/x?y=z",
		"https://example.com@evil.com/doc/x", "https://example.com/doc/%252e%252e/admin", `https://example.com/doc/x\..\y`, "https://example.com/doc/..;/x",
	} {
		f.Add(u)
	}
	scope := prefixes(f, "https://example.com/doc/")
	scope.Query = true
	f.Fuzz(func(t *testing.T, u string) {
		if scope.Match(u) != nil {
			return
		}
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatalf("%q matches and does not parse: %v", u, err)
		}
		if parsed.Scheme != "https" || parsed.Host != "example.com" || parsed.User != nil || parsed.Fragment != "" || parsed.Opaque != "" {
			t.Fatalf("%q matches and is read as %#v", u, parsed)
		}
		if !strings.HasPrefix(parsed.EscapedPath(), "/doc/") || !strings.HasPrefix(parsed.Path, "/doc/") {
			t.Fatalf("%q matches and has the path %q", u, parsed.EscapedPath())
		}
		if clean := path.Clean(parsed.Path); clean != "/doc" && !strings.HasPrefix(clean, "/doc/") {
			t.Fatalf("%q matches and is cleaned to %q", u, clean)
		}
		if again := parsed.ResolveReference(&url.URL{}).String(); again != u {
			t.Fatalf("%q matches and is printed as %q", u, again)
		}
	})
}

// FuzzOpenGrant opens any octets as they are, and signs any JSON as a grant's
// body: whatever opens is what its own fields would print.
func FuzzOpenGrant(f *testing.F) {
	p := issue(f, nil)
	f.Add(p.Grant.Object.Raw)
	f.Add(p.Grant.Object.Body)
	f.Add(bytes.Replace(p.Grant.Object.Body, []byte(`"prefixes"`), []byte(`"Prefixes"`), 1))
	f.Add(bytes.Replace(p.Grant.Object.Body, []byte(`"type":"url-prefix"`), []byte(`"root":"x","type":"feed"`), 1))
	f.Add(bytes.Replace(p.Grant.Object.Body, []byte(`"constraints":{}`), []byte(`"constraints":{"retention_days":1}`), 1))
	v, key := verifier(f), signerOf(f, publisher)
	h := envelope.Header{
		Type: envelope.DiscoveryGrant, Authority: publisher.Authority(), Subject: publisher, Audience: indexer,
		Epoch: 1, IssuedAt: noon, ExpiresAt: noon.Add(grants.DefaultLifetime),
	}
	if o, err := envelope.Sign(h, jsontext.Value(p.Grant.Object.Body), key); err != nil {
		f.Fatal(err)
	} else if _, err := grants.OpenGrant(o.Raw, v); err != nil {
		f.Fatalf("a good body, signed like those below, does not open: %v", err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkOpened(t, data, v)
		if o, err := envelope.Sign(h, jsontext.Value(data), key); err == nil {
			checkOpened(t, o.Raw, v)
		}
	})
}

func checkOpened(t *testing.T, raw []byte, v grants.Verifier) {
	g, err := grants.OpenGrant(raw, v)
	if err != nil {
		if g != nil || grants.ReasonOf(err) == "" {
			t.Fatalf("refused without a reason, or not only refused: %v", err)
		}
		return
	}
	body, err := envelope.Canonical(&g.Body)
	if err != nil || !bytes.Equal(body, g.Object.Body) {
		t.Fatalf("the body %q would be printed as %q (%v)", g.Object.Body, body, err)
	}
	if err := g.Body.Validate(); err != nil {
		t.Fatalf("opened, and not valid: %v", err)
	}
	if g.Body.Issuer != v.Publisher || g.Object.Audience != v.Indexer || len(g.Body.Purposes) == 0 || len(g.Body.Scope.Prefixes) == 0 {
		t.Fatalf("opened for others, or for nothing: %s", raw)
	}
}

// FuzzParsePolicyTerms shows that no file of terms brings the parser down, and
// that accepted terms make a policy or an error with a reason.
func FuzzParsePolicyTerms(f *testing.F) {
	f.Add([]byte(`{"denied":["ai.train"],"retention":{"cached_copy_days":0}}`))
	f.Add([]byte("denied: [ai.train]\nretention: {feature_days: 3}\nscope: {prefixes: ['https://example.com/']}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		terms, err := grants.ParsePolicyTerms(text)
		if err != nil {
			return
		}
		d := draft(t)
		d.Terms = terms
		pair, _, err := grants.Issue(d, signerOf(t, publisher))
		if err != nil {
			if grants.ReasonOf(err) == "" {
				t.Fatalf("refused without a reason: %v", err)
			}
			return
		}
		if _, err := grants.OpenPair(pair.Grant.Object.Raw, pair.Policy.Object.Raw, verifier(t)); err != nil {
			t.Fatalf("issued, and not opened: %v", err)
		}
	})
}
