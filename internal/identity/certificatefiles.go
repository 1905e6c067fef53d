package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// CertificateFiles are a certificate and its key in PEM form that somebody else
// issues and renews: an agent, or a volume of secrets. The certificate may be
// followed by those of the authorities between it and the anchor. Either may be
// a link, and what it leads to may be swapped at any time.
type CertificateFiles struct {
	Certificate, Key string
}

// UseFiles shows the certificate of these files from now on, and whatever Renew
// later finds in them. An error says why there is nothing to take up yet: what
// was shown before is shown until there is.
func (l *Local) UseFiles(files CertificateFiles, now time.Time) error {
	l.certificateMu.Lock()
	defer l.certificateMu.Unlock()
	l.files = &files
	_, l.problem = l.takeFiles(now)
	return l.problem
}

// Certificate is the certificate to show now, nil if there is none. It has the
// form that ServerConfig and ClientConfig ask for, so that a renewed one is
// shown at the next handshake.
func (l *Local) Certificate() *tls.Certificate {
	l.certificateMu.Lock()
	defer l.certificateMu.Unlock()
	return l.certificate
}

// Renew takes up a certificate that somebody else renewed, and, of an identity
// that issues its own, writes a new one under the same key when less than a
// third of the lifetime is left. It reports whether the certificate changed.
// What cannot be taken up leaves the one in hand in force. Peers need no new
// card. random may be nil: crypto/rand.
func (l *Local) Renew(now time.Time, random io.Reader) (bool, error) {
	l.certificateMu.Lock()
	defer l.certificateMu.Unlock()
	var changed bool
	var err error
	switch {
	case l.files != nil:
		changed, err = l.takeFiles(now)
	case l.tlsKey != nil:
		var turned bool
		if turned, err = l.takeNext(now); err == nil {
			changed, err = l.renewOwn(now, random)
		}
		changed = changed || turned
	default:
		err = fmt.Errorf("%s: %w: its card lists no TLS key; name the files of its certificate by tls_certificate and tls_key", l.Name(), ErrCertificate)
	}
	l.problem = err
	return changed, err
}

// takeFiles looks whether the files hold another certificate.
func (l *Local) takeFiles(now time.Time) (bool, error) {
	c, err := l.readFiles(*l.files, now)
	if err != nil {
		return false, err
	}
	changed := l.certificate == nil || !bytes.Equal(c.Certificate[0], l.certificate.Certificate[0])
	if changed {
		l.certificate = c
	}
	if needsRenewal(l.certificate.Leaf, now) {
		err = fmt.Errorf("%s ends at %s, and nobody has renewed it", l.files.Certificate, envelope.At(l.certificate.Leaf.NotAfter))
	}
	return changed, err
}

// retryEvery is how long Renew waits before it tries again to write.
const retryEvery = time.Minute

func (l *Local) renewOwn(now time.Time, random io.Reader) (changed bool, err error) {
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
	if now.Before(l.retry) && l.retry.Sub(now) <= retryEvery {
		return changed, l.problem
	}
	fresh, err := l.writeCertificate(now, random)
	if err != nil {
		l.retry = now.Add(retryEvery)
		return changed, fmt.Errorf("renew the certificate of %s: %w", l.Name(), err)
	}
	l.certificate = fresh
	return true, nil
}

func (l *Local) writeCertificate(now time.Time, random io.Reader) (*tls.Certificate, error) {
	if random == nil {
		random = rand.Reader
	}
	der, err := newCertificate(l.Name(), l.tlsKey, now, random)
	if err != nil {
		return nil, err
	}
	text := encodePEM("CERTIFICATE", der)
	fresh, err := decodeCertificate(text, l.Name(), l.tlsKey)
	if err != nil {
		return nil, err
	}
	return fresh, writeFile(filepath.Join(l.folder, certificateFile), text, 0o644)
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

// readFiles reads a certificate of somebody else's making and requires all that
// can be known without the peers' trust. The two files may be swapped between
// the one look and the other: then they are read again, three times in all.
func (l *Local) readFiles(files CertificateFiles, now time.Time) (c *tls.Certificate, err error) {
	for range 3 {
		if c, err = l.readPair(files, now); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// readPair reads both files once. The key may be readable by the group, as
// volumes of secrets are, and by nobody else.
func (l *Local) readPair(files CertificateFiles, now time.Time) (*tls.Certificate, error) {
	text, err := readFile(files.Certificate, maxKeyFile, 0)
	if err != nil {
		return nil, err
	}
	key, err := readFile(files.Key, maxKeyFile, 0o037)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(text, key)
	if err != nil {
		// The parser's words could quote the key.
		return nil, fmt.Errorf("%s and %s: %w: they are no certificate with its key", files.Certificate, files.Key, ErrCertificate)
	}
	if err := l.checkShown(&c, now); err != nil {
		return nil, fmt.Errorf("%s: %w", files.Certificate, err)
	}
	return &c, nil
}

// checkShown refuses a certificate that peers would refuse.
func (l *Local) checkShown(c *tls.Certificate, now time.Time) error {
	if len(c.Certificate) > maxChain {
		return fmt.Errorf("%w: %d certificates, at most %d", ErrCertificate, len(c.Certificate), maxChain)
	}
	name, err := checkLeaf(c.Leaf)
	if err != nil {
		return err
	}
	if name != l.Name() {
		return fmt.Errorf("certificate of %s: %w", name, ErrMismatch)
	}
	if err := checkUsage(c.Leaf, usageOf(l.Role())); err != nil {
		return err
	}
	if l.Card.listsTLS() {
		chain := make([]*x509.Certificate, len(c.Certificate)) // what counts is the first, and how many there are
		chain[0] = c.Leaf
		_, err := checkKey(chain, l.Card, now)
		return err
	}
	return checkTime(c.Leaf, now)
}

// A CertificateStatus says how long the certificate lasts, and what is wrong.
type CertificateStatus struct {
	NotAfter envelope.Time `json:"not_after,omitzero"`
	DaysLeft int           `json:"days_left"` // whole days, negative once it has ended
	// Source is "self" for one that the identity issues itself, or the path of
	// the file that somebody else renews.
	Source  string `json:"source"`
	Problem string `json:"problem"` // of its renewal; the certificate in hand is shown
}

// Status is how the certificate stands at now.
func (l *Local) Status(now time.Time) CertificateStatus {
	l.certificateMu.Lock()
	defer l.certificateMu.Unlock()
	s := CertificateStatus{Source: "self"}
	if l.files != nil {
		s.Source = l.files.Certificate
	}
	if l.certificate != nil {
		s.NotAfter = envelope.At(l.certificate.Leaf.NotAfter)
		s.DaysLeft = int(math.Floor(l.certificate.Leaf.NotAfter.Sub(now).Hours() / 24))
	}
	if l.problem != nil {
		s.Problem = l.problem.Error()
	}
	return s
}

// folders are those that tell when the certificate's files change: their own,
// and those that links lead to.
func (l *Local) folders() []string {
	l.certificateMu.Lock()
	defer l.certificateMu.Unlock()
	if l.files == nil {
		return []string{l.folder}
	}
	var all []string
	for _, path := range []string{l.files.Certificate, l.files.Key} {
		all = append(all, filepath.Dir(path))
		if real, err := filepath.EvalSymlinks(path); err == nil {
			all = append(all, filepath.Dir(real))
		}
	}
	return all
}
