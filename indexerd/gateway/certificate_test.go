package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pair makes a certificate and its key, as PEM.
func pair(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"mirror.example"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// TestACertificateIsLoadedAgainWhenItIsReplaced replaces the two files one after the
// other, as it is done, and puts in their place what is no certificate.
func TestACertificateIsLoadedAgainWhenItIsReplaced(t *testing.T) {
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	write := func(path string, octets []byte) {
		if err := os.WriteFile(path, octets, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var told bytes.Buffer
	log := slog.New(slog.NewTextHandler(&told, nil))
	if _, err := TLS(certificate, key, log); err == nil {
		t.Error("files that are not there are taken")
	}
	c1, k1 := pair(t, 1)
	c2, k2 := pair(t, 2)
	write(certificate, c1)
	write(key, k1)
	synctest.Test(t, func(t *testing.T) {
		config, err := TLS(certificate, key, log)
		if err != nil {
			t.Fatal(err)
		}
		if config.MinVersion != tls.VersionTLS12 {
			t.Errorf("the least version is %x", config.MinVersion)
		}
		serves := func(want int64, when string) {
			t.Helper()
			c, err := config.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Leaf.SerialNumber.Int64(); got != want {
				t.Errorf("%s: certificate %d is served, want %d", when, got, want)
			}
		}
		serves(1, "at first")
		write(certificate, c2)
		time.Sleep(2 * lookAgain)
		serves(1, "with the key of another")
		if !strings.Contains(told.String(), "gateway certificate") {
			t.Errorf("nothing is told of a pair that does not fit: %q", told.String())
		}
		write(key, k2)
		serves(1, "within the same second")
		time.Sleep(2 * lookAgain)
		serves(2, "when both are there")
		write(certificate, []byte("no certificate"))
		time.Sleep(2 * lookAgain)
		serves(2, "when it was spoilt")
		if err := os.Remove(key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookAgain)
		serves(2, "when it is gone")
	})
}
