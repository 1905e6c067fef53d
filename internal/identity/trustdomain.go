package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Domain is a SPIFFE trust domain, such as "example.com": what stands between
// "spiffe://" and the first slash of a name.
type Domain string

// ParseDomain accepts exactly what may stand there in a name.
func ParseDomain(s string) (Domain, error) {
	if strings.Contains(s, "/") {
		return "", fmt.Errorf("trust domain %.80q: write it without scheme and path, as example.com", s)
	}
	if _, err := ParseName(spiffeScheme + s + "/x"); err != nil {
		return "", fmt.Errorf("trust domain %.80q: %w", s, err)
	}
	return Domain(s), nil
}

// DomainOf is the trust domain of a name that ParseName has accepted.
func DomainOf(name envelope.Name) Domain {
	domain, _, _ := strings.Cut(strings.TrimPrefix(string(name), spiffeScheme), "/")
	return Domain(domain)
}

// An Authority is the certificate authority of one trust domain, as its
// operator gave it: one anchor, or several while one takes the place of
// another. It vouches for connections of identities of that domain whose card
// lists no TLS key, or that have no card here, and for nothing else. It is
// read-only: a change makes a new Authority.
type Authority struct {
	Domain  Domain
	Anchors []*x509.Certificate

	pool *x509.CertPool
}

// Bounds of a bundle.
const (
	maxAnchors = 16
	maxBundle  = 256 << 10 // octets
)

// parseAuthority reads a bundle of PEM certificates. Text between the blocks
// is passed over, as in any PEM file; a block that cannot be read is not.
func parseAuthority(domain Domain, raw []byte) (*Authority, error) {
	if len(raw) > maxBundle {
		return nil, fmt.Errorf("%d octets, at most %d", len(raw), maxBundle)
	}
	blocks := bytes.Count(raw, []byte("-----BEGIN "))
	if blocks == 0 || blocks > maxAnchors {
		return nil, fmt.Errorf("%d certificates, want 1 to %d in PEM form", blocks, maxAnchors)
	}
	a := &Authority{Domain: domain, pool: x509.NewCertPool()}
	for i := range blocks {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil || block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is no PEM certificate", i+1)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		if err := checkAnchor(c, domain); err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		if slices.ContainsFunc(a.Anchors, c.Equal) {
			return nil, fmt.Errorf("certificate %d stands twice", i+1)
		}
		a.Anchors = append(a.Anchors, c)
		a.pool.AddCert(c)
	}
	return a, nil
}

// checkAnchor refuses what cannot, or says that it does not, issue certificates
// of the domain. Its time is judged when it is used.
func checkAnchor(c *x509.Certificate, domain Domain) error {
	switch {
	case !c.BasicConstraintsValid || !c.IsCA:
		return errors.New("not that of an authority")
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("its key may not sign certificates")
	case len(c.UnhandledCriticalExtensions) > 0:
		return fmt.Errorf("critical extension %s", c.UnhandledCriticalExtensions[0])
	}
	for _, u := range c.URIs {
		if u.Scheme == "spiffe" && u.Host != string(domain) {
			return fmt.Errorf("it names the trust domain %q, not %s", u.Host, domain)
		}
	}
	switch k := c.PublicKey.(type) {
	case ed25519.PublicKey, *ecdsa.PublicKey:
		return nil
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < 2048 || n > 8192 {
			return fmt.Errorf("an RSA key of %d bits", n)
		}
		return nil
	}
	return fmt.Errorf("a key of type %T", c.PublicKey)
}

// Fingerprint is the SHA-256 of a certificate in hex, for people to compare.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// encode writes the anchors as parseAuthority reads them, and nothing else.
func (a *Authority) encode() []byte {
	var b []byte
	for _, c := range a.Anchors {
		b = append(b, encodePEM("CERTIFICATE", c.Raw)...)
	}
	return b
}

// authoritySuffix ends the names of bundle files; the domain stands before it.
const authoritySuffix = ".ca.pem"

func authorityFile(d Domain) string { return string(d) + authoritySuffix }

func readAuthority(path string) (*Authority, error) {
	domain, err := ParseDomain(strings.TrimSuffix(filepath.Base(path), authoritySuffix))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	raw, err := readFile(path, maxBundle, 0)
	if err != nil {
		return nil, err
	}
	a, err := parseAuthority(domain, raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// same reports whether r is a bundle of the same anchors.
func (a *Authority) same(r record) bool {
	b, ok := r.(*Authority)
	return ok && a.Domain == b.Domain && slices.EqualFunc(a.Anchors, b.Anchors, (*x509.Certificate).Equal)
}

// into adds a to v. One authority for two domains would be a pool of the two.
func (a *Authority) into(v *view) error {
	for _, c := range a.Anchors {
		if d, ok := v.anchors[anchorKey(c)]; ok && d != a.Domain {
			return fmt.Errorf("an authority of %s: %w: it is trusted for %s", a.Domain, ErrConflict, d)
		}
	}
	v.authorities[a.Domain] = a
	for _, c := range a.Anchors {
		v.anchors[anchorKey(c)] = a.Domain
	}
	return nil
}

// anchorKey names an anchor by its public key.
func anchorKey(c *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(c.RawSubjectPublicKeyInfo)
}

// Authorities gives the trusted authorities in the order of their domains.
func (t *Trust) Authorities() []*Authority {
	v := t.current()
	list := make([]*Authority, 0, len(v.authorities))
	for _, a := range v.authorities {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *Authority) int { return strings.Compare(string(a.Domain), string(b.Domain)) })
	return list
}

// LookupAuthority finds the authority of a trust domain.
func (t *Trust) LookupAuthority(d Domain) (*Authority, bool) {
	a, ok := t.current().authorities[d]
	return a, ok
}

// AddAuthority trusts the anchors of a bundle, in the place of those that the
// domain had, and returns after that is durable. Every one has to be valid at
// now or later. An anchor of another domain is ErrConflict.
func (t *Trust) AddAuthority(d Domain, bundle []byte, now time.Time) (*Authority, error) {
	a, err := parseAuthority(d, bundle)
	if err != nil {
		return nil, fmt.Errorf("authority of %s: %w", d, err)
	}
	for _, c := range a.Anchors {
		if !now.Before(c.NotAfter) {
			return nil, fmt.Errorf("authority of %s: %w: %s ended at %s", d, ErrValidity, Fingerprint(c), envelope.At(c.NotAfter))
		}
	}
	err = t.change(func(v *view) error {
		if err := a.into(v.withoutAuthority(d)); err != nil {
			return err
		}
		return writeFile(filepath.Join(t.dir, authorityFile(d)), a.encode(), 0o600)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// RemoveAuthority ends the trust in the authority of a domain, and returns
// after that is durable. Identities with a card of their own are not touched.
func (t *Trust) RemoveAuthority(d Domain) error {
	return t.change(func(v *view) error {
		if v.authorities[d] == nil {
			return fmt.Errorf("authority of %s: %w", d, ErrUnknownAuthority)
		}
		if err := os.Remove(filepath.Join(t.dir, authorityFile(d))); err != nil {
			return err
		}
		return syncDir(t.dir)
	})
}
