package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// mint plays the authority of a trust domain and the agent that it has on a
// machine.
//
//	mint ca NAME                 an authority: NAME.pem, and its key in NAME.key
//	mint bundle OUT NAME…        the certificates of several in one file
//	mint leaf NAME ID DIR LIFE   a certificate in the volume DIR: tls.crt and
//	                             tls.key, swapped both at once by one rename
func mint(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case !neg && len(args) == 2 && args[0] == "ca":
		mintAuthority(ts, args[1])
	case !neg && len(args) > 2 && args[0] == "bundle":
		var all []byte
		for _, name := range args[2:] {
			all = append(all, ts.ReadFile(name+".pem")...)
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), all, 0o644))
	case !neg && len(args) == 5 && args[0] == "leaf":
		life, err := time.ParseDuration(args[4])
		ts.Check(err)
		mintLeaf(ts, args[1], args[2], ts.MkAbs(args[3]), life)
	default:
		ts.Fatalf("usage: mint ca NAME | mint bundle OUT NAME… | mint leaf NAME ID DIR LIFE")
	}
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// certificate signs c by parent's key, or by its own if there is no parent, and
// gives both in PEM form.
func certificate(ts *testscript.TestScript, c, parent *x509.Certificate, signer *ecdsa.PrivateKey) (certPEM, keyPEM []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	if parent == nil {
		parent, signer = c, key
	}
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	ts.Check(err)
	c.NotBefore, c.BasicConstraintsValid = time.Now().Add(-time.Minute), true
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	ts.Check(err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", pkcs8)
}

func mintAuthority(ts *testscript.TestScript, name string) {
	cert, key := certificate(ts, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	ts.Check(os.WriteFile(ts.MkAbs(name+".pem"), cert, 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(name+".key"), key, 0o600))
}

func mintLeaf(ts *testscript.TestScript, authority, id, dir string, life time.Duration) {
	block, _ := pem.Decode([]byte(ts.ReadFile(authority + ".pem")))
	parent, err := x509.ParseCertificate(block.Bytes)
	ts.Check(err)
	block, _ = pem.Decode([]byte(ts.ReadFile(authority + ".key")))
	signer, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	ts.Check(err)
	uri, err := url.Parse(id)
	ts.Check(err)
	cert, key := certificate(ts, &x509.Certificate{
		NotAfter: time.Now().Add(life), URIs: []*url.URL{uri}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, parent, signer.(*ecdsa.PrivateKey))
	ts.Check(os.MkdirAll(dir, 0o755))
	fresh, err := os.MkdirTemp(dir, "..*")
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(fresh, "tls.crt"), cert, 0o644))
	ts.Check(os.WriteFile(filepath.Join(fresh, "tls.key"), key, 0o600))
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			ts.Check(os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
		}
	}
	ts.Check(os.Symlink(filepath.Base(fresh), filepath.Join(dir, "..new")))
	ts.Check(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
}

// thick DIR N writes N pages of twenty kilobytes that hardly compress, so that
// a push takes its time.
func thick(ts *testscript.TestScript, neg bool, args []string) {
	var n int
	if neg || len(args) != 2 {
		ts.Fatalf("usage: thick DIR N")
	}
	_, err := fmt.Sscan(args[1], &n)
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o755))
	noise := make([]byte, 10<<10)
	for i := range n {
		rand.Read(noise)
		var words strings.Builder
		for j := 0; j < len(noise); j += 4 {
			fmt.Fprintf(&words, "%x ", noise[j:j+4])
		}
		page := fmt.Sprintf("<!DOCTYPE html><html lang=en><title>Page %d</title><main><h1>Page %d</h1><p>%s</p></main>", i, i, words.String())
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), fmt.Sprintf("p%d.html", i)), []byte(page), 0o644))
	}
}
