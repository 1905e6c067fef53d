package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"
)

// forge is a certificate that says something else than newCertificate would.
func forge(t testing.TB, signer ed25519.PrivateKey, change func(*x509.Certificate)) func() *tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: begin.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}
	return func() *tls.Certificate { return c }
}

func uri(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// altNames is a subjectAltName extension of raw GeneralNames.
func altNames(names ...asn1.RawValue) pkix.Extension {
	der, err := asn1.Marshal(names)
	if err != nil {
		panic(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: der}
}

func general(tag int, text string) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: []byte(text)}
}

// errAny stands for a refusal by another package than ours.
var errAny = errors.New("any refusal")

func TestOnlyOneURIMakesAName(t *testing.T) {
	p := newPair(t)
	other := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true,
		Bytes: []byte{0x06, 0x03, 0x2a, 0x03, 0x04, 0xa0, 0x03, 0x0c, 0x01, 'a'}}
	for _, tt := range []struct {
		name   string
		want   error
		change func(*x509.Certificate)
	}{
		{"the one URI", nil, func(c *x509.Certificate) { c.URIs = []*url.URL{uri(alice)} }},
		{"the one URI, and a common name that counts for nothing", nil, func(c *x509.Certificate) {
			c.URIs, c.Subject = []*url.URL{uri(alice)}, pkix.Name{CommonName: mallory}
		}},
		{"two URIs", ErrCertificate, func(c *x509.Certificate) { c.URIs = []*url.URL{uri(alice), uri(mallory)} }},
		{"the same URI twice", ErrCertificate, func(c *x509.Certificate) { c.URIs = []*url.URL{uri(alice), uri(alice)} }},
		{"a URI and a DNS name", ErrCertificate, func(c *x509.Certificate) {
			c.URIs, c.DNSNames = []*url.URL{uri(alice)}, []string{"example.com"}
		}},
		{"a URI and an address", ErrCertificate, func(c *x509.Certificate) {
			c.URIs, c.IPAddresses = []*url.URL{uri(alice)}, []net.IP{net.IPv4(127, 0, 0, 1)}
		}},
		{"a URI and a mail address", ErrCertificate, func(c *x509.Certificate) {
			c.URIs, c.EmailAddresses = []*url.URL{uri(alice)}, []string{"a@example.com"}
		}},
		{"a URI and a name that the parser leaves out", ErrCertificate, func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{altNames(general(6, alice), other)}
		}},
		{"a common name only", ErrCertificate, func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: alice} }},
		{"a DNS name only", ErrCertificate, func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} }},
		{"no name", ErrCertificate, func(*x509.Certificate) {}},
		{"an upper-case trust domain", ErrCertificate, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://Example.com/publisher")} }},
		{"a trailing dot, which the parser refuses", errAny, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://example.com./publisher")} }},
		{"an upper-case scheme, which the parser makes lower", ErrCertificate, func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{altNames(general(6, "SPIFFE://example.com/publisher"))}
		}},
		{"a query", ErrCertificate, func(c *x509.Certificate) { c.URIs = []*url.URL{uri(alice + "?a=b")} }},
		{"a port", ErrCertificate, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://example.com:443/publisher")} }},
		{"a dot segment", ErrCertificate, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://example.com/./publisher")} }},
		{"an https URI", ErrCertificate, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("https://example.com/publisher")} }},
		{"that of an authority", ErrCertificate, func(c *x509.Certificate) {
			c.URIs, c.IsCA = []*url.URL{uri(alice)}, true
		}},
		{"a key that may not sign", ErrCertificate, func(c *x509.Certificate) {
			c.URIs, c.KeyUsage = []*url.URL{uri(alice)}, x509.KeyUsageKeyEncipherment
		}},
		{"a critical extension that nobody knows", ErrCertificate, func(c *x509.Certificate) {
			c.URIs = []*url.URL{uri(alice)}
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
		}},
		{"an extended key usage of servers only", ErrCertificate, func(c *x509.Certificate) {
			c.URIs, c.ExtKeyUsage = []*url.URL{uri(alice)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}},
		{"an extended key usage of neither", ErrCertificate, func(c *x509.Certificate) {
			c.URIs, c.UnknownExtKeyUsage = []*url.URL{uri(alice)}, []asn1.ObjectIdentifier{{1, 2, 3}}
		}},
		{"any extended key usage", nil, func(c *x509.Certificate) {
			c.URIs, c.ExtKeyUsage = []*url.URL{uri(alice)}, []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
		}},
		{"an expiry that has just come", ErrValidity, func(c *x509.Certificate) {
			c.URIs, c.NotBefore, c.NotAfter = []*url.URL{uri(alice)}, begin.Add(-time.Hour), begin
		}},
		{"an expiry in a second", nil, func(c *x509.Certificate) {
			c.URIs, c.NotAfter = []*url.URL{uri(alice)}, begin.Add(time.Second)
		}},
		{"a beginning in 121 s", ErrValidity, func(c *x509.Certificate) {
			c.URIs, c.NotBefore = []*url.URL{uri(alice)}, begin.Add(121*time.Second)
		}},
		{"a beginning in 119 s", nil, func(c *x509.Certificate) {
			c.URIs, c.NotBefore = []*url.URL{uri(alice)}, begin.Add(119*time.Second)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := p.client()
			shown := forge(t, p.publisher.tlsKey, tt.change)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown(), nil }
			s, c := handshake(t, p.server(), config)
			if !errors.Is(s.err, tt.want) && (tt.want != errAny || s.err == nil) {
				t.Errorf("server: %v, want %v", s.err, tt.want)
			}
			if (c.err == nil) != (tt.want == nil) {
				t.Errorf("client: %v", c.err)
			}
		})
	}
}

func TestAlternativeNamesHaveOneEncoding(t *testing.T) {
	good := altNames(general(6, alice)).Value
	if n, err := parseNames(good); err != nil || n != alice {
		t.Fatalf("parseNames = %s, %v", n, err)
	}
	long := append([]byte{0x30, 0x81, good[1]}, good[2:]...)
	indefinite := append(append([]byte{0x30, 0x80}, good[2:]...), 0, 0)
	set := append([]byte{0x31}, good[1:]...)
	compound := bytes.Clone(good)
	compound[2] |= 0x20
	for name, der := range map[string][]byte{
		"an octet behind it": append(bytes.Clone(good), 0), "a length in a long form": long, "an indefinite length": indefinite,
		"a trailing dot": altNames(general(6, "spiffe://example.com./publisher")).Value,
		"a set":          set, "a compound URI": compound, "an empty list": {0x30, 0}, "nothing": nil, "cut short": good[:len(good)-1],
	} {
		if n, err := parseNames(der); !errors.Is(err, ErrCertificate) {
			t.Errorf("%s: %s, %v", name, n, err)
		}
	}
}

func FuzzParseNames(f *testing.F) {
	f.Add(altNames(general(6, alice)).Value)
	f.Add(altNames(general(6, alice), general(2, "example.com")).Value)
	f.Fuzz(func(t *testing.T, der []byte) {
		name, err := parseNames(der)
		if err != nil {
			return
		}
		if again := altNames(general(6, string(name))).Value; !bytes.Equal(again, der) {
			t.Errorf("%x reads as %s, which is written %x", der, name, again)
		}
	})
}
