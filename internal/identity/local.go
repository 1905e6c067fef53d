package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Local is an identity whose private keys are here. It is safe for use by
// several goroutines; only its certificate ever changes.
type Local struct {
	// Card is the identity's own card; Card.Object.Raw is what peers import.
	Card *Card
	// Envelope signs artefacts.
	Envelope *envelope.Signer
	// CardSigner signs the next card: the card key of a publisher, the
	// envelope key of an indexer.
	CardSigner *envelope.Signer
	// LogKey signs checkpoint notes. Nil for a publisher.
	LogKey ed25519.PrivateKey

	folder string // keys/
	tlsKey ed25519.PrivateKey
	epochs map[envelope.Use]uint64

	// certificateMu guards certificate and the file it comes from.
	certificateMu sync.Mutex
	certificate   *tls.Certificate
}

// maxKeyFile bounds a key or certificate file, in octets.
const maxKeyFile = 64 << 10

// Load reads the identity that Create made in dir. It returns ErrNoIdentity if
// there is none, ErrPermission if a private key is open to other users, and
// ErrMismatch if a key or the certificate is not of the card. A certificate
// that has expired still loads, so that Renew can replace it.
func Load(dir string, now time.Time) (*Local, error) {
	raw, err := readFile(filepath.Join(dir, cardFile), envelope.MaxSize, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; make one with init", dir, ErrNoIdentity)
	}
	if err != nil {
		return nil, err
	}
	card, err := ParseCard(raw, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, cardFile), err)
	}
	l := &Local{Card: card, folder: filepath.Join(dir, keyFolder)}
	if err := l.checkFolder(); err != nil {
		return nil, err
	}
	if err := l.loadKeys(); err != nil {
		return nil, err
	}
	if l.certificate, err = l.readCertificate(); err != nil {
		return nil, err
	}
	return l, nil
}

// checkFolder refuses a folder in which other users could exchange a key.
func (l *Local) checkFolder() error {
	info, err := os.Stat(l.folder)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s has mode %04o: %w; chmod it to 0700", l.folder, info.Mode().Perm(), ErrPermission)
	}
	return nil
}

func (l *Local) loadKeys() error {
	keys := make(map[envelope.Use]ed25519.PrivateKey)
	l.epochs = make(map[envelope.Use]uint64)
	for _, use := range needs(l.Card.Role) {
		path := filepath.Join(l.folder, keyFile(use))
		key, err := readKey(path)
		if err != nil {
			return err
		}
		listed, ok := l.Card.own(use, key)
		if !ok {
			return fmt.Errorf("%s: %w as its %s key", path, ErrMismatch, use)
		}
		keys[use], l.epochs[use] = key, listed.Epochs.First
	}
	var err error
	if l.Envelope, err = envelope.NewSigner(keys[envelope.UseEnvelope]); err != nil {
		return err
	}
	if l.CardSigner, err = envelope.NewSigner(keys[signingUse(l.Card.Role)]); err != nil {
		return err
	}
	l.LogKey, l.tlsKey = keys[envelope.UseLog], keys[envelope.UseTLS]
	return nil
}

func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := readFile(path, maxKeyFile, 0o077)
	if err != nil {
		return nil, err
	}
	der, err := decodePEM(text, "PRIVATE KEY")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		// The parser's words could quote the key.
		return nil, fmt.Errorf("%s: not a PKCS #8 key", path)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: a key of type %T, want Ed25519", path, parsed)
	}
	return key, nil
}

// own finds key among those that the card lists for use at its own epoch.
func (c *Card) own(use envelope.Use, key ed25519.PrivateKey) (Key, bool) {
	for _, k := range c.Keys {
		if k.Use == use && k.Epochs.include(c.Object.Epoch) && key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(k.PublicKey.Bytes())) {
			return k, true
		}
	}
	return Key{}, false
}

func (l *Local) readCertificate() (*tls.Certificate, error) {
	path := filepath.Join(l.folder, certificateFile)
	text, err := readFile(path, maxKeyFile, 0)
	if err != nil {
		return nil, err
	}
	c, err := decodeCertificate(text, l.Name(), l.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Name is the identity's SPIFFE ID.
func (l *Local) Name() envelope.Name { return l.Card.Identity }

// Role is the identity's role.
func (l *Local) Role() Role { return l.Card.Role }

// String names the identity, and keeps its keys out of logs.
func (l *Local) String() string { return string(l.Card.Identity) }

// Epoch is the envelope epoch of what the identity's current key for use
// signs: the first epoch of that key's record. It is 0 for a use that the
// role does not have.
func (l *Local) Epoch(use envelope.Use) uint64 { return l.epochs[use] }

// Certificate is the certificate to show now. It has the form that
// ServerConfig and ClientConfig ask for, so that a renewed one is shown at the
// next handshake.
func (l *Local) Certificate() *tls.Certificate {
	l.certificateMu.Lock()
	defer l.certificateMu.Unlock()
	return l.certificate
}

// Renew takes up a certificate that another process renewed, and writes a new
// one under the same key when less than a third of the lifetime is left. It
// reports whether the certificate changed. Peers need no new card. random may
// be nil: crypto/rand.
func (l *Local) Renew(now time.Time, random io.Reader) (bool, error) {
	if random == nil {
		random = rand.Reader
	}
	l.certificateMu.Lock()
	defer l.certificateMu.Unlock()
	changed := false
	disk, err := l.readCertificate()
	switch {
	case err == nil && disk.Leaf.NotAfter.After(l.certificate.Leaf.NotAfter):
		l.certificate, changed = disk, true
	case err != nil && !needsRenewal(l.certificate.Leaf, now):
		return false, err // the one in hand stays good
	}
	if !needsRenewal(l.certificate.Leaf, now) {
		return changed, nil
	}
	der, err := newCertificate(l.Name(), l.tlsKey, now, random)
	if err != nil {
		return changed, err
	}
	text := encodePEM("CERTIFICATE", der)
	fresh, err := decodeCertificate(text, l.Name(), l.tlsKey)
	if err != nil {
		return changed, err
	}
	if err := writeFile(filepath.Join(l.folder, certificateFile), text, 0o644); err != nil {
		return changed, fmt.Errorf("renew the certificate of %s: %w", l.Name(), err)
	}
	l.certificate = fresh
	return true, nil
}
