package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	// CardSigner signs the next card: the card key, or the envelope key of an
	// indexer that has no card key.
	CardSigner *envelope.Signer
	// LogKey signs checkpoint notes. Nil for a publisher.
	LogKey ed25519.PrivateKey

	folder string             // keys/
	tlsKey ed25519.PrivateKey // nil if the card lists no TLS key
	epochs map[envelope.Use]uint64

	// certificateMu guards what follows, and the files that it comes from.
	certificateMu sync.Mutex
	certificate   *tls.Certificate // nil before UseFiles, if the card lists no TLS key
	next          *nextTLS         // takes the place of tlsKey and certificate; nil: none waits
	files         *CertificateFiles
	problem       error     // why the last Renew did not do all that it should
	retry         time.Time // no certificate is made before
}

// maxKeyFile bounds a key or certificate file, in octets.
const maxKeyFile = 64 << 10

// Load reads the identity that Create made in dir. It returns ErrNoIdentity if
// there is none, ErrPermission if a private key is open to other users, and
// ErrMismatch if a key or the certificate is not of the card. A certificate
// that has expired still loads, so that Renew can replace it. An identity whose
// card lists no TLS key has none to show before UseFiles. A change of keys that
// was cut short is finished first, and a TLS key whose turn has come takes it.
func Load(dir string, now time.Time) (_ *Local, err error) {
	unlock, err := lockIdentity(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return load(dir, now, nil)
}

// load is Load for one who has the identity's lock. It does without the keys of
// some uses, whose files may be gone.
func load(dir string, now time.Time, without []envelope.Use) (*Local, error) {
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
	if err := l.loadKeys(without); err != nil {
		return nil, err
	}
	if l.tlsKey != nil {
		if err := l.finishNext(); err != nil {
			return nil, err
		}
		if l.certificate, err = l.readCertificate(); err != nil {
			return nil, err
		}
		if err := l.loadNext(); err != nil {
			return nil, err
		}
	}
	_, err = l.takeNext(now)
	return l, err
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

func (l *Local) loadKeys(without []envelope.Use) (err error) {
	keys := make(map[envelope.Use]ed25519.PrivateKey)
	signers := make(map[envelope.Use]*envelope.Signer)
	l.epochs = make(map[envelope.Use]uint64)
	for _, use := range l.Card.uses() {
		if slices.Contains(without, use) {
			continue
		}
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
		if signers[use], err = envelope.NewSigner(key); err != nil {
			return err
		}
	}
	l.Envelope, l.CardSigner = signers[envelope.UseEnvelope], signers[l.Card.signingUse()]
	l.LogKey, l.tlsKey = keys[envelope.UseLog], keys[envelope.UseTLS]
	return nil
}

// uses lists the uses of which the identity has a private key.
func (c *Card) uses() []envelope.Use {
	all := needs(c.Role)
	if !c.listsTLS() {
		all = slices.DeleteFunc(all, func(use envelope.Use) bool { return use == envelope.UseTLS })
	}
	if c.has(envelope.UseCard) && !slices.Contains(all, envelope.UseCard) {
		all = append(all, envelope.UseCard)
	}
	return all
}

// signingUse is the use of the key by which the card's successor is signed.
func (c *Card) signingUse() envelope.Use {
	if c.has(envelope.UseCard) {
		return envelope.UseCard
	}
	return envelope.UseEnvelope
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
