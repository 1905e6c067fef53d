package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestAClientHasTenSecondsWorthAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clients{rate: 2}
		taken := func(client string, tries int) (n int) {
			for range tries {
				if c.take(client) {
					n++
				}
			}
			return n
		}
		if n := taken("a", 100); n != 20 {
			t.Errorf("at once %d of 100 go through, want 20", n)
		}
		if n := taken("b", 100); n != 20 {
			t.Errorf("of another client %d go through, want 20", n)
		}
		time.Sleep(3 * time.Second)
		if n := taken("a", 100); n != 6 {
			t.Errorf("three seconds later %d go through, want 6", n)
		}
		time.Sleep(time.Hour)
		if n := taken("a", 100); n != 20 {
			t.Errorf("an hour later %d go through, want 20", n)
		}
	})
	unlimited := &clients{}
	for range 1000 {
		if !unlimited.take("a") {
			t.Fatal("without a rate a request is refused")
		}
	}
	slow := &clients{rate: 0.01}
	if !slow.take("a") || slow.take("a") {
		t.Error("a rate of one in a hundred seconds lets through something else than one")
	}
}

func TestClientsAreKeptInABoundedTable(t *testing.T) {
	c := &clients{rate: 1}
	for i := range maxClients + 10 {
		c.take(fmt.Sprint(i))
	}
	if n := len(c.all); n > maxClients {
		t.Errorf("%d clients are kept", n)
	}
}

func TestClientsAreToldApartByWhoCanNotLie(t *testing.T) {
	for _, tt := range []struct {
		name, remote string
		proxied      bool
		said         []string
		want         string
	}{
		{"an address of IPv4", "192.0.2.7:999", false, nil, "192.0.2.7"},
		{"a network of IPv6", "[2001:db8:1:2:3:4:5:6]:999", false, nil, "2001:db8:1:2::/64"},
		{"IPv4 in the form of IPv6", "[::ffff:192.0.2.7]:999", false, nil, "192.0.2.7"},
		{"a zone counts for nothing", "[fe80::1%eth0]:999", false, nil, "fe80::/64"},
		{"what a client says of itself", "192.0.2.7:999", false, []string{"198.51.100.1"}, "192.0.2.7"},
		{"what the proxy says", "127.0.0.1:999", true, []string{"198.51.100.1"}, "198.51.100.1"},
		{"what the client said to the proxy", "127.0.0.1:999", true, []string{"203.0.113.5, 198.51.100.1"}, "198.51.100.1"},
		{"what the client said in a line of its own", "127.0.0.1:999", true, []string{"203.0.113.5", "198.51.100.1"}, "198.51.100.1"},
		{"a proxy that says nothing", "127.0.0.1:999", true, nil, "127.0.0.1"},
		{"a proxy that says something else", "127.0.0.1:999", true, []string{"for=198.51.100.1"}, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = tt.remote
			for _, v := range tt.said {
				r.Header.Add("X-Forwarded-For", v)
			}
			if got := clientOf(r, tt.proxied); got != tt.want {
				t.Errorf("the client is %q, want %q", got, tt.want)
			}
		})
	}
}
