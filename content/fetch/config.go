package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Config is what a client is made from. The zero value of each field but
// UserAgent is usable.
type Config struct {
	// UserAgent names the program and where to complain about it.
	UserAgent string

	// Allowed are the origins, as Origin prints them, that may lie at any
	// address: on this machine, in a private network. It is the operator's
	// own list, and must never hold what a remote side said.
	Allowed []string

	// Credentials are sent to one origin each, by https or to this machine.
	Credentials map[string]Credential

	// Certificates show one origin each, by https, who we are. A function is
	// called at each handshake in which the server asks: a certificate that was
	// renewed counts at once.
	Certificates map[string]func() (*tls.Certificate, error)

	// RootCAs are the authorities that vouch for servers; nil stands for those
	// of the platform. There is no way to accept what none vouches for.
	RootCAs *x509.CertPool

	// HopTimeout is how long one server may take from the dial to the end of
	// its header (0: 15 s; the dial at most 30 s), StallTimeout how long no octet of the body may
	// come (0: 15 s), and Timeout how long a Get may take with its redirects,
	// its waits and its body (0: 10 min).
	HopTimeout, StallTimeout, Timeout time.Duration

	// MaxBody is the greatest size of a body, in octets, as it comes over the
	// wire and again when decompressed (0: 100 MiB). Behind the first MiB a
	// body may also not be more than 100 times as large as it was compressed.
	MaxBody int64

	// MaxRedirects is how many redirects one Get follows (0: 5; -1: none).
	MaxRedirects int

	// Rate is how many requests a second one origin gets (0: 4), and
	// Concurrency how many at once (0: 2). A Body that is open counts.
	Rate        float64
	Concurrency int

	// Retries is how often a Get tries again after 429, 500, 502, 503 or 504
	// (0: 2; -1: never). MaxWait bounds each wait before it (0: 1 min): a
	// server that asks for a longer one gets no request from this client
	// until it is over, and callers a *StatusError.
	Retries int
	MaxWait time.Duration

	// Resolver looks names up; nil stands for that of the platform.
	Resolver *net.Resolver

	// Now and Sleep are the clock; nil stands for the machine's.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// complete checks c and fills in what stands for zero.
func (c *Config) complete() (allowed map[string]bool, err error) {
	if c.UserAgent == "" || strings.ContainsAny(c.UserAgent, "\r\n") {
		return nil, errors.New("a client needs a user agent, in one line")
	}
	allowed = make(map[string]bool)
	for _, o := range c.Allowed {
		if got, err := Origin(o); err != nil || got != o {
			return nil, fmt.Errorf("allowed origin %.200q: write it as scheme://host or scheme://host:port", o)
		}
		allowed[o] = true
	}
	for o, credential := range c.Credentials {
		got, err := Origin(o)
		switch {
		case err != nil || got != o:
			return nil, fmt.Errorf("credentials for %.200q: write the origin as scheme://host or scheme://host:port", o)
		case credential.header == "" || strings.ContainsAny(credential.header, "\r\n"):
			return nil, fmt.Errorf("credentials for %s are empty or of several lines", o)
		case !strings.HasPrefix(o, "https:") && !isThisMachine(o):
			return nil, fmt.Errorf("credentials for %s would travel in the clear; use https", o)
		}
	}
	for o, certificate := range c.Certificates {
		if got, err := Origin(o); err != nil || got != o || !strings.HasPrefix(o, "https:") || certificate == nil {
			return nil, fmt.Errorf("certificate for %.200q: write the origin as https://host or https://host:port", o)
		}
	}
	if c.MaxBody < 0 || c.Rate < 0 || c.Concurrency < 0 || c.HopTimeout < 0 || c.StallTimeout < 0 || c.Timeout < 0 || c.MaxWait < 0 {
		return nil, errors.New("a bound of the client is negative")
	}
	setDefault(&c.HopTimeout, 15*time.Second)
	setDefault(&c.StallTimeout, 15*time.Second)
	setDefault(&c.Timeout, 10*time.Minute)
	setDefault(&c.MaxBody, 100<<20)
	setDefault(&c.MaxRedirects, 5)
	setDefault(&c.Rate, 4)
	setDefault(&c.Concurrency, 2)
	setDefault(&c.Retries, 2)
	setDefault(&c.MaxWait, time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	return allowed, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isThisMachine reports whether an origin names this machine by an address or
// by the name that always is one.
func isThisMachine(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// maxDial is how long a connection may take, however patient the client is with
// what comes after.
const maxDial = 30 * time.Second

// transport makes connections whose address control has approved.
func (c *Config) transport(control func(network, address string, _ syscall.RawConn) error) *http.Transport {
	dialer := &net.Dialer{Timeout: min(c.HopTimeout, maxDial), Control: control, Resolver: c.Resolver}
	return &http.Transport{
		Proxy:                  nil, // not even that of the environment: it would dial for us, unjudged
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    c.Concurrency,
		MaxIdleConns:           16,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// A Credential is the value of an Authorization header. It prints as a mask,
// whatever prints it.
type Credential struct{ header string }

// Bearer is the credential of RFC 6750.
func Bearer(token string) Credential { return Credential{"Bearer " + token} }

// Basic is the credential of RFC 7617.
func Basic(user, password string) Credential {
	return Credential{"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
}

// ParseCredential reads what an operator keeps in a file or in the environment:
// one line, either "Bearer TOKEN" or "Basic USER:PASSWORD".
func ParseCredential(text string) (Credential, error) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	user, password, isPair := strings.Cut(rest, ":")
	broken := slices.ContainsFunc([]byte(rest), func(c byte) bool { return c < 0x20 || c == 0x7f })
	switch {
	case rest == "" || broken:
	case scheme == "Bearer" && !strings.Contains(rest, " "):
		return Bearer(rest), nil
	case scheme == "Basic" && isPair:
		return Basic(user, password), nil
	}
	return Credential{}, errors.New(`a credential is one line, "Bearer TOKEN" or "Basic USER:PASSWORD"`)
}

// Format writes the mask under every verb.
func (c Credential) Format(f fmt.State, _ rune) { io.WriteString(f, c.String()) }

// Header is the credential as a request carries it.
func (c Credential) Header() string { return c.header }

// String returns the mask.
func (c Credential) String() string { return "[credential]" }

// MarshalText writes the mask, in logs of JSON for instance.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
