package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// ServerConfig is the TLS of an endpoint that accepts any trusted identity of
// the role peer. certificate gives the one to show at each handshake. What the
// caller adds to the returned configuration must leave VerifyConnection in
// force.
func ServerConfig(certificate func() *tls.Certificate, trust *Trust, peer Role, now func() time.Time) *tls.Config {
	c := baseConfig(certificate, now)
	c.ClientAuth = tls.RequireAnyClientCert // judged in VerifyConnection
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		_, _, err := VerifyPeer(cs, trust, peer, now())
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
	c.InsecureSkipVerify = true // no certificate authority, no DNS name: VerifyConnection judges
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
// certificate names, if it is trusted at this moment, has the role, and lists
// the key. until is when that ends at the latest, by certificate, key and
// card; a connection is not to be used from then on. VerifyPeer may be asked
// again of a connection that lives, and then sees trust that was withdrawn.
func VerifyPeer(cs tls.ConnectionState, trust *Trust, role Role, now time.Time) (p *Peer, until time.Time, err error) {
	name, leaf, err := leafOf(cs)
	if err != nil {
		return nil, time.Time{}, err
	}
	p, ok := trust.Lookup(name)
	if !ok {
		return nil, time.Time{}, fmt.Errorf("%s: %w", name, ErrUnknownPeer)
	}
	if p.Card.Role != role {
		return nil, time.Time{}, fmt.Errorf("%s is trusted as %s: %w", name, p.Card.Role, ErrRole)
	}
	until, err = checkKey(leaf, p.Card, now)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return p, until, nil
}

// PeerOf names the peer of a connection that was accepted under ServerConfig
// or ClientConfig, and says when its certificate ends. It reads the verified
// certificate once more and judges nothing.
func PeerOf(cs tls.ConnectionState) (envelope.Name, time.Time, error) {
	if !cs.HandshakeComplete {
		return "", time.Time{}, fmt.Errorf("%w: the handshake is not complete", ErrCertificate)
	}
	name, leaf, err := leafOf(cs)
	if err != nil {
		return "", time.Time{}, err
	}
	return name, leaf.NotAfter, nil
}

// leafOf finds the one certificate of a full TLS 1.3 handshake and its name.
func leafOf(cs tls.ConnectionState) (envelope.Name, *x509.Certificate, error) {
	switch {
	case cs.Version != tls.VersionTLS13:
		return "", nil, fmt.Errorf("%w: %s, want TLS 1.3", ErrCertificate, tls.VersionName(cs.Version))
	case cs.DidResume:
		return "", nil, fmt.Errorf("%w: a resumed session", ErrCertificate)
	case len(cs.PeerCertificates) != 1:
		return "", nil, fmt.Errorf("%w: %d certificates, want 1", ErrCertificate, len(cs.PeerCertificates))
	}
	leaf := cs.PeerCertificates[0]
	name, err := nameOf(leaf)
	if err != nil {
		return "", nil, err
	}
	switch {
	case leaf.IsCA:
		return "", nil, fmt.Errorf("%w: that of an authority", ErrCertificate)
	case len(leaf.UnhandledCriticalExtensions) > 0:
		return "", nil, fmt.Errorf("%w: critical extension %s", ErrCertificate, leaf.UnhandledCriticalExtensions[0])
	case leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return "", nil, fmt.Errorf("%w: its key may not sign", ErrCertificate)
	}
	return name, leaf, nil
}

// checkKey requires the certificate's key to be a TLS key of card that counts
// now, the certificate to be signed with that key, and now to be inside its
// validity: a clock may differ at the beginning, never at the end.
func checkKey(leaf *x509.Certificate, card *Card, now time.Time) (until time.Time, err error) {
	public, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok {
		return time.Time{}, fmt.Errorf("%w: a key of type %T", ErrPeerKey, leaf.PublicKey)
	}
	key, err := envelope.NewPublicKey(public)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", ErrPeerKey, err)
	}
	r, ok := card.LookupKey(key.ID())
	epoch := card.Object.Epoch
	switch {
	case !ok:
		return time.Time{}, fmt.Errorf("key %s: %w", key.ID(), ErrPeerKey)
	case r.Use != envelope.UseTLS:
		return time.Time{}, fmt.Errorf("key %s: %w for TLS, but for %s", key.ID(), ErrPeerKey, r.Use)
	case epoch < r.FirstEpoch || (r.LastEpoch != 0 && epoch > r.LastEpoch):
		return time.Time{}, fmt.Errorf("key %s: %w at epoch %d", key.ID(), ErrPeerKey, epoch)
	case now.Add(envelope.Skew).Before(r.NotBefore), !r.NotAfter.IsZero() && !now.Before(r.NotAfter):
		return time.Time{}, fmt.Errorf("key %s: %w at %s", key.ID(), ErrPeerKey, envelope.At(now))
	}
	if err := leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature); err != nil || leaf.SignatureAlgorithm != x509.PureEd25519 {
		return time.Time{}, fmt.Errorf("%w: not signed with its own key", ErrCertificate)
	}
	switch {
	case now.Add(envelope.Skew).Before(leaf.NotBefore):
		return time.Time{}, fmt.Errorf("%w: from %s, now %s", ErrValidity, envelope.At(leaf.NotBefore), envelope.At(now))
	case !now.Before(leaf.NotAfter):
		return time.Time{}, fmt.Errorf("%w: until %s, now %s", ErrValidity, envelope.At(leaf.NotAfter), envelope.At(now))
	}
	until = leaf.NotAfter
	if !r.NotAfter.IsZero() && r.NotAfter.Before(until) {
		until = r.NotAfter
	}
	return until, nil
}

// checkUsage refuses a certificate that says it is not for this end of a
// connection; one that says nothing is for both.
func checkUsage(leaf *x509.Certificate, want x509.ExtKeyUsage) error {
	if len(leaf.ExtKeyUsage) == 0 && len(leaf.UnknownExtKeyUsage) == 0 {
		return nil
	}
	if slices.Contains(leaf.ExtKeyUsage, want) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return nil
	}
	return fmt.Errorf("%w: its extended key usage excludes this end of a connection", ErrCertificate)
}
