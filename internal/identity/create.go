package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// The files of an identity, below its folder.
const (
	cardFile        = "identity.json"
	keyFolder       = "keys"
	certificateFile = "tls.crt"
)

// Options says what identity Create makes.
type Options struct {
	Identity envelope.Name // a SPIFFE ID, see ParseName
	Role     Role
	// Origins is what the card claims; may be empty.
	Origins []Origin
	// Endpoint is host:port as publishers reach it. Indexers only, required.
	Endpoint string
	// LogURL is where the log is served, without trailing slash. Indexers
	// only, required.
	LogURL string
	// LogOrigin names the log. Empty: the SPIFFE ID without its scheme,
	// such as "search.example/indexer/log-1".
	LogOrigin string
	// ExternalTLS draws no TLS key and lists none in the card: the authority of
	// the trust domain issues the certificates, see Local.UseFiles.
	ExternalTLS bool
	// Now is when the identity begins.
	Now time.Time
	// Rand is where keys come from. Nil: crypto/rand.
	Rand io.Reader
}

// Create makes an identity in dir: its private keys and certificate in keys/
// (0700, each key 0600), then its card in identity.json, each durable before
// the next step; the card, written last, makes the identity. If there is
// one already, or keys without a card, it returns ErrExists and changes
// nothing: keys are never written over.
func Create(dir string, o Options) (*Local, error) {
	random := o.Rand
	if random == nil {
		random = rand.Reader
	}
	keys, card, err := o.issue(random)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", o.Identity, err)
	}
	var certificate []byte
	if !o.ExternalTLS {
		der, err := newCertificate(o.Identity, keys[envelope.UseTLS], o.Now, random)
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", o.Identity, err)
		}
		certificate = encodePEM("CERTIFICATE", der)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{cardFile, keyFolder} {
		if err := mustBeAbsent(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	if err := writeKeys(dir, keys, certificate); err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(dir, cardFile), card.Raw, 0o644); err != nil {
		return nil, err
	}
	return Load(dir, o.Now)
}

// mustBeAbsent accepts a path with nothing there, or an empty folder.
func mustBeAbsent(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: %w; nothing was changed", path, ErrExists)
}

// issue makes the keys and signs the first card.
func (o *Options) issue(random io.Reader) (map[envelope.Use]ed25519.PrivateKey, *envelope.Object, error) {
	const first = 1 // epoch and sequence of a first card
	card := &Card{Identity: o.Identity, Role: o.Role, Origins: o.Origins, Endpoint: o.Endpoint}
	keys := make(map[envelope.Use]ed25519.PrivateKey)
	for _, use := range needs(o.Role) {
		if use == envelope.UseTLS && o.ExternalTLS {
			continue
		}
		seed := make([]byte, ed25519.SeedSize)
		if _, err := io.ReadFull(random, seed); err != nil {
			return nil, nil, fmt.Errorf("%s key: %w", use, err)
		}
		keys[use] = ed25519.NewKeyFromSeed(seed)
		public, err := envelope.NewPublicKey(keys[use].Public().(ed25519.PublicKey))
		if err != nil {
			return nil, nil, fmt.Errorf("%s key: %w", use, err)
		}
		card.Keys = append(card.Keys, Key{
			Alg: envelope.Ed25519, Epochs: Epochs{First: first}, PublicKey: public, Use: use,
			Validity: Validity{NotBefore: envelope.At(o.Now)},
		})
	}
	if o.Role == Indexer || o.LogURL != "" || o.LogOrigin != "" {
		log, err := o.log(keys[envelope.UseLog])
		if err != nil {
			return nil, nil, err
		}
		card.Log = log
	}
	if err := card.Validate(); err != nil {
		return nil, nil, err
	}
	signer, err := envelope.NewSigner(keys[signingUse(o.Role)])
	if err != nil {
		return nil, nil, err
	}
	h := envelope.Header{
		Type: envelope.IdentityCard, Authority: o.Identity.Authority(), Subject: o.Identity,
		Epoch: first, Sequence: first, IssuedAt: o.Now,
	}
	object, err := envelope.Sign(h, card, signer)
	return keys, object, err
}

// signingUse is the key with which a role signs its cards.
func signingUse(r Role) envelope.Use {
	if r == Indexer {
		return envelope.UseEnvelope
	}
	return envelope.UseCard
}

func (o *Options) log(key ed25519.PrivateKey) (*Log, error) {
	if o.Role != Indexer {
		return nil, errors.New("only an indexer has a log")
	}
	origin := o.LogOrigin
	if origin == "" {
		origin = strings.TrimPrefix(string(o.Identity), spiffeScheme)
	}
	vkey, err := note.NewEd25519VerifierKey(origin, key.Public().(ed25519.PublicKey))
	return &Log{Origin: origin, URL: o.LogURL, VKey: vkey}, err
}

// writeKeys makes keys/ whole under another name and renames it into place,
// so that two that create at once cannot mix their keys: the second rename
// finds a folder that is not empty.
func writeKeys(dir string, keys map[envelope.Use]ed25519.PrivateKey, certificate []byte) (err error) {
	temp, err := os.MkdirTemp(dir, tempPrefix+"*") // mode 0700
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	for use, key := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(temp, keyFile(use)), encodePEM("PRIVATE KEY", der), 0o600); err != nil {
			return err
		}
	}
	if certificate != nil {
		if err := writeFile(filepath.Join(temp, certificateFile), certificate, 0o644); err != nil {
			return err
		}
	}
	place := filepath.Join(dir, keyFolder)
	if err := os.Rename(temp, place); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s: %w", place, ErrExists)
		}
		return err
	}
	return syncDir(dir)
}

func keyFile(use envelope.Use) string { return string(use) + ".key" }
