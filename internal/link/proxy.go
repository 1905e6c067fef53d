package link

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ErrProxy is returned when a proxy does not open a way to the peer.
var ErrProxy = errors.New("the proxy does not connect")

// Bounds of what a proxy may answer, and of how long all of a dial may take.
const (
	maxAnswer   = 16 << 10
	dialTimeout = 20 * time.Second
)

// A Dialer opens TCP connections, through a proxy where one is named. The
// peer's name is resolved by the proxy then, and nowhere here
// (TestAProxyResolvesThePeersName). Its zero value dials directly.
type Dialer struct {
	// Proxy names the proxy for a peer at HOST:PORT, nil for none. Its scheme is
	// http or https; what it holds of a user is sent as Basic.
	Proxy func(address string) (*url.URL, error)
	// Authorization, if set, is the credential for the proxy, as it stands in
	// Proxy-Authorization. It is asked for each time.
	Authorization func() (string, error)
	// Wrap, if set, is put around each connection before its first octet.
	Wrap func(net.Conn) net.Conn
}

// Dial connects to HOST:PORT, within 20 seconds.
func (d Dialer) Dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var proxy *url.URL
	if d.Proxy != nil {
		var err error
		if proxy, err = d.Proxy(address); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProxy, err)
		}
	}
	if proxy == nil {
		return d.tcp(ctx, address)
	}
	conn, err := d.tcp(ctx, proxyAddress(proxy))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrProxy, proxy.Host, err)
	}
	if proxy.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: proxy.Hostname(), MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	if err := d.tunnel(ctx, conn, proxy, address); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w: %s: %w", ErrProxy, proxy.Host, err)
	}
	return conn, nil
}

func (d Dialer) tcp(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil && d.Wrap != nil {
		conn = d.Wrap(conn)
	}
	return conn, err
}

func proxyAddress(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// tunnel asks for a way to address, and returns when it is open. Nothing of the
// peer's is read: in TLS the client speaks first.
func (d Dialer) tunnel(ctx context.Context, conn net.Conn, proxy *url.URL, address string) error {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	q := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{"User-Agent": {"publisherd"}}}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		basic := &http.Request{Header: make(http.Header)}
		basic.SetBasicAuth(user.Username(), password)
		q.Header.Set("Proxy-Authorization", basic.Header.Get("Authorization"))
	}
	if d.Authorization != nil {
		credential, err := d.Authorization()
		if err != nil {
			return err
		}
		if credential != "" {
			q.Header.Set("Proxy-Authorization", credential)
		}
	}
	if err := q.Write(conn); err != nil {
		return cause(ctx, err)
	}
	in := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	answer, err := http.ReadResponse(in, q)
	switch {
	case err != nil:
		return cause(ctx, err)
	case answer.StatusCode == http.StatusProxyAuthRequired:
		return errors.New("it wants a credential, or another one (407)")
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %d", answer.StatusCode)
	case in.Buffered() > 0:
		return errors.New("it speaks before it was spoken to")
	case !stop():
		return context.Cause(ctx)
	}
	return nil
}

// cause is why an exchange failed: its time may have been up.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
