package fetch_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"golang.org/x/net/dns/dnsmessage"
)

func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	c, _ := newClient(t, nil)
	for _, tt := range []struct{ name, host string }{
		{"loopback", "127.0.0.1"},
		{"all of loopback", "127.255.255.254"},
		{"loopback of IPv6", "[::1]"},
		{"private, class A", "10.1.2.3"},
		{"private, class B", "172.31.0.1"},
		{"private, class C", "192.168.0.1"},
		{"shared by carriers", "100.64.0.1"},
		{"link-local, where clouds keep their secrets", "169.254.169.254"},
		{"link-local of IPv6", "[fe80::1]"},
		{"unspecified", "0.0.0.0"},
		{"this network", "0.1.2.3"},
		{"unspecified of IPv6", "[::]"},
		{"multicast", "224.0.0.1"},
		{"multicast of IPv6", "[ff02::1]"},
		{"broadcast", "255.255.255.255"},
		{"unique local", "[fd00::1]"},
		{"site-local", "[fec0::1]"},
		{"IPv4-mapped", "[::ffff:127.0.0.1]"},
		{"IPv4-mapped in hexadecimal", "[::ffff:a9fe:a9fe]"},
		{"IPv4-compatible", "[::127.0.0.1]"},
		{"NAT64", "[64:ff9b::7f00:1]"},
		{"local NAT64", "[64:ff9b:1::7f00:1]"},
		{"6to4 of a private address", "[2002:7f00:1::]"},
		{"Teredo", "[2001:0:7f00:1::]"},
		{"documentation", "192.0.2.1"},
		{"benchmarks", "198.18.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Get(t.Context(), "http://"+tt.host+":9/", fetch.Conditions{})
			if !errors.Is(err, fetch.ErrForbiddenAddress) {
				t.Errorf("Get = %v, want ErrForbiddenAddress", err)
			}
		})
	}
}

func TestPublicAddressesAreDialled(t *testing.T) {
	// The resolver answers with a public address; the dial itself is cut off
	// by the context before it can begin.
	c, _ := newClient(t, func(c *fetch.Config) {
		c.Resolver = resolver(t, func(int32) string { return "8.8.8.8" })
		c.HopTimeout = 200 * time.Millisecond
	})
	_, err := c.Get(t.Context(), "http://public.example:9/", fetch.Conditions{})
	if err == nil || errors.Is(err, fetch.ErrForbiddenAddress) {
		t.Errorf("Get = %v, want a failed dial", err)
	}
}

func TestNoNameLeadsToAPrivateAddress(t *testing.T) {
	var reached atomic.Int32
	inside := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	port := inside.URL[strings.LastIndexByte(inside.URL, ':'):]
	outside := serve(t, func(w http.ResponseWriter, r *http.Request) {
		to := inside.URL
		if r.URL.Path == "/name" {
			to = "http://inside.example" + port
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	// A name that is public when it is first asked for, and private later.
	rebinding := resolver(t, func(n int32) string {
		if n <= 2 { // A and AAAA of the first look-up
			return "8.8.8.8"
		}
		return "127.0.0.1"
	})
	private := resolver(t, func(int32) string { return "127.0.0.1" })
	for _, tt := range []struct {
		name, url string
		resolver  *net.Resolver
		gets      int
	}{
		{"an address", inside.URL, private, 1},
		{"a name with a private address", "http://inside.example" + port, private, 1},
		{"a redirect to an address", outside.URL, private, 1},
		{"a redirect to a name", outside.URL + "/name", private, 1},
		{"a name that is bound anew", "http://inside.example" + port, rebinding, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newClient(t, func(c *fetch.Config) {
				c.Resolver, c.HopTimeout = tt.resolver, 200*time.Millisecond
			}, outside)
			var err error
			for range tt.gets {
				_, err = c.Get(t.Context(), tt.url, fetch.Conditions{})
			}
			if !errors.Is(err, fetch.ErrForbiddenAddress) || reached.Load() != 0 {
				t.Errorf("Get = %v with %d requests inside, want ErrForbiddenAddress", err, reached.Load())
			}
		})
	}
	c, _ := newClient(t, func(c *fetch.Config) {
		c.Resolver, c.Allowed = private, []string{"http://inside.example" + port}
	})
	r, err := c.Get(t.Context(), "http://inside.example"+port, fetch.Conditions{})
	if err != nil || reached.Load() != 1 {
		t.Fatalf("an origin that is allowed: %v", err)
	}
	r.Body.Close()
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	var proxied atomic.Int32
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { proxied.Add(1) })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	c, _ := newClient(t, func(c *fetch.Config) { c.Resolver = resolver(t, func(int32) string { return "127.0.0.1" }) }, proxy)
	if _, err := c.Get(t.Context(), "http://public.example:9/", fetch.Conditions{}); !errors.Is(err, fetch.ErrForbiddenAddress) || proxied.Load() != 0 {
		t.Errorf("Get = %v with %d requests at the proxy", err, proxied.Load())
	}
}

// resolver asks a name server that answers its nth question with the address
// that answer gives.
func resolver(t *testing.T, answer func(n int32) string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { server.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for n := int32(1); ; n++ {
			size, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			q := m.Questions[0]
			if q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 0},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(answer(n)).As4()},
				}}
			}
			if packed, err := m.Pack(); err == nil {
				server.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp4", server.LocalAddr().String())
	}}
}
