package e2e

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// TestAPushGoesThroughAProxyThatResolvesTheName names the indexer by a name that
// no resolver knows, behind a proxy that wants a credential.
func TestAPushGoesThroughAProxyThatResolvesTheName(t *testing.T) {
	t.Parallel()
	const name = "indexer.invalid:7443"
	p := pair.New(t, 3)
	peer := p.Address
	l, err := net.Listen("tcp", "127.0.0.1:0")
	pair.Check(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				q, err := http.ReadRequest(in)
				if err != nil || q.RequestURI != name || q.Header.Get("Proxy-Authorization") != "Bearer token" {
					io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
					return
				}
				up, err := net.Dial("tcp", peer)
				if err != nil {
					return
				}
				defer up.Close()
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
				go io.Copy(up, in)
				io.Copy(c, up)
			}()
		}
	}()
	p.Dial(name)
	secret := filepath.Join(p.Pub, "proxy.secret")
	push := func() ([]publisher.Result, error) {
		pub, err := publisher.Open(publisher.Config{Dir: p.Pub, Proxy: "http://" + l.Addr().String(), ProxyCredentials: secret})
		pair.Check(t, err)
		defer pub.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return pub.Push(ctx, publisher.PushOptions{})
	}
	pair.Check(t, os.WriteFile(secret, []byte("Bearer wrong"), 0o600))
	if _, err := push(); !errors.Is(err, publisher.ErrUnavailable) {
		t.Errorf("with a wrong credential: %v", err)
	}
	pair.Check(t, os.WriteFile(secret, []byte("Bearer token"), 0o600))
	results, err := push()
	if err != nil || results[0].Sent != 3 {
		t.Errorf("%+v, %v", results, err)
	}
}
