package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// ServerConfig is the TLS of an endpoint that accepts any trusted identity of
// the role peer, and those without a card that the authority of their trust
// domain vouches for: VerifyPeer tells the two apart, so that the second can be
// told why they are refused. certificate gives the one to show at each
// handshake. What the caller adds to the returned configuration must leave
// VerifyConnection in force.
func ServerConfig(certificate func() *tls.Certificate, trust *Trust, peer Role, now func() time.Time) *tls.Config {
	c := baseConfig(certificate, now)
	c.ClientAuth = tls.RequireAnyClientCert // judged in VerifyConnection
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		_, _, _, err := recognise(cs, trust, peer, now())
		if err != nil {
			return err
		}
		return checkUsage(cs.PeerCertificates[0], x509.ExtKeyUsageClientAuth)
	}
	return c
}

// ClientConfig is the TLS of one who calls the trusted identity want, of the
// role peer, and talks to nobody else. The name by which it was dialled plays
// no part.
func ClientConfig(certificate func() *tls.Certificate, trust *Trust, peer Role, want envelope.Name, now func() time.Time) *tls.Config {
	c := baseConfig(certificate, now)
	c.InsecureSkipVerify = true // no pool of authorities, no DNS name: VerifyConnection judges
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		p, _, err := VerifyPeer(cs, trust, peer, now())
		if err != nil {
			return err
		}
		if p.Card.Identity != want {
			return fmt.Errorf("called %s: %w: %s", want, ErrWrongPeer, p.Card.Identity)
		}
		return checkUsage(cs.PeerCertificates[0], x509.ExtKeyUsageServerAuth)
	}
	return c
}

// baseConfig has all that both ends share. Nothing is ever resumed: a resumed
// connection shows no certificate again, and would outlive a lost trust.
func baseConfig(certificate func() *tls.Certificate, now func() time.Time) *tls.Config {
	show := func() (*tls.Certificate, error) {
		if c := certificate(); c != nil {
			return c, nil
		}
		return nil, fmt.Errorf("%w: none to show", ErrCertificate)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		MaxVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2"},
		Time:                   now,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return show() },
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show() },
	}
}

// VerifyPeer decides who is at the other end of a connection whose handshake
// showed possession of the certificate's key: the identity that the
// certificate names, if its card is trusted at this moment, has the role, and
// lists the key, or lists none and the authority of its trust domain issued the
// certificate. until is when that ends at the latest, by certificate, key, card
// and authority; a connection is not to be used from then on. VerifyPeer may be
// asked again of a connection that lives, and then sees trust that was withdrawn.
// ErrNoCard is an identity that an authority vouches for and that has no card.
func VerifyPeer(cs tls.ConnectionState, trust *Trust, role Role, now time.Time) (p *Peer, until time.Time, err error) {
	name, p, until, err := recognise(cs, trust, role, now)
	if err == nil && p == nil {
		err = fmt.Errorf("%s: %w", name, ErrNoCard)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return p, until, nil
}

// recognise is VerifyPeer for an identity that need not have a card: p is nil
// then. The record of the name itself comes first, and whoever has a card with
// a TLS key has to match it; only behind that the authority of the name's own
// trust domain is asked, and never that of another.
func recognise(cs tls.ConnectionState, trust *Trust, role Role, now time.Time) (name envelope.Name, p *Peer, until time.Time, err error) {
	name, chain, err := leafOf(cs)
	if err != nil {
		return "", nil, time.Time{}, err
	}
	v := trust.current()
	var card *Card
	if p = v.peers[name]; p != nil {
		card = p.Card
	}
	if until, err = judge(chain, card, v.authorities[DomainOf(name)], role, now); err != nil {
		return "", nil, time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return name, p, until, nil
}

// judge decides whether a certificate is that of an identity with this card, or
// nil for none, whose trust domain has this authority, or nil for none.
func judge(chain []*x509.Certificate, card *Card, a *Authority, role Role, now time.Time) (until time.Time, err error) {
	switch {
	case card != nil && card.Role != role:
		return time.Time{}, fmt.Errorf("trusted as %s: %w", card.Role, ErrRole)
	case card != nil && card.listsTLS():
		return checkKey(chain, card, now)
	case a == nil && card == nil:
		return time.Time{}, ErrUnknownPeer
	case a == nil:
		return time.Time{}, fmt.Errorf("%w, and its card lists no TLS key", ErrUnknownAuthority)
	}
	until, err = a.check(chain, usageOf(role), now)
	if card != nil && err == nil {
		until, err = card.bound(until, now)
	}
	return until, err
}

// PeerOf names the peer of a connection that was accepted under ServerConfig
// or ClientConfig, and says when its certificate ends. It reads the verified
// certificate once more and judges nothing.
func PeerOf(cs tls.ConnectionState) (envelope.Name, time.Time, error) {
	if !cs.HandshakeComplete {
		return "", time.Time{}, fmt.Errorf("%w: the handshake is not complete", ErrCertificate)
	}
	name, chain, err := leafOf(cs)
	if err != nil {
		return "", time.Time{}, err
	}
	return name, chain[0].NotAfter, nil
}

// leafOf finds the certificate of a full TLS 1.3 handshake, with what was sent
// behind it, and its name.
func leafOf(cs tls.ConnectionState) (envelope.Name, []*x509.Certificate, error) {
	switch n := len(cs.PeerCertificates); {
	case cs.Version != tls.VersionTLS13:
		return "", nil, fmt.Errorf("%w: %s, want TLS 1.3", ErrCertificate, tls.VersionName(cs.Version))
	case cs.DidResume:
		return "", nil, fmt.Errorf("%w: a resumed session", ErrCertificate)
	case n == 0 || n > maxChain:
		return "", nil, fmt.Errorf("%w: %d certificates, want 1 to %d", ErrCertificate, n, maxChain)
	}
	name, err := checkLeaf(cs.PeerCertificates[0])
	if err != nil {
		return "", nil, err
	}
	return name, cs.PeerCertificates, nil
}
