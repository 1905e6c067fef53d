package publisher

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// The bounds of what lets a source in.
const (
	maxCredential  = 8 << 10  // octets of a credential's file
	maxCertificate = 64 << 10 // octets of a certificate with its chain, and of its key
	maxAnswer      = 64 << 10 // octets that a credential helper may say
	helperTimeout  = 30 * time.Second
)

// readPrivate reads a file that its owner alone can read, of 1 to limit octets.
func readPrivate(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s may be read by others than its owner; chmod 600", identity.ErrPermission, path)
	}
	return readBounded(f, limit)
}

func readBounded(f *os.File, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && (len(b) == 0 || int64(len(b)) > limit) {
		err = fmt.Errorf("%s: want 1 to %d octets", f.Name(), limit)
	}
	return b, err
}

// certificate reads the certificate that a source is shown, and its key. It is
// read anew at each handshake, so that one that was renewed counts.
func (r *Remote) certificate(dir string) (*tls.Certificate, error) {
	key, err := readPrivate(below(dir, r.ClientKeyFile), maxCertificate)
	if err != nil {
		return nil, fmt.Errorf("client key: %w", err)
	}
	defer clear(key)
	f, err := os.Open(below(dir, r.ClientCertFile))
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	defer f.Close()
	chain, err := readBounded(f, maxCertificate)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("client certificate %s: %w", r.ClientCertFile, err)
	}
	return &pair, nil
}

// help asks a credential helper of git, as git does: what it says is a user and a
// password for one scheme and host. The operator named the program; it is run
// without a shell, and nothing that a server said reaches it. No error repeats
// what it says.
func (r *Remote) help(scheme, host string) (string, error) {
	words := strings.Fields(r.CredentialHelper)
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return "", errors.New("credential helper: name the program by its whole path")
	}
	ctx, cancel := context.WithTimeout(context.Background(), helperTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, words[0], append(words[1:], "get")...)
	c.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0") // there is nobody to be asked
	c.Stdin = strings.NewReader("protocol=" + scheme + "\nhost=" + host + "\n\n")
	said := &firstOctets{limit: maxAnswer}
	c.Stdout = said
	c.WaitDelay = time.Second
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("credential helper %s: %w", words[0], err)
	}
	answer := make(map[string]string)
	for line := range strings.Lines(string(said.kept)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			answer[key] = value
		}
	}
	switch user, password := answer["username"], answer["password"]; {
	case said.cut || user == "" || password == "":
		return "", fmt.Errorf("credential helper %s: it names no user and password for %s://%s", words[0], scheme, host)
	case strings.Contains(user, ":"):
		return "", fmt.Errorf("credential helper %s: its user cannot be sent", words[0])
	default:
		return "Basic " + user + ":" + password, nil
	}
}

// firstOctets keeps the beginning of what is written to it.
type firstOctets struct {
	kept  []byte // no bytes.Buffer, which would be read into beside Write
	limit int
	cut   bool // whether there was more
}

func (f *firstOctets) Write(p []byte) (int, error) {
	n := min(len(p), f.limit-len(f.kept))
	f.cut = f.cut || n < len(p)
	f.kept = append(f.kept, p[:n]...)
	return len(p), nil
}
