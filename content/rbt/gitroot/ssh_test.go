package gitroot

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// An sshServer serves an origin to one key, and notes what it is told to run.
type sshServer struct {
	origin  *origin
	address string
	host    ssh.Signer
	exec    func(channel ssh.Channel, command string) // in place of the origin's answer; may be nil

	commandsMu sync.Mutex
	commands   []string
}

// newKey makes a key pair, and a file of the private half.
func newKey(t *testing.T, passphrase string) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return signer, name
}

func startSSH(t *testing.T, o *origin, client ssh.PublicKey) *sshServer {
	t.Helper()
	host, _ := newKey(t, "")
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.Marshal()) {
			return nil, errors.New("another key")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sshServer{origin: o, address: listener.Addr().String(), host: host}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(conn, config) })
		}
	})
	t.Cleanup(func() { listener.Close(); running.Wait() })
	return s
}

func (s *sshServer) serve(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests) // which ends with the connection
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			break
		}
		for r := range requests {
			r.Reply(r.Type == "exec", nil)
			if r.Type == "exec" {
				s.run(channel, string(r.Payload[4:]))
				channel.Close()
				break
			}
		}
		for range requests {
		}
	}
	server.Wait()
}

func (s *sshServer) run(channel ssh.Channel, command string) {
	s.commandsMu.Lock()
	s.commands = append(s.commands, command)
	s.commandsMu.Unlock()
	if s.exec != nil {
		s.exec(channel, command)
		return
	}
	if !strings.Contains(command, "repo.git") {
		channel.Stderr().Write([]byte("fatal: '/x' does not appear to be a git repository\n"))
		return
	}
	if s.origin.advertise(channel, false) == nil {
		s.origin.answer(channel, channel)
	}
	channel.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
}

// client may ask the server, under a configuration that change has changed.
func (s *sshServer) client(t *testing.T, keyFile string, change func(*SSH)) *Client {
	t.Helper()
	known := filepath.Join(t.TempDir(), "known_hosts")
	line := knownhosts.Line([]string{s.address}, s.host.PublicKey())
	if err := os.WriteFile(known, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Fetch: fetch.Config{UserAgent: "test"}, SSH: SSH{KeyFile: keyFile, KnownHosts: known, Allowed: []string{"ssh://" + s.address}}, Limits: Limits{Time: 20 * time.Second}}
	if change != nil {
		change(&c.SSH)
	}
	made, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func (s *sshServer) remote(t *testing.T) rbt.Remote {
	return remote(t, "ssh://git@"+s.address+"/srv/repo.git")
}

func TestAnSSHHostMustBeKnown(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"a.md": "A"})
	signer, keyFile := newKey(t, "")
	_, otherFile := newKey(t, "")
	other, _ := newKey(t, "")
	encrypted, encryptedFile := newKey(t, "open sesame")
	loose := filepath.Join(t.TempDir(), "loose")
	text, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(loose, text, 0o644); err != nil {
		t.Fatal(err)
	}
	passphrase, told := filepath.Join(t.TempDir(), "passphrase"), filepath.Join(t.TempDir(), "told")
	for name, mode := range map[string]os.FileMode{passphrase: 0o600, told: 0o640} {
		if err := os.WriteFile(name, []byte("open sesame\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	s := startSSH(t, o, signer.PublicKey())
	second := startSSH(t, o, encrypted.PublicKey())
	for _, tt := range []struct {
		name   string
		server *sshServer
		key    string
		change func(*SSH)
		want   error
	}{
		{"it is known", s, keyFile, nil, nil},
		{"it is not", s, keyFile, func(c *SSH) { c.KnownHosts = "" }, ErrHostKey},
		{"it is not, which is accepted", s, keyFile, func(c *SSH) { c.KnownHosts, c.AcceptUnknown = "", true }, nil},
		{"it has another key now", s, keyFile, func(c *SSH) {
			c.AcceptUnknown = true
			if err := os.WriteFile(c.KnownHosts, []byte(knownhosts.Line([]string{s.address}, other.PublicKey())+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrHostKey},
		{"our key is not known to it", s, otherFile, nil, ErrAuth},
		{"we have none", s, "", nil, ErrAuth},
		{"an encrypted key", second, encryptedFile, func(c *SSH) { c.PassphraseFile = passphrase }, nil},
		{"it lies at a private address", s, keyFile, func(c *SSH) { c.Allowed = nil }, fetch.ErrForbiddenAddress},
	} {
		t.Run(tt.name, func(t *testing.T) {
			repo := open(t, tt.server.client(t, tt.key, tt.change), tt.server.remote(t))
			_, err := repo.Fetch(t.Context(), main)
			if !errors.Is(err, tt.want) {
				t.Errorf("Fetch = %v, want %v", err, tt.want)
			}
		})
	}
	for name, key := range map[string]string{"anybody can read it": loose, "it is encrypted": encryptedFile, "it is not there": "/nowhere/key"} {
		if _, err := open(t, s.client(t, key, nil), s.remote(t)).Fetch(t.Context(), main); err == nil {
			t.Errorf("a key, and %s", name)
		}
	}
	shared := func(c *SSH) { c.PassphraseFile = told }
	if _, err := open(t, second.client(t, encryptedFile, shared), second.remote(t)).Fetch(t.Context(), main); err == nil {
		t.Error("a passphrase that others can read is used")
	}
}

func TestARepositoryIsReadBySSH(t *testing.T) {
	o := newOrigin(t)
	signer, keyFile := newKey(t, "")
	s := startSSH(t, o, signer.PublicKey())
	repo := open(t, s.client(t, keyFile, nil), s.remote(t))
	for _, text := range []string{"first", "second"} {
		o.commit(map[string]string{"a.md": text, "docs/b.md": "B"})
		if got := contents(t, mustFetch(t, repo, main)); got["a.md"] != text {
			t.Errorf("files are %q", got)
		}
	}
	if o.sent > 3 {
		t.Errorf("%d objects came for one edit", o.sent)
	}
	if want := []string{"git-upload-pack '/srv/repo.git'", "git-upload-pack '/srv/repo.git'"}; !slices.Equal(s.commands, want) {
		t.Errorf("the server was told %q", s.commands)
	}
	absent := remote(t, "ssh://git@"+s.address+"/x")
	if _, err := open(t, repo.client, absent).Fetch(t.Context(), main); !errors.Is(err, ErrNoRef) {
		t.Errorf("a repository that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := repo.Fetch(ctx, main); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that has ended: %v", err)
	}
}

func TestShortRemotesAreOfPort22(t *testing.T) {
	for text, want := range map[string][2]string{
		"git@Example.org:org/repo.git":      {"ssh://example.org:22", "org/repo.git"},
		"ssh://example.org/~me/repo.git":    {"ssh://example.org:22", "~me/repo.git"},
		"ssh://u@example.org:2222/repo.git": {"ssh://example.org:2222", "/repo.git"},
	} {
		r := remote(t, text)
		if Origin(r) != want[0] || sshPath(r) != want[1] {
			t.Errorf("%s: %s, %s", text, Origin(r), sshPath(r))
		}
	}
}
