package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A volume is a folder in which Kubernetes shows secrets: the files are links
// through ..data, which one rename swaps.
type volume struct {
	t   testing.TB
	dir string
	n   int
}

func newVolume(t testing.TB) *volume { return &volume{t: t, dir: t.TempDir()} }

// swap shows the files of fill, all at once.
func (v *volume) swap(fill func(dir string)) {
	v.t.Helper()
	v.n++
	fresh := fmt.Sprintf("..%d", v.n)
	fill(filepath.Join(v.dir, fresh))
	check := func(err error) {
		v.t.Helper()
		if err != nil {
			v.t.Fatal(err)
		}
	}
	check(os.Symlink(fresh, filepath.Join(v.dir, "..data_tmp")))
	check(os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
	entries, err := os.ReadDir(filepath.Join(v.dir, fresh))
	check(err)
	shown := make(map[string]bool)
	for _, e := range entries {
		shown[e.Name()] = true
		link := filepath.Join(v.dir, e.Name())
		if _, err := os.Lstat(link); err != nil {
			check(os.Symlink(filepath.Join("..data", e.Name()), link))
		}
	}
	links, err := os.ReadDir(v.dir)
	check(err)
	for _, e := range links {
		if !strings.HasPrefix(e.Name(), "..") && !shown[e.Name()] {
			check(os.Remove(filepath.Join(v.dir, e.Name())))
		}
	}
	if v.n > 1 {
		check(os.RemoveAll(filepath.Join(v.dir, fmt.Sprintf("..%d", v.n-1))))
	}
}

func (v *volume) certificate(c *tls.Certificate) CertificateFiles {
	v.swap(func(dir string) { writePair(v.t, dir, c) })
	return CertificateFiles{filepath.Join(v.dir, "tls.crt"), filepath.Join(v.dir, "tls.key")}
}

func TestACertificateOfAnotherIssuerIsShown(t *testing.T) {
	c := newClock()
	a := newIssuer(t, "example", nil)
	local, indexer := withoutTLS(t, publisherOptions(alice)), create(t, indexerOptions(bob))
	if _, err := local.Renew(begin, nil); local.Certificate() != nil || !errors.Is(err, ErrCertificate) {
		t.Errorf("without a certificate: %v", err)
	}
	ofIndexer, ofPublisher := trusting(t, c, local), trusting(t, c, indexer)
	addAuthority(t, ofIndexer, "example.com", a)
	server := ServerConfig(indexer.Certificate, ofIndexer, Publisher, c.now)
	client := ClientConfig(local.Certificate, ofPublisher, Indexer, bob, c.now)
	connected := func(want *tls.Certificate) {
		t.Helper()
		s, cl := handshake(t, server, client)
		if s.err != nil || cl.err != nil || !s.state.PeerCertificates[0].Equal(want.Leaf) {
			t.Errorf("server: %v; client: %v; or another certificate was shown", s.err, cl.err)
		}
	}
	v := newVolume(t)
	first := a.below("between", nil).issue(alice, nil)
	files := v.certificate(first)
	if err := local.UseFiles(files, begin); err != nil {
		t.Fatal(err)
	}
	connected(first)
	second := a.issue(alice, func(c *x509.Certificate) { c.NotAfter = begin.Add(49 * time.Hour) })
	v.certificate(second)
	if changed, err := local.Renew(begin, nil); !changed || err != nil {
		t.Errorf("Renew = %v, %v", changed, err)
	}
	connected(second)
	if s := local.Status(begin); s.DaysLeft != 2 || s.Source != files.Certificate || s.Problem != "" || !s.NotAfter.Equal(second.Leaf.NotAfter) {
		t.Errorf("status %+v", s)
	}
	if changed, err := local.Renew(begin, nil); changed || err != nil {
		t.Errorf("Renew of the same = %v, %v", changed, err)
	}
	// A key readable by the group is what volumes of secrets hold.
	if err := os.Chmod(files.Key, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Renew(begin, nil); err != nil {
		t.Error(err)
	}
}

func TestABadCertificateFileKeepsTheOldOne(t *testing.T) {
	a := newIssuer(t, "example", nil)
	good := a.issue(alice, nil)
	other := a.issue(alice, nil)
	mixed := &tls.Certificate{Certificate: good.Certificate, PrivateKey: other.PrivateKey}
	open := func(files CertificateFiles) {
		if err := os.Chmod(files.Key, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	torn := func(files CertificateFiles) {
		if err := os.Truncate(files.Certificate, 100); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(files CertificateFiles) {
		if err := os.Remove(files.Key); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		show *tls.Certificate
		then func(CertificateFiles)
		want error
	}{
		{"another identity's", a.issue(carol, nil), nil, ErrMismatch},
		{"with another key", mixed, nil, ErrCertificate},
		{"torn", other, torn, ErrCertificate},
		{"without its key", other, gone, os.ErrNotExist},
		{"with a key that everybody may read", other, open, ErrPermission},
		{"for servers only", a.issue(alice, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), nil, ErrCertificate},
		{"that has ended", a.issue(alice, func(c *x509.Certificate) { c.NotAfter = begin }), nil, ErrValidity},
		{"that begins tomorrow", a.issue(alice, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = begin.Add(24*time.Hour), begin.Add(48*time.Hour) }), nil, ErrValidity},
		{"of an authority", a.issue(alice, asAuthority("x", uris(alice))), nil, ErrCertificate},
		{"two names", a.issue(alice, uris(alice, carol)), nil, ErrCertificate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			local := withoutTLS(t, publisherOptions(alice))
			dir := t.TempDir()
			files := writePair(t, dir, good)
			if err := local.UseFiles(files, begin); err != nil {
				t.Fatal(err)
			}
			writePair(t, dir, tt.show)
			if tt.then != nil {
				tt.then(files)
			}
			changed, err := local.Renew(begin, nil)
			if changed || !errors.Is(err, tt.want) || !local.Certificate().Leaf.Equal(good.Leaf) {
				t.Errorf("Renew = %v, %v, want %v and the old certificate", changed, err, tt.want)
			}
			if s := local.Status(begin); s.Problem == "" || s.NotAfter.IsZero() {
				t.Errorf("status %+v", s)
			}
			if err := local.UseFiles(files, begin); !errors.Is(err, tt.want) {
				t.Errorf("UseFiles = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestAnEndThatNobodyCaresForIsAProblem(t *testing.T) {
	local := withoutTLS(t, publisherOptions(alice))
	c := newIssuer(t, "example", nil).issue(alice, nil) // for two hours, one is over
	if err := local.UseFiles(writePair(t, t.TempDir(), c), begin); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Renew(begin.Add(19*time.Minute), nil); err != nil {
		t.Error(err)
	}
	if _, err := local.Renew(begin.Add(21*time.Minute), nil); err == nil || !strings.Contains(local.Status(begin).Problem, "nobody has renewed it") {
		t.Errorf("less than a third is left: %v", err)
	}
}

// TestFilesOfAPinnedKeyAreItsOwn looks at an identity whose card lists its key.
func TestFilesOfAPinnedKeyAreItsOwn(t *testing.T) {
	local := create(t, publisherOptions(alice))
	_, foreign, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		show *tls.Certificate
		want error
	}{
		{"signed with the card's key", forge(t, local.tlsKey, uris(alice))(), nil},
		{"signed with another key", forge(t, foreign, uris(alice))(), ErrPeerKey},
		{"issued by an authority", newIssuer(t, "example", nil).issueFor(local.tlsKey, alice, nil), ErrCertificate},
		{"followed by another", newIssuer(t, "a", nil).below("b", nil).issueFor(local.tlsKey, alice, nil), ErrCertificate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := local.UseFiles(writePair(t, t.TempDir(), tt.show), begin); !errors.Is(err, tt.want) {
				t.Errorf("UseFiles = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestADiskThatRefusesIsNotAskedAllTheTime(t *testing.T) {
	local := create(t, publisherOptions(alice))
	keys := local.folder
	local.folder = filepath.Join(keys, "gone") // where nothing can be written
	now := begin.Add(300 * 24 * time.Hour)
	if _, err := local.Renew(now, nil); err == nil {
		t.Fatal("renewed without a folder")
	}
	local.folder = keys
	if changed, err := local.Renew(now.Add(retryEvery-time.Second), nil); changed || err == nil || local.Status(now).Problem == "" {
		t.Errorf("within the minute: %v, %v", changed, err)
	}
	if changed, err := local.Renew(now.Add(retryEvery), nil); !changed || err != nil || local.Status(now).Problem != "" {
		t.Errorf("behind the minute: %v, %v", changed, err)
	}
}
