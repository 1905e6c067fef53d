package fetch_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// clientCertificate makes one with a serial number by which servers know it.
func clientCertificate(t *testing.T, serial int64) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "reader"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A doorkeeper is a server by https that notes the certificates it is shown.
type doorkeeper struct {
	*httptest.Server
	shownMu sync.Mutex
	shown   []int64 // serial numbers; 0: none was
}

func newDoorkeeper(t *testing.T, asks tls.ClientAuthType, then http.HandlerFunc) *doorkeeper {
	t.Helper()
	d := &doorkeeper{}
	d.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serial := int64(0)
		if peers := r.TLS.PeerCertificates; len(peers) > 0 {
			serial = peers[0].SerialNumber.Int64()
		}
		d.shownMu.Lock()
		d.shown = append(d.shown, serial)
		d.shownMu.Unlock()
		then(w, r)
	}))
	d.TLS = &tls.Config{ClientAuth: asks}
	d.Config.ErrorLog = discard()
	d.StartTLS()
	t.Cleanup(d.Close)
	return d
}

func (d *doorkeeper) serials() []int64 {
	d.shownMu.Lock()
	defer d.shownMu.Unlock()
	return slices.Clone(d.shown)
}

func TestACertificateIsShownToItsOriginAlone(t *testing.T) {
	other := newDoorkeeper(t, tls.RequestClientCert, func(http.ResponseWriter, *http.Request) {})
	home := newDoorkeeper(t, tls.RequireAnyClientCert, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/out" {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	})
	roots := home.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	now, unreadable := clientCertificate(t, 1), error(nil)
	c, _ := newClient(t, func(c *fetch.Config) {
		c.RootCAs = roots
		c.Certificates = map[string]func() (*tls.Certificate, error){home.URL: func() (*tls.Certificate, error) { return now, unreadable }}
	}, home.Server, other.Server)
	mayGet := func(url string) error {
		r, err := c.Get(t.Context(), url, fetch.Conditions{})
		if err == nil {
			err = r.Body.Close()
		}
		return err
	}
	if err := mayGet(home.URL + "/out"); err != nil {
		t.Fatal(err)
	}
	if got := home.serials(); !slices.Equal(got, []int64{1}) {
		t.Errorf("at home, shown are %v", got)
	}
	if got := other.serials(); !slices.Equal(got, []int64{0}) {
		t.Errorf("at the other origin, shown are %v", got)
	}
	// One that was renewed counts from the next connection on.
	now = clientCertificate(t, 2)
	c.Close()
	if err := mayGet(home.URL); err != nil || !slices.Equal(home.serials(), []int64{1, 2}) {
		t.Errorf("after it was renewed: %v, shown are %v", err, home.serials())
	}
	c.Close()
	unreadable = errors.New("the key cannot be read")
	if err := mayGet(home.URL); !errors.Is(err, unreadable) {
		t.Errorf("with no key: %v", err)
	}
	plain, _ := newClient(t, func(c *fetch.Config) { c.RootCAs = roots }, home.Server)
	if r, err := plain.Get(t.Context(), home.URL, fetch.Conditions{}); err == nil {
		r.Body.Close()
		t.Error("the server asks for no certificate, and so shows nothing")
	}
	for _, origin := range []string{"http://127.0.0.1:1", "https://example.com/", "example.com"} {
		certificates := map[string]func() (*tls.Certificate, error){origin: func() (*tls.Certificate, error) { return now, nil }}
		if _, err := fetch.New(fetch.Config{UserAgent: "test/1", Certificates: certificates}); err == nil {
			t.Errorf("a certificate for %s is accepted", origin)
		}
	}
}
