package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A realm is an indexer that trusts alice by a card with a TLS key, carol by one
// without, and the authorities of two trust domains; and a publisher that
// trusts the indexer.
type realm struct {
	*pair
	example, other *issuer // of example.com, and of other.example
	next           *issuer // the second anchor of example.com
}

func newRealm(t testing.TB) *realm {
	r := &realm{pair: newPair(t), example: newIssuer(t, "example", nil), other: newIssuer(t, "other", nil), next: newIssuer(t, "next", nil)}
	add(t, r.ofIndexer, withoutTLS(t, publisherOptions(carol)))
	addAuthority(t, r.ofIndexer, "example.com", r.example, r.next)
	addAuthority(t, r.ofIndexer, "other.example", r.other)
	return r
}

// errUnread stands for a certificate that the handshake itself refuses.
var errUnread = errors.New("refused by crypto/tls")

func uris(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.URIs = nil
		for _, n := range names {
			c.URIs = append(c.URIs, uri(n))
		}
	}
}

// TestAnAuthorityVouchesForItsOwnDomainAlone shows each certificate to a real
// server.
func TestAnAuthorityVouchesForItsOwnDomainAlone(t *testing.T) {
	r := newRealm(t)
	stranger := newIssuer(t, "stranger", nil)
	constrained := func(c *x509.Certificate) {
		c.PermittedURIDomains, c.PermittedDNSDomainsCritical = []string{"elsewhere.example"}, true
	}
	noAuthority := func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature }
	short := newIssuer(t, "short", func(c *x509.Certificate) { c.MaxPathLenZero = true })
	bound := newIssuer(t, "bound", constrained)
	ended := newIssuer(t, "ended", func(c *x509.Certificate) { c.NotAfter = begin.Add(time.Minute) })
	addAuthority(t, r.ofIndexer, "example.com", r.example, r.next, short, bound, ended)
	_, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	self := template(t, uris(carol))
	alone := certify(t, self, self, own.Public(), own)
	deep := r.example
	for range maxChain {
		deep = deep.below("deep", nil)
	}
	after := func(d time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotBefore = begin.Add(d) }
	}
	for _, tt := range []struct {
		name string
		show *tls.Certificate
		want error
	}{
		{"a card without a TLS key, by its domain's authority", r.example.issue(carol, nil), nil},
		{"the same by the next anchor of the bundle", r.next.issue(carol, nil), nil},
		{"the same by an authority between", r.example.below("between", nil).issue(carol, nil), nil},
		{"no card, by its domain's authority", r.example.issue(dave, nil), nil},
		{"the authority of another trusted domain", r.other.issue(carol, nil), ErrPath},
		{"the authority of another trusted domain, and no card", r.other.issue(dave, nil), ErrPath},
		{"an authority that nobody trusts", stranger.issue(carol, nil), ErrPath},
		{"signed with its own key alone", &tls.Certificate{Certificate: [][]byte{alone.Raw}, PrivateKey: own}, ErrPath},
		{"a domain whose authority is not trusted", stranger.issue("spiffe://third.example/x", nil), ErrUnknownPeer},
		{"a card with a TLS key, by its domain's authority", r.example.issue(alice, nil), ErrPeerKey},
		{"the card's own key, by its domain's authority", r.example.issueFor(r.publisher.tlsKey, alice, nil), ErrCertificate},
		{"another identity's card key under this name", &tls.Certificate{Certificate: forge(t, r.publisher.tlsKey, uris(carol))().Certificate, PrivateKey: r.publisher.tlsKey}, ErrPath},
		{"two names", r.example.issue(carol, uris(carol, dave)), ErrCertificate},
		{"a common name alone", r.example.issue(carol, func(c *x509.Certificate) { c.URIs, c.Subject = nil, pkix.Name{CommonName: carol} }), ErrCertificate},
		{"a DNS name alone", r.example.issue(carol, func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"example.com"} }), ErrCertificate},
		{"an upper-case trust domain", r.example.issue(carol, rawNames(general(6, "spiffe://EXAMPLE.com/carol"))), ErrCertificate},
		{"a trust domain with a dot behind it", r.example.issue(carol, rawNames(general(6, "spiffe://example.com./carol"))), errUnread},
		{"for servers only", r.example.issue(carol, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), ErrPath},
		{"ended this very second", r.example.issue(carol, func(c *x509.Certificate) { c.NotAfter = begin }), ErrValidity},
		{"an anchor that ends in a minute", ended.issue(carol, nil), nil},
		{"begins within the skew", r.example.issue(carol, after(envelope.Skew)), nil},
		{"begins behind the skew", r.example.issue(carol, after(envelope.Skew+time.Second)), ErrValidity},
		{"an anchor whose name constraints leave the domain out", bound.issue(carol, nil), ErrPath},
		{"an authority between whose name constraints leave it out", r.example.below("between", constrained).issue(carol, nil), ErrPath},
		{"an authority between that is none", r.example.below("between", noAuthority).issue(carol, nil), ErrPath},
		{"a path longer than the anchor allows", short.below("between", nil).issue(carol, nil), ErrPath},
		{"more certificates than are read", deep.issue(carol, nil), ErrCertificate},
		{"the authority's own certificate", r.example.issue(carol, asAuthority("x", uris(carol))), ErrCertificate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := handshake(t, r.server(), ClientConfig(show(tt.show), r.ofPublisher, Indexer, bob, r.clock.now))
			if !errors.Is(s.err, tt.want) && (tt.want != errUnread || s.err == nil) {
				t.Errorf("server: %v, want %v", s.err, tt.want)
			}
		})
	}
	r.clock.advance(time.Minute)
	late := ended.issue(carol, nil)
	if s, _ := handshake(t, r.server(), ClientConfig(show(late), r.ofPublisher, Indexer, bob, r.clock.now)); !errors.Is(s.err, ErrValidity) {
		t.Errorf("an anchor that has ended: %v, want %v", s.err, ErrValidity)
	}
}

func TestAnAuthorityVouchesForConnectionsAlone(t *testing.T) {
	r := newRealm(t)
	s, _ := handshake(t, r.server(), ClientConfig(show(r.example.issue(dave, nil)), r.ofPublisher, Indexer, bob, r.clock.now))
	if _, _, err := VerifyPeer(s.state, r.ofIndexer, Publisher, begin); !errors.Is(err, ErrNoCard) {
		t.Errorf("an identity without a card: %v, want %v", err, ErrNoCard)
	}
	end := begin.Add(30 * time.Minute)
	between := r.example.below("between", func(c *x509.Certificate) { c.NotAfter = end })
	s, _ = handshake(t, r.server(), ClientConfig(show(between.issue(carol, nil)), r.ofPublisher, Indexer, bob, r.clock.now))
	p, until, err := VerifyPeer(s.state, r.ofIndexer, Publisher, begin)
	if err != nil || p.Card.Identity != carol || !until.Equal(end) {
		t.Errorf("VerifyPeer = %v, %s, %v; want carol until the first of the path ends", p, until, err)
	}
	// The connection lives; its authority is not trusted any more.
	if err := r.ofIndexer.RemoveAuthority("example.com"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := VerifyPeer(s.state, r.ofIndexer, Publisher, begin); !errors.Is(err, ErrUnknownAuthority) {
		t.Errorf("without the authority: %v, want %v", err, ErrUnknownAuthority)
	}
	if c, ok := r.ofIndexer.Lookup(alice); !ok || !c.Card.listsTLS() {
		t.Error("the identity with a card of its own is gone too")
	}
}

func TestAClientHoldsTheIndexerToItsOwnDomain(t *testing.T) {
	c := newClock()
	publisher := create(t, publisherOptions(alice))
	indexer := withoutTLS(t, indexerOptions(bob))
	search, example := newIssuer(t, "search", nil), newIssuer(t, "example", nil)
	trust := trusting(t, c, indexer)
	addAuthority(t, trust, "search.example", search)
	addAuthority(t, trust, "example.com", example)
	for _, tt := range []struct {
		name string
		show *tls.Certificate
		want error
	}{
		{"the indexer", search.issue(bob, nil), nil},
		{"its name by another domain's authority", example.issue(bob, nil), ErrPath},
		{"another identity of its domain", search.issue("spiffe://search.example/other", nil), ErrNoCard},
		{"for clients only", search.issue(bob, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), ErrPath},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, client := handshake(t, ServerConfig(show(tt.show), trusting(t, c, publisher), Publisher, c.now), ClientConfig(publisher.Certificate, trust, Indexer, bob, c.now))
			if !errors.Is(client.err, tt.want) {
				t.Errorf("client: %v, want %v", client.err, tt.want)
			}
		})
	}
}

// TestCurrentAndNextKeyBothConnect shows a card that lists two TLS keys.
func TestCurrentAndNextKeyBothConnect(t *testing.T) {
	p := newPair(t)
	_, next, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := envelope.NewPublicKey(next.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	asAlice := func(c *x509.Certificate) { c.URIs = []*url.URL{uri(alice)} }
	connect := func() error {
		s, _ := handshake(t, p.server(), ClientConfig(forge(t, next, asAlice), p.ofPublisher, Indexer, bob, p.clock.now))
		return s.err
	}
	if err := connect(); !errors.Is(err, ErrPeerKey) {
		t.Errorf("before the card lists it: %v, want %v", err, ErrPeerKey)
	}
	raw := reissue(t, p.publisher, func(c *Card, _ *envelope.Header) {
		k := c.Keys[key(t, c, envelope.UseTLS)]
		k.PublicKey = public
		c.Keys = append(c.Keys, k)
	})
	if _, err := p.ofIndexer.Add(raw, AddOptions{Now: begin}); err != nil {
		t.Fatal(err)
	}
	if err := connect(); err != nil {
		t.Errorf("the next key: %v", err)
	}
	if s, c := handshake(t, p.server(), p.client()); s.err != nil || c.err != nil {
		t.Errorf("the current key: %v, %v", s.err, c.err)
	}
}
