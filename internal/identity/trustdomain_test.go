package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBundlesThatAreNoneAreRefused(t *testing.T) {
	a := newIssuer(t, "a", nil)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weakTemplate := template(t, asAuthority("weak", nil))
	many := bytes.Repeat(a.pem(), maxAnchors+1)
	for _, tt := range []struct {
		name   string
		bundle []byte
		wants  string // part of the error; "" for none
	}{
		{"one anchor", a.pem(), ""},
		{"two, with words between", append(append([]byte("# old\n"), a.pem()...), append([]byte("# new\n"), newIssuer(t, "b", nil).pem()...)...), ""},
		{"its own trust domain in it", newIssuer(t, "c", uris("spiffe://example.com/ca")).pem(), ""},
		{"nothing", nil, "0 certificates"},
		{"no PEM", a.cert.Raw, "0 certificates"},
		{"17 anchors", many, "17 certificates"},
		{"too much", append(a.pem(), make([]byte, maxBundle)...), "octets"},
		{"the same twice", append(a.pem(), a.pem()...), "stands twice"},
		{"a private key", encodePEM("PRIVATE KEY", []byte{1}), "no PEM certificate"},
		{"a torn block", a.pem()[:len(a.pem())/2], "no PEM certificate"},
		{"a good block and a torn one", append(a.pem(), a.pem()[:100]...), "no PEM certificate"},
		{"no DER", encodePEM("CERTIFICATE", []byte{1}), "certificate 1"},
		{"a leaf", encodePEM("CERTIFICATE", a.issue(dave, nil).Leaf.Raw), "not that of an authority"},
		{"a key that may not sign certificates", newIssuer(t, "d", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }).pem(), "may not sign"},
		{"another trust domain in it", newIssuer(t, "e", uris("spiffe://other.example/ca")).pem(), "other.example"},
		{"a short RSA key", encodePEM("CERTIFICATE", certify(t, weakTemplate, weakTemplate, weak.Public(), weak).Raw), "1024 bits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseAuthority("example.com", tt.bundle)
			if (err == nil) != (tt.wants == "") || err != nil && !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("error %v, want %q in it", err, tt.wants)
			}
		})
	}
}

func TestDomainsAreThoseOfNames(t *testing.T) {
	for _, s := range []string{"", "Example.com", "example.com.", "example.com:443", "example.com/x", "spiffe://example.com", "..", "a..b", "../x"} {
		if d, err := ParseDomain(s); err == nil {
			t.Errorf("ParseDomain(%q) = %q", s, d)
		}
	}
	d, err := ParseDomain("example.com")
	if err != nil || d != DomainOf(alice) || d != DomainOf(mallory) || d == DomainOf(bob) {
		t.Errorf("ParseDomain = %q, %v", d, err)
	}
}

func TestOneAuthorityIsForOneDomain(t *testing.T) {
	c := newClock()
	s := trusting(t, c)
	a, b, next := newIssuer(t, "a", nil), newIssuer(t, "b", nil), newIssuer(t, "next", nil)
	addAuthority(t, s, "example.com", a)
	addAuthority(t, s, "other.example", b)
	before := snapshot(t, s.dir)
	if _, err := s.AddAuthority("other.example", append(b.pem(), a.pem()...), begin); !errors.Is(err, ErrConflict) {
		t.Errorf("another domain's anchor: %v, want %v", err, ErrConflict)
	}
	if _, err := s.AddAuthority("example.com", a.pem(), begin.Add(366*24*time.Hour)); !errors.Is(err, ErrValidity) {
		t.Errorf("an anchor that has ended: %v, want %v", err, ErrValidity)
	}
	if err := s.RemoveAuthority("third.example"); !errors.Is(err, ErrUnknownAuthority) {
		t.Errorf("one that is not there: %v, want %v", err, ErrUnknownAuthority)
	}
	if after := snapshot(t, s.dir); len(after) != len(before) || after[authorityFile("other.example")] != before[authorityFile("other.example")] {
		t.Error("a refusal changed the folder")
	}
	// The next anchor comes beside the old one, and then stays alone.
	addAuthority(t, s, "example.com", a, next)
	addAuthority(t, s, "example.com", next)
	again := openTrust(t, s.dir, TrustOptions{Now: c.now})
	all := again.Authorities()
	if len(all) != 2 || all[0].Domain != "example.com" || len(all[0].Anchors) != 1 || !all[0].Anchors[0].Equal(next.cert) {
		t.Errorf("read back: %v", all)
	}
	addAuthority(t, s, "third.example", a) // nobody has it any more
}

func TestABadBundleKeepsTheOldOne(t *testing.T) {
	c := newClock()
	var reports []error
	s := openTrust(t, t.TempDir(), TrustOptions{Now: c.now, Report: func(err error) { reports = append(reports, err) }})
	a, b := newIssuer(t, "a", nil), newIssuer(t, "b", nil)
	addAuthority(t, s, "example.com", a)
	addAuthority(t, s, "other.example", b)
	for name, bad := range map[string][]byte{"torn": a.pem()[:40], "empty": nil, "another domain's": b.pem()} {
		reports = nil
		if err := writeFile(filepath.Join(s.dir, authorityFile("example.com")), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		c.advance(lookEvery)
		kept, ok := s.LookupAuthority("example.com")
		if !ok || !kept.Anchors[0].Equal(a.cert) {
			t.Errorf("%s: the old bundle is lost", name)
		}
		if st := s.Status(); len(reports) != 1 || st.Problem == "" || st.Authorities != 2 {
			t.Errorf("%s: reports %v, status %+v", name, reports, st)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "Example.com"+authoritySuffix), a.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	c.advance(lookEvery)
	if s.Err() == nil || len(s.Authorities()) != 2 {
		t.Errorf("a name that is no domain: %v", s.Err())
	}
	if _, err := OpenTrust(s.dir, TrustOptions{Now: c.now}); err == nil {
		t.Error("a folder with a bad bundle opens")
	}
}

// FuzzParseAuthority checks that what is accepted is written as one form, which
// is read as the same.
func FuzzParseAuthority(f *testing.F) {
	a := newIssuer(f, "a", nil)
	f.Add(a.pem())
	f.Add(append([]byte("words\n"), append(a.pem(), newIssuer(f, "b", nil).pem()...)...))
	f.Add(a.pem()[:90])
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := parseAuthority("example.com", raw)
		if err != nil {
			return
		}
		again, err := parseAuthority("example.com", got.encode())
		if err != nil || !again.same(got) || !bytes.Equal(again.encode(), got.encode()) {
			t.Errorf("written and read: %v", err)
		}
	})
}
