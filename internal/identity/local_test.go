package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

func TestCreatedIdentityLoads(t *testing.T) {
	for _, o := range []Options{publisherOptions(alice), indexerOptions(bob)} {
		dir := filepath.Join(t.TempDir(), "new", "folder")
		made, err := Create(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Load(dir, begin.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if l.Name() != o.Identity || l.Role() != o.Role || !bytes.Equal(l.Card.Object.Raw, made.Card.Object.Raw) {
			t.Errorf("loads as %s, %s", l.Name(), l.Role())
		}
		if (l.LogKey != nil) != (o.Role == Indexer) || (l.CardSigner.Public() == l.Envelope.Public()) != (o.Role == Indexer) {
			t.Errorf("%s: log key or card key of the other role", l.Name())
		}
		for _, use := range []envelope.Use{envelope.UseEnvelope, envelope.UseTLS, envelope.UseLog, envelope.UseCard} {
			want := uint64(0)
			if l.Card.has(use) {
				want = 1
			}
			if got := l.Epoch(use); got != want {
				t.Errorf("%s: epoch of %s = %d, want %d", l.Name(), use, got, want)
			}
		}
		if text := fmt.Sprintf("%v %+v %s", l, l, l); strings.Count(text, string(l.Name())) != 3 || strings.Contains(text, "[") {
			t.Errorf("prints as %q", text)
		}
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create(dir, indexerOptions(bob)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		"keys": 0o700 | fs.ModeDir, "keys/envelope.key": 0o600, "keys/log.key": 0o600, "keys/tls.key": 0o600,
		"keys/tls.crt": 0o644, "identity.json": 0o644,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	left := 0
	if err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, _ error) error { left++; return nil }); err != nil || left != 7 {
		t.Errorf("%d names below the folder, %v, want 7 with the folder itself", left, err)
	}
}

func TestCertificateHasOneNameAndNoOther(t *testing.T) {
	leaf := create(t, publisherOptions(alice)).Certificate().Leaf
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != alice || len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 {
		t.Errorf("names %v %v %v %v", leaf.URIs, leaf.DNSNames, leaf.IPAddresses, leaf.EmailAddresses)
	}
	if s := leaf.Subject.String(); s != "" {
		t.Errorf("subject %q", s)
	}
	if d := leaf.NotAfter.Sub(leaf.NotBefore); d > 397*24*time.Hour || !leaf.NotBefore.Equal(begin) {
		t.Errorf("valid for %v from %v", d, leaf.NotBefore)
	}
	if leaf.IsCA || leaf.PublicKeyAlgorithm != x509.Ed25519 || leaf.SerialNumber.BitLen() != 127 {
		t.Errorf("authority %v, %v, serial of %d bits", leaf.IsCA, leaf.PublicKeyAlgorithm, leaf.SerialNumber.BitLen())
	}
}

func TestCreateNeverWritesOverAnIdentity(t *testing.T) {
	dir := t.TempDir()
	made, err := Create(dir, publisherOptions(alice))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, publisherOptions(mallory)); !errors.Is(err, ErrExists) {
		t.Errorf("Create = %v, want %v", err, ErrExists)
	}
	if err := os.Remove(filepath.Join(dir, cardFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, publisherOptions(mallory)); !errors.Is(err, ErrExists) {
		t.Errorf("Create over keys without a card = %v, want %v", err, ErrExists)
	}
	if err := os.WriteFile(filepath.Join(dir, cardFile), made.Card.Object.Raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, begin); err != nil {
		t.Errorf("the first identity was harmed: %v", err)
	}
}

func TestOneOfManyCreatorsWins(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = Create(dir, publisherOptions(alice)) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, ErrExists):
			t.Errorf("Create = %v", err)
		}
	}
	if _, err := Load(dir, begin); won != 1 || err != nil {
		t.Errorf("%d creators won; Load = %v", won, err)
	}
}

func TestCreateRefusesWhatNoCardMaySay(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"a URN":                     func(o *Options) { o.Identity = "urn:a:b" },
		"no role":                   func(o *Options) { o.Role = "" },
		"no endpoint":               func(o *Options) { o.Endpoint = "" },
		"no log URL":                func(o *Options) { o.LogURL = "" },
		"a log origin with a plus":  func(o *Options) { o.LogOrigin = "a+b" },
		"a log origin with a space": func(o *Options) { o.LogOrigin = "a b" },
		"a publisher with a log":    func(o *Options) { o.Role, o.Endpoint = Publisher, "" },
		"an origin with a path":     func(o *Options) { o.Origins = []Origin{"https://example.com/a"} },
	} {
		o := indexerOptions(bob)
		change(&o)
		dir := t.TempDir()
		if _, err := Create(dir, o); err == nil {
			t.Errorf("%s: created", name)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %d files left behind", name, len(left))
		}
	}
}

func TestKeysReadableByOthersAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string
		mode fs.FileMode
		want error
	}{
		{"a key that the group may read", "keys/envelope.key", 0o640, ErrPermission},
		{"a key that others may read", "keys/tls.key", 0o604, ErrPermission},
		{"a key that the group may write", "keys/card.key", 0o620, ErrPermission},
		{"a folder that others may write", "keys", 0o702, ErrPermission},
		{"a folder that others may list", "keys", 0o755, nil},
		{"a key that its owner may only read", "keys/tls.key", 0o400, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Create(dir, publisherOptions(alice)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, tt.file), tt.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir, begin); !errors.Is(err, tt.want) {
				t.Errorf("Load = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestLoadRefusesWhatDoesNotBelongTogether(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for d, name := range map[string]envelope.Name{dir: alice, other: mallory} {
		if _, err := Create(d, publisherOptions(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name     string
		from, to string
		want     error
	}{
		{"a key of another identity", other + "/keys/envelope.key", "keys/envelope.key", ErrMismatch},
		{"a key of another use", dir + "/keys/card.key", "keys/envelope.key", ErrMismatch},
		{"a certificate of another identity", other + "/keys/tls.crt", "keys/tls.crt", ErrMismatch},
		{"a card of another identity", other + "/identity.json", "identity.json", ErrMismatch},
		{"a certificate for a key", dir + "/keys/tls.crt", "keys/tls.key", nil},
		{"a key for a certificate", dir + "/keys/tls.key", "keys/tls.crt", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, tt.to)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(tt.from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir, begin); err == nil || (tt.want != nil && !errors.Is(err, tt.want)) {
				t.Errorf("Load = %v, want %v", err, tt.want)
			}
			if err := os.WriteFile(path, before, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	if _, err := Load(dir, begin); err != nil {
		t.Errorf("restored: %v", err)
	}
	if _, err := Load(t.TempDir(), begin); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("an empty folder: %v, want %v", err, ErrNoIdentity)
	}
}

func TestLoadRefusesMalformedKeys(t *testing.T) {
	l := create(t, publisherOptions(alice))
	path := filepath.Join(l.folder, "envelope.key")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"two blocks":     append(bytes.Clone(good), good...),
		"text before it": append([]byte("# my key\n"), good...),
		"truncated":      good[:len(good)-10],
		"empty":          nil,
		"not PKCS #8":    encodePEM("PRIVATE KEY", []byte("0123")),
		"too long":       bytes.Repeat([]byte{' '}, maxKeyFile+1),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readKey(path); err == nil {
			t.Errorf("%s: read as a key", name)
		}
	}
}

func TestRenewalKeepsTheKey(t *testing.T) {
	dir := t.TempDir()
	l, err := Create(dir, publisherOptions(alice))
	if err != nil {
		t.Fatal(err)
	}
	first := l.Certificate().Leaf
	third := lifetime / 3
	for _, tt := range []struct {
		name string
		at   time.Time
		want bool
	}{
		{"fresh", begin, false},
		{"a third left", first.NotAfter.Add(-third), false},
		{"a second less than a third", first.NotAfter.Add(-third + time.Second), true},
		{"renewed already", first.NotAfter.Add(-third + time.Minute), false},
		{"long expired", first.NotAfter.Add(3 * lifetime), true},
		{"before its beginning", begin.Add(time.Hour), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changed, err := l.Renew(tt.at, nil)
			if err != nil || changed != tt.want {
				t.Fatalf("Renew = %v, %v, want %v", changed, err, tt.want)
			}
			leaf := l.Certificate().Leaf
			if !leaf.PublicKey.(ed25519.PublicKey).Equal(first.PublicKey) {
				t.Error("another key")
			}
			if changed && (!leaf.NotBefore.Equal(tt.at) || leaf.SerialNumber.Cmp(first.SerialNumber) == 0) {
				t.Errorf("valid from %v, serial %v", leaf.NotBefore, leaf.SerialNumber)
			}
			again, err := Load(dir, begin)
			if err != nil || !again.Certificate().Leaf.Equal(leaf) {
				t.Errorf("the file holds another certificate: %v", err)
			}
		})
	}
}

func TestRenewTakesUpWhatAnotherProcessRenewed(t *testing.T) {
	dir := t.TempDir()
	l, err := Create(dir, publisherOptions(alice))
	if err != nil {
		t.Fatal(err)
	}
	other, err := Load(dir, begin)
	if err != nil {
		t.Fatal(err)
	}
	later := begin.Add(lifetime * 9 / 10)
	if _, err := other.Renew(later, nil); err != nil {
		t.Fatal(err)
	}
	changed, err := l.Renew(later, nil)
	if err != nil || !changed || !l.Certificate().Leaf.Equal(other.Certificate().Leaf) {
		t.Errorf("Renew = %v, %v", changed, err)
	}
	path := filepath.Join(dir, keyFolder, certificateFile)
	if err := os.WriteFile(path, []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	if changed, err := l.Renew(later, nil); err == nil || changed {
		t.Errorf("a bad file: Renew = %v, %v", changed, err)
	}
	if changed, err := l.Renew(later.Add(lifetime*9/10), nil); err != nil || !changed {
		t.Errorf("a bad file when renewal is due: Renew = %v, %v", changed, err)
	}
}
