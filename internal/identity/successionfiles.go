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
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// The files of a succession.
const (
	successionFolder    = "succession" // what is to take the place of keys and card
	nextKeyFile         = "tls-next.key"
	nextCertificateFile = "tls-next.crt"
)

// A nextTLS is the TLS key that waits for its turn.
type nextTLS struct {
	key         ed25519.PrivateKey
	certificate *tls.Certificate
	from        time.Time
}

// lockIdentity waits until no other process reads or changes the identity in
// dir, and finishes what was begun there.
func lockIdentity(dir string) (unlock func() error, err error) {
	unlock, err = lockDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; make one with init", dir, ErrNoIdentity)
	}
	if err != nil {
		return nil, err
	}
	if err := installSuccession(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("finish the change of keys in %s: %w", dir, err), unlock())
	}
	return unlock, nil
}

// write makes the folder whole under another name and renames it.
func (s *succession) write(dir string) (err error) {
	temp, err := os.MkdirTemp(dir, tempPrefix+"*") // mode 0700
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	for name, key := range s.keys {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(temp, name), encodePEM("PRIVATE KEY", der), 0o600); err != nil {
			return err
		}
	}
	if s.certificate != nil {
		if err := writeFile(filepath.Join(temp, s.certificateFile), s.certificate, 0o644); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(temp, cardFile), s.card.Raw, 0o644); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, successionFolder)); err != nil {
		return err
	}
	return syncDir(dir)
}

// installSuccession puts what lies in the folder in its place, the card last;
// without a folder it does nothing. After a crash it goes on where it stopped.
func installSuccession(dir string) error {
	folder := filepath.Join(dir, successionFolder)
	moves, err := successionMoves(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	raw, err := readFile(filepath.Join(folder, cardFile), envelope.MaxSize, 0)
	if err == nil {
		err = keepCard(dir, raw)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without a card all is moved
		return err
	}
	for _, m := range moves {
		if err := m.do(); err != nil {
			return err
		}
	}
	if err := os.Remove(folder); err != nil {
		return err
	}
	return syncDir(dir)
}

// A move renames a file; without to it removes it.
type move struct{ from, to string }

func (m move) do() error {
	if m.to == "" {
		if err := os.Remove(m.from); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncDir(filepath.Dir(m.from))
	}
	if err := os.Rename(m.from, m.to); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(m.to)), syncDir(filepath.Dir(m.from)))
}

// successionMoves lists the steps that are left, in their order. A TLS key that
// takes its place at once is followed by no other that waited for its turn.
func successionMoves(dir string) ([]move, error) {
	folder := filepath.Join(dir, successionFolder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	var moves []move
	in := func(name string) string { return filepath.Join(dir, keyFolder, name) }
	if slices.Contains(names, certificateFile) {
		moves = append(moves, move{from: in(nextKeyFile)}, move{from: in(nextCertificateFile)})
	}
	// Keys, then the certificate, then the card.
	for _, name := range []string{
		keyFile(envelope.UseCard), keyFile(envelope.UseEnvelope), keyFile(envelope.UseTLS), nextKeyFile, certificateFile, nextCertificateFile,
	} {
		if slices.Contains(names, name) {
			moves = append(moves, move{filepath.Join(folder, name), in(name)})
		}
	}
	if slices.Contains(names, cardFile) {
		moves = append(moves, move{filepath.Join(folder, cardFile), filepath.Join(dir, cardFile)})
	}
	return moves, nil
}

// keepCard puts the card in force into cards/, unless it is next itself.
func keepCard(dir string, next []byte) error {
	raw, err := readFile(filepath.Join(dir, cardFile), envelope.MaxSize, 0)
	if err != nil {
		return err
	}
	card, err := AuthenticateCard(raw)
	if err != nil || string(raw) == string(next) {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, cardsFolder), 0o700); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return writeFile(pastCardFile(dir, card.Object.ID), raw, 0o644)
}

// takeNext lets the TLS key that waits for its turn take it at its time: key,
// then certificate. A change that was cut short between the two is finished.
func (l *Local) takeNext(now time.Time) (changed bool, err error) {
	key, certificate := filepath.Join(l.folder, nextKeyFile), filepath.Join(l.folder, nextCertificateFile)
	if l.next == nil || now.Before(l.next.from) {
		return false, nil
	}
	for _, m := range []move{{key, filepath.Join(l.folder, keyFile(envelope.UseTLS))}, {certificate, filepath.Join(l.folder, certificateFile)}} {
		if err := m.do(); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process did it
			return false, err
		}
	}
	l.tlsKey, l.certificate, l.next = l.next.key, l.next.certificate, nil
	return true, nil
}

// loadNext reads the TLS key that waits for its turn, if there is one that the
// card lists.
func (l *Local) loadNext() error {
	key, err := readKey(filepath.Join(l.folder, nextKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	listed, ok := l.Card.own(envelope.UseTLS, key)
	if !ok {
		return nil
	}
	text, err := readFile(filepath.Join(l.folder, nextCertificateFile), maxKeyFile, 0)
	if err != nil {
		return err
	}
	next := &nextTLS{key: key, from: listed.Validity.NotBefore.Time}
	if next.certificate, err = decodeCertificate(text, l.Name(), key); err != nil {
		return fmt.Errorf("%s: %w", nextCertificateFile, err)
	}
	l.next = next
	return nil
}

// finishNext puts the certificate of a key that has taken its turn beside it.
func (l *Local) finishNext() error {
	_, err := os.Lstat(filepath.Join(l.folder, nextKeyFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = move{filepath.Join(l.folder, nextCertificateFile), filepath.Join(l.folder, certificateFile)}.do()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
