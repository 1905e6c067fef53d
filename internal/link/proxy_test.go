package link

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listen accepts connections until the test ends, each in a goroutine.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// echo is a peer that sends back what comes.
func echo(t *testing.T) string { return listen(t, func(c net.Conn) { io.Copy(c, c) }) }

// connectProxy is a proxy that knows one name, and wants a credential.
func connectProxy(t *testing.T, name, peer, credential string, asked *atomic.Int64) *url.URL {
	address := listen(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		q, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		asked.Add(1)
		switch {
		case q.Method != http.MethodConnect || q.RequestURI != name:
			io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
			return
		case q.Header.Get("Proxy-Authorization") != credential:
			io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		up, err := net.Dial("tcp", peer)
		if err != nil {
			return
		}
		defer up.Close()
		io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
		go io.Copy(up, in)
		io.Copy(c, up)
	})
	return &url.URL{Scheme: "http", Host: address}
}

func always(u *url.URL) func(string) (*url.URL, error) {
	return func(string) (*url.URL, error) { return u, nil }
}

// TestAProxyResolvesThePeersName dials a name that nobody but the proxy knows.
func TestAProxyResolvesThePeersName(t *testing.T) {
	const name, credential = "indexer.invalid:7443", "Basic dXNlcjpwYXNz"
	var asked atomic.Int64
	proxy := connectProxy(t, name, echo(t), credential, &asked)
	d := Dialer{Proxy: always(proxy), Authorization: func() (string, error) { return credential, nil }}
	c, err := d.Dial(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	said := make([]byte, 5)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, said); err != nil || string(said) != "hello" || asked.Load() != 1 {
		t.Errorf("%q, %v; the proxy was asked %d times", said, err, asked.Load())
	}
	inURL := *proxy
	inURL.User = url.UserPassword("user", "pass")
	c, err = Dialer{Proxy: always(&inURL)}.Dial(t.Context(), name)
	if err != nil {
		t.Fatalf("with the credential in its URL: %v", err)
	}
	c.Close()
}

func TestAProxyThatDoesNotConnectIsAnError(t *testing.T) {
	var asked atomic.Int64
	answering := func(text string) *url.URL {
		return &url.URL{Scheme: "http", Host: listen(t, func(c net.Conn) {
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, text)
			io.Copy(io.Discard, c)
		})}
	}
	for _, tt := range []struct {
		name  string
		proxy *url.URL
		wants string
	}{
		{"no credential", connectProxy(t, "a.invalid:1", echo(t), "Basic x", &asked), "407"},
		{"an unknown name", connectProxy(t, "b.invalid:1", echo(t), "", &asked), "502"},
		{"no HTTP", answering("220 mail.test ESMTP\r\n"), "malformed"},
		{"an answer without an end", answering("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxAnswer)), "EOF"},
		{"octets behind its answer", answering("HTTP/1.1 200 OK\r\n\r\nhello"), "spoken"},
		{"silence", answering(""), "deadline"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := Dialer{Proxy: always(tt.proxy)}.Dial(ctx, "a.invalid:1")
			if c != nil || !errors.Is(err, ErrProxy) || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("Dial = %v, want %q in it", err, tt.wants)
			}
		})
	}
}

func TestTheSettingGoesBeforeTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name, setting, https, no, address, want string
		bad                                     bool
	}{
		{"nothing", "", "", "", "a.test:7443", "", false},
		{"the environment", "", "http://env.test:3128", "", "a.test:7443", "http://env.test:3128", false},
		{"a setting", "http://set.test:8080", "http://env.test:3128", "", "a.test:7443", "http://set.test:8080", false},
		{"off", NoProxy, "http://env.test:3128", "", "a.test:7443", "", false},
		{"NO_PROXY", "http://set.test:8080", "", ".test", "a.test:7443", "", false},
		{"NO_PROXY for another", "", "http://env.test:3128", "b.test", "a.test:7443", "http://env.test:3128", false},
		{"a peer on this machine", "http://set.test:8080", "", "", "127.0.0.1:7443", "", false},
		{"a scheme that is not spoken", "socks5://set.test:1080", "", "", "a.test:7443", "", true},
		{"no URL", "set.test:8080", "", "", "a.test:7443", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
				t.Setenv(name, tt.https)
			}
			for _, name := range []string{"NO_PROXY", "no_proxy"} {
				t.Setenv(name, tt.no)
			}
			f, err := ProxyFor(tt.setting)
			if (err != nil) != tt.bad {
				t.Fatalf("ProxyFor = %v", err)
			}
			got := ""
			if f != nil {
				u, err := f(tt.address)
				if err != nil {
					t.Fatal(err)
				}
				if u != nil {
					got = u.String()
				}
			}
			if got != tt.want {
				t.Errorf("proxy %q, want %q", got, tt.want)
			}
		})
	}
}
