package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const (
	carol = "spiffe://example.com/carol" // has a card without a TLS key
	dave  = "spiffe://example.com/dave"  // has no card
)

// An issuer is a certificate authority of these tests.
type issuer struct {
	t     testing.TB
	cert  *x509.Certificate
	key   crypto.Signer
	chain [][]byte // what its leaves are followed by
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// template is a certificate for two hours around begin.
func template(t testing.TB, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: serial, NotBefore: begin.Add(-time.Hour), NotAfter: begin.Add(time.Hour), BasicConstraintsValid: true}
	if change != nil {
		change(c)
	}
	return c
}

func asAuthority(name string, change func(*x509.Certificate)) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.Subject, c.IsCA, c.KeyUsage = pkix.Name{CommonName: name}, true, x509.KeyUsageCertSign
		c.NotAfter = begin.Add(365 * 24 * time.Hour)
		if change != nil {
			change(c)
		}
	}
}

// newIssuer makes an authority that signs itself.
func newIssuer(t testing.TB, name string, change func(*x509.Certificate)) *issuer {
	t.Helper()
	key := newKey(t)
	c := template(t, asAuthority(name, change))
	return &issuer{t: t, cert: certify(t, c, c, key.Public(), key), key: key}
}

func certify(t testing.TB, c, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil { // one that Go would not read either
		return &x509.Certificate{Raw: der}
	}
	return parsed
}

// below makes an authority that i has signed.
func (i *issuer) below(name string, change func(*x509.Certificate)) *issuer {
	i.t.Helper()
	key := newKey(i.t)
	c := certify(i.t, template(i.t, asAuthority(name, change)), i.cert, key.Public(), i.key)
	return &issuer{t: i.t, cert: c, key: key, chain: append([][]byte{c.Raw}, i.chain...)}
}

// issue makes the certificate of name under a new key.
func (i *issuer) issue(name string, change func(*x509.Certificate)) *tls.Certificate {
	i.t.Helper()
	return i.issueFor(newKey(i.t), name, change)
}

func (i *issuer) issueFor(key crypto.Signer, name string, change func(*x509.Certificate)) *tls.Certificate {
	i.t.Helper()
	c := certify(i.t, template(i.t, func(c *x509.Certificate) {
		c.URIs, c.KeyUsage = []*url.URL{uri(name)}, x509.KeyUsageDigitalSignature
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
		if change != nil {
			change(c)
		}
	}), i.cert, key.Public(), i.key)
	return &tls.Certificate{Certificate: append([][]byte{c.Raw}, i.chain...), PrivateKey: key, Leaf: c}
}

func (i *issuer) pem() []byte { return encodePEM("CERTIFICATE", i.cert.Raw) }

func addAuthority(t testing.TB, s *Trust, d Domain, issuers ...*issuer) {
	t.Helper()
	var bundle []byte
	for _, i := range issuers {
		bundle = append(bundle, i.pem()...)
	}
	if _, err := s.AddAuthority(d, bundle, begin); err != nil {
		t.Fatal(err)
	}
}

// withoutTLS is an identity whose card lists no TLS key.
func withoutTLS(t testing.TB, o Options) *Local {
	t.Helper()
	o.ExternalTLS = true
	return create(t, o)
}

func show(c *tls.Certificate) func() *tls.Certificate { return func() *tls.Certificate { return c } }

// writePair writes a certificate with its chain, and its key, as an agent does.
func writePair(t testing.TB, dir string, c *tls.Certificate) CertificateFiles {
	t.Helper()
	files := CertificateFiles{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	var text []byte
	for _, der := range c.Certificate {
		text = append(text, encodePEM("CERTIFICATE", der)...)
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(files.Key, encodePEM("PRIVATE KEY", key), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(files.Certificate, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return files
}

// rawNames is an alternative name that Go would not write.
func rawNames(names ...asn1.RawValue) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.URIs, c.ExtraExtensions = nil, []pkix.Extension{altNames(names...)}
	}
}
