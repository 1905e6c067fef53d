package identity

import (
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// maxChain bounds the certificates that one side sends: its own, and those of
// the authorities between it and the anchor.
const maxChain = 5

// checkLeaf reads the name of a certificate, and refuses one that no end of a
// connection may show, whoever issued it.
func checkLeaf(leaf *x509.Certificate) (envelope.Name, error) {
	name, err := nameOf(leaf)
	if err != nil {
		return "", err
	}
	switch {
	case leaf.IsCA:
		return "", fmt.Errorf("%w: that of an authority", ErrCertificate)
	case len(leaf.UnhandledCriticalExtensions) > 0:
		return "", fmt.Errorf("%w: critical extension %s", ErrCertificate, leaf.UnhandledCriticalExtensions[0])
	case leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return "", fmt.Errorf("%w: its key may not sign", ErrCertificate)
	}
	return name, nil
}

// listsTLS reports whether the card says itself how its identity is recognised.
// One that lists no TLS key, or only such as were replaced in an earlier epoch,
// leaves that to the authority of its trust domain.
func (c *Card) listsTLS() bool {
	return slices.ContainsFunc(c.Keys, func(k Key) bool {
		return k.Use == envelope.UseTLS && (k.Epochs.Last == 0 || k.Epochs.Last >= c.Object.Epoch)
	})
}

// checkKey requires the one certificate's key to be a TLS key of card that
// counts now, the certificate to be signed with that key, and now to be inside
// its validity: a clock may differ at the beginning, never at the end.
func checkKey(chain []*x509.Certificate, card *Card, now time.Time) (until time.Time, err error) {
	leaf := chain[0]
	if len(chain) != 1 {
		return time.Time{}, fmt.Errorf("%w: %d certificates, want the one of the card's key", ErrCertificate, len(chain))
	}
	r, err := card.tlsKey(leaf)
	if err != nil {
		return time.Time{}, err
	}
	if now.Add(envelope.Skew).Before(r.NotBefore) || !r.NotAfter.IsZero() && !now.Before(r.NotAfter) {
		return time.Time{}, fmt.Errorf("key %s: %w at %s", r.Key.ID(), ErrPeerKey, envelope.At(now))
	}
	if err := leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature); err != nil || leaf.SignatureAlgorithm != x509.PureEd25519 {
		return time.Time{}, fmt.Errorf("%w: not signed with its own key", ErrCertificate)
	}
	if err := checkTime(leaf, now); err != nil {
		return time.Time{}, err
	}
	return earlier(leaf.NotAfter, r.NotAfter), nil
}

// tlsKey finds the certificate's key among those that the card lists for TLS at
// its own epoch: the current one, or the next.
func (c *Card) tlsKey(leaf *x509.Certificate) (envelope.KeyRecord, error) {
	public, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok {
		return envelope.KeyRecord{}, fmt.Errorf("%w: a key of type %T", ErrPeerKey, leaf.PublicKey)
	}
	key, err := envelope.NewPublicKey(public)
	if err != nil {
		return envelope.KeyRecord{}, fmt.Errorf("%w: %w", ErrPeerKey, err)
	}
	r, ok := c.LookupKey(key.ID())
	epoch := c.Object.Epoch
	switch {
	case !ok:
		return envelope.KeyRecord{}, fmt.Errorf("key %s: %w", key.ID(), ErrPeerKey)
	case r.Use != envelope.UseTLS:
		return envelope.KeyRecord{}, fmt.Errorf("key %s: %w for TLS, but for %s", key.ID(), ErrPeerKey, r.Use)
	case r.Lost:
		return envelope.KeyRecord{}, fmt.Errorf("key %s: %w: it was lost", key.ID(), ErrPeerKey)
	case epoch < r.FirstEpoch || r.LastEpoch != 0 && epoch > r.LastEpoch:
		return envelope.KeyRecord{}, fmt.Errorf("key %s: %w at epoch %d", key.ID(), ErrPeerKey, epoch)
	}
	return r, nil
}

// check validates the path from the certificate to one of the anchors, by the
// certificates that were sent with it: names, name constraints, length, usage
// and time of each (RFC 5280, 6). No anchor of another domain takes part.
func (a *Authority) check(chain []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) (until time.Time, err error) {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	o := x509.VerifyOptions{Roots: a.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}
	paths, err := chain[0].Verify(o)
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		// A clock may differ at the beginning. What holds then has not ended now.
		o.CurrentTime = now.Add(envelope.Skew)
		if paths, err = chain[0].Verify(o); err != nil {
			return time.Time{}, fmt.Errorf("%w: %w", ErrValidity, err)
		}
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("%w %s: %w", ErrPath, a.Domain, err)
	}
	for _, path := range paths { // the one that ends last
		end := path[0].NotAfter
		for _, c := range path[1:] {
			end = earlier(end, c.NotAfter)
		}
		if end.After(until) {
			until = end
		}
	}
	if !now.Before(until) {
		return time.Time{}, fmt.Errorf("%w: until %s, now %s", ErrValidity, envelope.At(until), envelope.At(now))
	}
	return until, nil
}

// bound is until, or the end of the card if that is sooner.
func (c *Card) bound(until, now time.Time) (time.Time, error) {
	end := c.Object.ExpiresAt
	if !end.IsZero() && !now.Before(end) {
		return time.Time{}, fmt.Errorf("%w: its card ended at %s", ErrValidity, envelope.At(end))
	}
	return earlier(until, end), nil
}

func checkTime(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.Add(envelope.Skew).Before(leaf.NotBefore):
		return fmt.Errorf("%w: from %s, now %s", ErrValidity, envelope.At(leaf.NotBefore), envelope.At(now))
	case !now.Before(leaf.NotAfter):
		return fmt.Errorf("%w: until %s, now %s", ErrValidity, envelope.At(leaf.NotAfter), envelope.At(now))
	}
	return nil
}

// earlier is the earlier of two ends, of which the second may be none.
func earlier(end, other time.Time) time.Time {
	if !other.IsZero() && other.Before(end) {
		return other
	}
	return end
}

// usageOf is the end of a connection that a role has: publishers dial.
func usageOf(role Role) x509.ExtKeyUsage {
	if role == Indexer {
		return x509.ExtKeyUsageServerAuth
	}
	return x509.ExtKeyUsageClientAuth
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
