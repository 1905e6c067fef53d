package gitroot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// An sshSession runs one git-upload-pack on a server. Its connection ends with
// the context that it was made under.
type sshSession struct {
	client *ssh.Client
	stop   func() bool // of the watch over the context

	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	stderr  *firstWords
}

func (c *Client) dialSSH(ctx context.Context, r rbt.Remote) (session, error) {
	address := sshAddress(r)
	config, err := c.ssh.client(address, cmp.Or(r.User, "git"))
	if err != nil {
		return nil, err
	}
	conn, err := c.web.Dial(ctx, address, c.allowed[Origin(r)])
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	connection, channels, requests, err := ssh.NewClientConn(&stallConn{conn, c.stall}, address, config)
	if err != nil {
		stop()
		conn.Close()
		return nil, sshError(ctx, err)
	}
	s := &sshSession{client: ssh.NewClient(connection, channels, requests), stop: stop, stderr: &firstWords{}}
	if err := s.start(r); err != nil {
		s.close()
		return nil, sshError(ctx, err)
	}
	return s, nil
}

func (s *sshSession) start(r rbt.Remote) (err error) {
	if s.session, err = s.client.NewSession(); err != nil {
		return err
	}
	if s.in, err = s.session.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = s.session.StdoutPipe(); err != nil {
		return err
	}
	s.session.Stderr = s.stderr
	// The server's shell reads this. Within single quotes, only they have a meaning.
	return s.session.Start(service + " '" + strings.ReplaceAll(sshPath(r), "'", `'\''`) + "'")
}

func (s *sshSession) advertised(ctx context.Context) (*packp.AdvRefs, error) {
	adv, err := readAdvertised(s.out)
	if err == nil || errors.Is(err, ErrNoRef) || errors.Is(err, ErrTooLarge) {
		return adv, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.session.Wait() // until all that it says has come; the context bounds it
	if said := s.stderr.String(); said != "" {
		return nil, fmt.Errorf("%w: the server says %.300q", ErrNoRef, said)
	}
	return nil, sshError(ctx, err)
}

func (s *sshSession) ask(ctx context.Context, request []byte) (io.ReadCloser, error) {
	if _, err := s.in.Write(request); err != nil {
		return nil, sshError(ctx, err)
	}
	return io.NopCloser(s.out), s.in.Close()
}

func (s *sshSession) close() {
	s.stop()
	s.client.Close()
	s.client.Wait()
}

// client is how we show ourselves to a server, and it to us.
func (s *SSH) client(address, user string) (*ssh.ClientConfig, error) {
	config := &ssh.ClientConfig{User: user}
	if s.KeyFile != "" {
		signer, err := s.signer()
		if err != nil {
			return nil, err
		}
		config.Auth = []ssh.AuthMethod{ssh.PublicKeys(signer)}
	}
	known := func(string, net.Addr, ssh.PublicKey) error { return &knownhosts.KeyError{} }
	if s.KnownHosts != "" {
		var err error
		if known, err = knownhosts.New(s.KnownHosts); err != nil {
			return nil, fmt.Errorf("known hosts: %w", err)
		}
	}
	config.HostKeyAlgorithms = algorithms(known, address)
	config.HostKeyCallback = func(host string, at net.Addr, key ssh.PublicKey) error {
		err := known(host, at, key)
		var wrong *knownhosts.KeyError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &wrong) && len(wrong.Want) == 0 && s.AcceptUnknown:
			return nil
		case errors.As(err, &wrong) && len(wrong.Want) == 0:
			return fmt.Errorf("%w: %s is in no list of known hosts; it shows %s", ErrHostKey, host, ssh.FingerprintSHA256(key))
		}
		return fmt.Errorf("%w: %s shows %s, which is not what the list of known hosts has", ErrHostKey, host, ssh.FingerprintSHA256(key))
	}
	return config, nil
}

// algorithms are those of the keys that are known of a server, so that it shows
// one of these; nil if none is.
func algorithms(known ssh.HostKeyCallback, address string) (names []string) {
	err := known(address, &net.TCPAddr{}, noKey{})
	var all *knownhosts.KeyError
	if !errors.As(err, &all) {
		return nil
	}
	for _, key := range all.Want {
		if name := key.Key.Type(); name == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// noKey is a key that equals none.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// signer reads the private key, which nobody else may be able to.
func (s *SSH) signer() (ssh.Signer, error) {
	text, err := readPrivate(s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("SSH key: %w", err)
	}
	defer clear(text)
	signer, err := ssh.ParsePrivateKey(text)
	if encrypted := (*ssh.PassphraseMissingError)(nil); errors.As(err, &encrypted) && s.PassphraseFile != "" {
		var passphrase []byte
		if passphrase, err = readPrivate(s.PassphraseFile); err != nil {
			return nil, fmt.Errorf("passphrase of the SSH key: %w", err)
		}
		defer clear(passphrase)
		line, _, _ := bytes.Cut(passphrase, []byte("\n"))
		signer, err = ssh.ParsePrivateKeyWithPassphrase(text, bytes.TrimSuffix(line, []byte("\r")))
	}
	if err != nil {
		return nil, fmt.Errorf("SSH key %s: %w", s.KeyFile, err)
	}
	return signer, nil
}

// readPrivate reads a file that its owner alone can read.
func readPrivate(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 || !info.Mode().IsRegular() || info.Size() > 64<<10 {
		return nil, fmt.Errorf("%s must be a small file that its owner alone can read (chmod 600)", name)
	}
	return os.ReadFile(name)
}

// sshError gives names to what callers tell apart.
func sshError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, ErrHostKey):
		return err
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%w: %w", ErrAuth, err)
	}
	return fmt.Errorf("ssh: %w", err)
}

// A stallConn ends a read that brings nothing for too long.
type stallConn struct {
	net.Conn
	stall time.Duration
}

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// firstWords keeps the beginning of what is written to it.
type firstWords struct {
	bufferMu sync.Mutex
	buffer   bytes.Buffer
}

func (w *firstWords) Write(p []byte) (int, error) {
	w.bufferMu.Lock()
	defer w.bufferMu.Unlock()
	w.buffer.Write(p[:min(len(p), 1024-w.buffer.Len())])
	return len(p), nil
}

func (w *firstWords) String() string {
	w.bufferMu.Lock()
	defer w.bufferMu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(w.buffer.String()), "?")
}
