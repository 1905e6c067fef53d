package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// lifetime is how long a certificate is valid; Renew replaces it when less
// than a third is left.
const lifetime = 365 * 24 * time.Hour

// newCertificate makes the self-signed certificate of name: the SPIFFE ID as
// its one alternative name, no subject, a random serial number, for both ends
// of a connection.
func newCertificate(name envelope.Name, key ed25519.PrivateKey, now time.Time, random io.Reader) ([]byte, error) {
	id, err := url.Parse(string(name))
	if err != nil || id.String() != string(name) {
		return nil, fmt.Errorf("certificate for %s: not a URI", name)
	}
	serial := make([]byte, 16)
	if _, err := io.ReadFull(random, serial); err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	serial[0] = serial[0]&0x7f | 0x40 // positive, and always 16 octets
	start := now.UTC().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial),
		NotBefore:             start,
		NotAfter:              start.Add(lifetime),
		URIs:                  []*url.URL{id},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	return x509.CreateCertificate(random, template, template, key.Public(), key)
}

// decodeCertificate reads tls.crt and requires it to be name's, with key.
func decodeCertificate(text []byte, name envelope.Name, key ed25519.PrivateKey) (*tls.Certificate, error) {
	der, err := decodePEM(text, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	got, err := nameOf(leaf)
	if err != nil {
		return nil, err
	}
	public, _ := leaf.PublicKey.(ed25519.PublicKey)
	if got != name || !key.Public().(ed25519.PublicKey).Equal(public) {
		return nil, fmt.Errorf("certificate of %s: %w", got, ErrMismatch)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// needsRenewal reports whether less than a third of the lifetime is left, or
// the certificate is not valid yet.
func needsRenewal(leaf *x509.Certificate, now time.Time) bool {
	return leaf.NotAfter.Sub(now) < leaf.NotAfter.Sub(leaf.NotBefore)/3 || now.Add(envelope.Skew).Before(leaf.NotBefore)
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// decodePEM accepts exactly one block of the given kind, as encodePEM writes it.
func decodePEM(text []byte, kind string) ([]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != kind || !bytes.Equal(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: block.Bytes}), text) {
		return nil, fmt.Errorf("not one PEM block %q", kind)
	}
	return block.Bytes, nil
}
