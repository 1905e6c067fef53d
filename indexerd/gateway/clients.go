package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// maxClients bounds the clients that are known at once; beyond, all begin anew.
const maxClients = 1 << 16

// clients counts the requests of each client: rate a second, and as many at once as
// ten seconds give. Zero is no limit.
type clients struct {
	// allMu guards all and rate.
	allMu sync.Mutex
	all   map[string]bucket
	rate  float64
}

type bucket struct {
	left float64
	at   time.Time
}

// take reports whether a client may ask once more.
func (c *clients) take(client string) bool {
	now := time.Now()
	c.allMu.Lock()
	defer c.allMu.Unlock()
	if c.rate <= 0 {
		return true
	}
	if c.all == nil || len(c.all) >= maxClients {
		c.all = make(map[string]bucket)
	}
	most := max(1, 10*c.rate)
	b, known := c.all[client]
	if !known {
		b = bucket{most, now}
	}
	b.left = min(most, b.left+now.Sub(b.at).Seconds()*c.rate)
	b.at = now
	ok := b.left >= 1
	if ok {
		b.left--
	}
	c.all[client] = b
	return ok
}

// clientOf names the client. Of what a proxy in front says, only its own word counts,
// which is the last.
func clientOf(r *http.Request, proxied bool) string {
	if said := r.Header.Values("X-Forwarded-For"); proxied && len(said) > 0 {
		last := said[len(said)-1]
		return network(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]))
	}
	return network(r.RemoteAddr)
}

// network is an address, with a port or without: itself, or the network of 64 bits that
// it is in.
func network(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return "unknown" // who cannot be told apart shares one limit
	}
	if a = a.Unmap(); a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}
