package publisher

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/walk"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A helper is asked as git asks one; what it says is sent, and told by nothing.
func TestACredentialHelperIsAskedAsGitAsksIt(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "helper")
	for _, tt := range []struct {
		name, says string
		want       string
		refusal    string
	}{
		{"a user and a password", `echo username=u; echo password=s3cret=x; echo path=ignored`, "Basic u:s3cret=x", ""},
		{"nothing", `:`, "", "names no user and password"},
		{"a user alone", `echo username=u`, "", "names no user and password"},
		{"a user that cannot be sent", `echo username=a:b; echo password=s3cret`, "", "cannot be sent"},
		{"a failure", `echo s3cret >&2; exit 3`, "", "exit status 3"},
		{"more than is read", `echo username=u; echo password=s3cret; head -c 100000 /dev/zero`, "", "names no user and password"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "cat > " + dir + "/asked; echo \"$1 $2 $GIT_TERMINAL_PROMPT\" >> " + dir + "/asked\n" + tt.says + "\n"
			if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := Source{Name: "b", Kind: "rbt", Location: "https://git.docs.test:8443/x.git", Remote: Remote{CredentialHelper: "/bin/sh " + script + " --file=x"}}
			got, err := s.secret(dir)
			if got != tt.want || (err != nil) != (tt.refusal != "") || err != nil && !strings.Contains(err.Error(), tt.refusal) {
				t.Errorf("secret = %q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("what the helper says is told: %v", err)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if want := "protocol=https\nhost=git.docs.test:8443\n\n--file=x get 0\n"; err != nil || string(asked) != want {
				t.Errorf("it was asked %q, %v; want %q", asked, err, want)
			}
		})
	}
	for _, helper := range []string{"git-credential-store", "sh -c true", " "} {
		s := Source{Name: "b", Kind: "rbt", Location: "https://git.docs.test/x.git", Remote: Remote{CredentialHelper: helper}}
		if _, err := s.secret(dir); err == nil {
			t.Errorf("helper %q is run", helper)
		}
	}
}

// writeCertificate writes a certificate for clients and its key.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"client.pem": {Type: "CERTIFICATE", Bytes: der}, "client.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASourceShowsItsCertificate(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(r.TLS.PeerCertificates[0].SerialNumber.String()))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	s := Source{Name: "b", Kind: "rbt", Location: server.URL + "/docs/", Remote: Remote{ClientCertFile: "client.pem", ClientKeyFile: "client.key"}}
	if err := s.Check(dir); err != nil {
		t.Fatal(err)
	}
	c, err := s.clientConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	c.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	client, err := fetch.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r, err := client.Get(t.Context(), s.Location, fetch.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if serial, err := r.Body.ReadAll(100); err != nil || string(serial) != "7" {
		t.Errorf("the server is shown %q, %v", serial, err)
	}
	if err := os.Chmod(filepath.Join(dir, "client.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(dir); !errors.Is(err, identity.ErrPermission) {
		t.Errorf("a key that others may read: %v", err)
	}
	for name, change := range map[string]func(*Source){
		"a certificate without a key": func(s *Source) { s.ClientKeyFile = "" },
		"a certificate by http":       func(s *Source) { s.Location = "http://127.0.0.1/" },
		"one for a repository by ssh": func(s *Source) { s.Location = "git@docs.test:x.git" },
		"a certificate that is none":  func(s *Source) { s.ClientCertFile = "client.key" },
		"a file and a helper":         func(s *Source) { s.CredentialsFile, s.CredentialHelper = "x", "/bin/true" },
		"a preference that is none":   func(s *Source) { s.Prefer = "ssh" },
		"a sample of a burrow":        func(s *Source) { s.Sample = 3 },
		"hosts of a folder": func(s *Source) {
			*s = Source{Name: "b", Kind: "rbt", Location: dir, Git: Git{OnlyHosts: []string{"x"}}}
		},
		"a passphrase without a key": func(s *Source) {
			*s = Source{Name: "b", Kind: "rbt", Location: "git@docs.test:x.git", Git: Git{SSHPassphraseFile: "x"}}
		},
		"hosts of another kind":        func(s *Source) { s.Kind, s.OnlyHosts = "tct", []string{"x"} },
		"a sample of more than may be": func(s *Source) { s.Kind, s.Sample = "arc", maxSample+1 },
	} {
		t.Run(name, func(t *testing.T) {
			other := s
			change(&other)
			if err := other.Check(dir); err == nil || errors.Is(err, identity.ErrPermission) && name != "a certificate that is none" {
				t.Errorf("Check = %v", err)
			}
		})
	}
}

func TestAKeyAndItsPassphraseAreBelowThePublishersFolder(t *testing.T) {
	s := Source{Name: "b", Kind: "rbt", Location: "git@docs.test:x.git", Git: Git{SSHKeyFile: "key", SSHPassphraseFile: "open", KnownHostsFile: "/etc/known"}}
	if err := s.Check(t.TempDir()); err != nil {
		t.Error(err)
	}
	ssh := s.gitConfig("/pub", fetch.Config{}).SSH
	if ssh.KeyFile != "/pub/key" || ssh.PassphraseFile != "/pub/open" || ssh.KnownHosts != "/etc/known" {
		t.Errorf("%+v", ssh)
	}
}

// What an operator says of roots and hosts reaches the walk.
func TestRootsAreChosenAsTheOperatorSays(t *testing.T) {
	s := Source{Name: "b", Kind: "rbt", Location: "https://docs.test/burrow/", Remote: Remote{Rate: 100}}
	for _, tt := range []struct {
		name string
		git  Git
	}{
		{"the location's host is not to be asked", Git{NoHosts: []string{"docs.test"}}},
		{"only another host is to be asked", Git{OnlyHosts: []string{"other.test"}}},
	} {
		s.Git = tt.git
		_, err := s.Scan(t.Context(), t.TempDir(), func(ScanLine) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "not one that may be asked") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for said, want := range map[string]walk.Preference{"": walk.GitFirst, "git": walk.GitFirst, "https": walk.HTTPSFirst, "listed": walk.AsListed} {
		s.Git = Git{Prefer: said}
		if err := s.Check(t.TempDir()); err != nil || s.walk(walk.Start{}).Prefer != want {
			t.Errorf("%q gives order %d, %v", said, s.walk(walk.Start{}).Prefer, err)
		}
	}
}
