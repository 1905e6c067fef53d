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

// The folders of a rotation, below that of the identity.
const (
	rotationFolder = "rotation" // what is to take the place of card and log key
	cardsFolder    = "cards"    // cards that were replaced, named by their object_id
)

// A Rotation is the card and the log key with which an indexer goes on in
// another log. It lies in a folder of its own until Install, so that whoever
// finds it there after a crash can finish what was begun: the card is chosen
// once, and no key is drawn twice.
type Rotation struct {
	Card   *Card
	LogKey ed25519.PrivateKey

	dir string // of the identity
}

// RotationOptions says in what log an indexer goes on.
type RotationOptions struct {
	Origin string // of the new log; never used before
	// URL is where the log with that verifier key will be served, without
	// trailing slash.
	URL  func(vkey string) string
	Now  time.Time
	Rand io.Reader // nil: crypto/rand
}

// BeginRotation draws a log key and signs the card that names the new log. The
// card keeps every other key and says which card it replaces. Both are durable
// when it returns; nothing uses them before Install. It returns ErrExists if a
// rotation was begun before.
func (l *Local) BeginRotation(dir string, o RotationOptions) (*Rotation, error) {
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(o.Rand, seed); err != nil {
		return nil, fmt.Errorf("log key: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	card, err := l.nextCard(key, o)
	if err != nil {
		return nil, fmt.Errorf("card of %s for log %.80q: %w", l.Name(), o.Origin, err)
	}
	if err := mustBeAbsent(filepath.Join(dir, rotationFolder)); err != nil {
		return nil, err
	}
	if err := writeRotation(dir, key, card.Raw); err != nil {
		return nil, err
	}
	return PendingRotation(dir)
}

// nextCard signs the card that names another log.
func (l *Local) nextCard(key ed25519.PrivateKey, o RotationOptions) (*envelope.Object, error) {
	old := l.Card
	if old.Role != Indexer {
		return nil, errors.New("only an indexer has a log")
	}
	if o.Origin == old.Log.Origin {
		return nil, errors.New("a log keeps its key for life; a new key needs a new origin")
	}
	public, err := envelope.NewPublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	vkey, err := note.NewEd25519VerifierKey(o.Origin, public.Bytes())
	if err != nil {
		return nil, err
	}
	card := &Card{
		Endpoint: old.Endpoint, Identity: old.Identity, Origins: old.Origins, Previous: old.Object.ID, Role: old.Role,
		Log: &Log{Origin: o.Origin, URL: o.URL(vkey), VKey: vkey},
	}
	for _, k := range old.Keys {
		if k.Use == envelope.UseLog {
			k.PublicKey, k.Epochs = public, Epochs{First: old.Object.Epoch}
			k.Validity = Validity{NotBefore: envelope.At(o.Now)}
		}
		card.Keys = append(card.Keys, k)
	}
	if err := card.Validate(); err != nil {
		return nil, err
	}
	return envelope.Sign(envelope.Header{
		Type: envelope.IdentityCard, Authority: old.Object.Authority, Subject: old.Identity,
		Epoch: old.Object.Epoch, Sequence: old.Object.Sequence + 1, IssuedAt: o.Now,
		NotBefore: old.Object.NotBefore, ExpiresAt: old.Object.ExpiresAt,
	}, card, l.CardSigner)
}

// writeRotation makes the folder whole under another name and renames it.
func writeRotation(dir string, key ed25519.PrivateKey, card []byte) (err error) {
	temp, err := os.MkdirTemp(dir, tempPrefix+"*") // mode 0700
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(temp, keyFile(envelope.UseLog)), encodePEM("PRIVATE KEY", der), 0o600); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(temp, cardFile), card, 0o644); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, rotationFolder)); err != nil {
		return err
	}
	return syncDir(dir)
}

// PendingRotation is the rotation that was begun in dir and not finished, nil
// if there is none.
func PendingRotation(dir string) (*Rotation, error) {
	folder := filepath.Join(dir, rotationFolder)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &Rotation{dir: dir}
	var err error
	// Install moves the key first, then the card: what is no more in the folder
	// is in its place.
	if r.LogKey, err = readKey(filepath.Join(folder, keyFile(envelope.UseLog))); errors.Is(err, fs.ErrNotExist) {
		r.LogKey, err = readKey(filepath.Join(dir, keyFolder, keyFile(envelope.UseLog)))
	}
	if err != nil {
		return nil, err
	}
	raw, err := readFile(filepath.Join(folder, cardFile), envelope.MaxSize, 0)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = readFile(filepath.Join(dir, cardFile), envelope.MaxSize, 0)
	}
	if err != nil {
		return nil, err
	}
	if r.Card, err = AuthenticateCard(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	if _, ok := r.Card.own(envelope.UseLog, r.LogKey); !ok {
		return nil, fmt.Errorf("%s: %w as its log key", folder, ErrMismatch)
	}
	return r, nil
}

// Abandon removes a rotation of which nothing has been used.
func (r *Rotation) Abandon() error {
	return errors.Join(os.RemoveAll(filepath.Join(r.dir, rotationFolder)), syncDir(r.dir))
}

// Install puts the new card and key in their places: first the old card is
// kept in cards/, then the old log key is written over, so that nobody signs
// with it again, then the card changes. After a crash it can be called again.
func (r *Rotation) Install() error {
	folder := filepath.Join(r.dir, rotationFolder)
	if err := keepCard(r.dir, r.Card.Object.Raw); err != nil {
		return err
	}
	for _, move := range [][2]string{
		{keyFile(envelope.UseLog), filepath.Join(keyFolder, keyFile(envelope.UseLog))},
		{cardFile, cardFile},
	} {
		err := os.Rename(filepath.Join(folder, move[0]), filepath.Join(r.dir, move[1]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := errors.Join(syncDir(filepath.Dir(filepath.Join(r.dir, move[1]))), syncDir(folder)); err != nil {
			return err
		}
	}
	if err := os.Remove(folder); err != nil {
		return err
	}
	return syncDir(r.dir)
}

// maxOwn is how many of its own cards an identity looks back upon.
const maxOwn = 64

func pastCardFile(dir string, id envelope.Hash) string {
	digits := strings.TrimPrefix(id.String(), "sha256:")
	return filepath.Join(dir, cardsFolder, digits+".json")
}

// PastCards are the cards that this identity has replaced, the newest first:
// each is the one that the card after it names as its previous. Old receipts
// and evidence are verified by them.
func (l *Local) PastCards() ([]*Card, error) {
	var past []*Card
	for at := l.Card; !at.Previous.IsZero() && len(past) < maxOwn; {
		raw, err := readFile(pastCardFile(filepath.Dir(l.folder), at.Previous), envelope.MaxSize, 0)
		if err != nil {
			return nil, fmt.Errorf("card %s: %w", at.Previous, err)
		}
		c, err := AuthenticateCard(raw)
		if err != nil {
			return nil, fmt.Errorf("card %s: %w", at.Previous, err)
		}
		if c.Object.ID != at.Previous || c.Identity != l.Name() {
			return nil, fmt.Errorf("card %s: its file holds another", at.Previous)
		}
		past, at = append(past, c), c
	}
	return past, nil
}
