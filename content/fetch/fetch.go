// Package fetch is the one HTTP client with which sources are read: those of
// our own, and those of origins that an operator named.
//
// Whatever is at the other end is hostile. Addresses are judged when they are
// dialled, after every look-up and on every redirect, so that no name can lead
// to a private network behind the caller's back
// (TestNoNameLeadsToAPrivateAddress, TestAddressesThatAreNotPublicAreRefused);
// an origin that stands in Config.Allowed is exempt, and no other is. A body is
// decompressed here, under limits, and streamed
// (TestBodiesAreBoundedAndStreamed). Credentials belong to one origin, go to no
// other, and are printed by nothing (TestCredentialsStayWithTheirOrigin), and so
// do certificates (TestACertificateIsShownToItsOriginAlone).
// Every wait has an end: TestEveryWaitHasAnEnd.
package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// A Client reads from origins, politely. It may be used by several goroutines.
type Client struct {
	config  Config
	allowed map[string]bool
	// guarded dials public addresses alone, open those of allowed origins.
	guarded, open *http.Transport
	// own are those of the origins that are shown a certificate. A connection of
	// one is used for no other.
	own map[string]*http.Transport

	originsMu sync.Mutex
	origins   map[string]*origin
}

// Conditions say what the caller holds already.
type Conditions struct {
	// ETag is that of the body that is held, exactly as the server sent it,
	// with its quotes. Never put one here that was only announced, by a
	// sitemap say: the server would call it unchanged, and the caller would
	// file the old body under the new name.
	ETag string
	// LastModified is sent only if there is no ETag.
	LastModified time.Time
	// NoCache asks caches on the way to revalidate end to end.
	NoCache bool
	// Accept is the value of the Accept header; empty sends */*.
	Accept string
	// Follow is asked before a redirect is followed, if it is not nil: its error
	// ends the Get, and nothing is asked of where the redirect leads.
	Follow func(to string) error
}

// A Redirect is one hop that was followed.
type Redirect struct {
	Code int
	To   string
}

// A Response is an answer of 200, or of 304 to a request with conditions.
type Response struct {
	URL         string // that answered, behind all redirects
	Redirects   []Redirect
	NotModified bool
	Header      http.Header
	ETag        string // as it was sent, "" if it was not
	// Body is the decompressed body, empty if NotModified. It must be closed,
	// which also lets the next request to the origin begin. A read beyond a
	// limit returns ErrTooLarge.
	Body *Body
}

// New makes a client. It returns an error for a configuration that makes no
// sense.
func New(c Config) (*Client, error) {
	allowed, err := c.complete()
	if err != nil {
		return nil, err
	}
	client := &Client{config: c, allowed: allowed, origins: make(map[string]*origin)}
	client.guarded, client.open = c.transport(refuseNonPublic), c.transport(nil)
	client.own = make(map[string]*http.Transport)
	for o, certificate := range c.Certificates {
		t := c.transport(refuseNonPublic)
		if allowed[o] {
			t = c.transport(nil)
		}
		t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }
		client.own[o] = t
	}
	return client, nil
}

// transport is that by which an origin is asked.
func (c *Client) transport(originName string) *http.Transport {
	switch t := c.own[originName]; {
	case t != nil:
		return t
	case c.allowed[originName]:
		return c.open
	}
	return c.guarded
}

// Close ends idle connections. Responses that are open stay so.
func (c *Client) Close() {
	c.guarded.CloseIdleConnections()
	c.open.CloseIdleConnections()
	for _, t := range c.own {
		t.CloseIdleConnections()
	}
}

// Get fetches a URL, follows redirects, and waits and tries again where the
// server asks for it or stumbles, within the bounds of Config. Other errors
// that a caller may tell apart are ErrForbiddenAddress, ErrRedirect,
// ErrTooLarge, *StatusError, and context.DeadlineExceeded for any time-out.
func (c *Client) Get(ctx context.Context, rawURL string, cond Conditions) (*Response, error) {
	return c.do(ctx, rawURL, get{cond: cond})
}

// Content is what a Post sends.
type Content struct {
	Type   string // its media type
	Accept string // that of the answer
	Body   []byte
}

// Post sends content, for protocols that put their questions into a body. It
// may be sent again, as Get does; so it must not change anything. A redirect is
// not followed: it is an ErrRedirect.
func (c *Client) Post(ctx context.Context, rawURL string, content Content) (*Response, error) {
	return c.do(ctx, rawURL, get{cond: Conditions{Accept: content.Accept}, post: &content})
}

// Dial connects to a host and port by TCP, for protocols other than HTTP: to a
// public address alone, as Get does, or, for a server that the operator named,
// to any.
func (c *Client) Dial(ctx context.Context, address string, anywhere bool) (net.Conn, error) {
	transport := c.guarded
	if anywhere {
		transport = c.open
	}
	return transport.DialContext(ctx, "tcp", address)
}

func (c *Client) do(ctx context.Context, rawURL string, g get) (*Response, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.Timeout,
		fmt.Errorf("not done within %v: %w", c.config.Timeout, context.DeadlineExceeded))
	g.client, g.ctx, g.cancel = c, ctx, cancel
	r, err := g.run(u)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel()
		return nil, fmt.Errorf("fetch %.200q: %w", u, err)
	}
	return r, nil
}

// A get is one call of Get or Post.
type get struct {
	client *Client
	cond   Conditions
	post   *Content // nil for Get
	ctx    context.Context
	cancel context.CancelFunc // of everything, when the body is closed

	redirects []Redirect
}

// run follows redirects until something else answers.
func (g *get) run(u *url.URL) (*Response, error) {
	for {
		r, err := g.try(u)
		if err != nil {
			return nil, err
		}
		switch r.StatusCode {
		case http.StatusOK:
			return g.respond(u, r, false)
		case http.StatusNotModified:
			if !g.conditional() {
				r.close()
				return nil, errors.New("304 to a request without conditions")
			}
			return g.respond(u, r, true)
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
			r.close()
			next, err := g.redirect(u, r.Response)
			if err != nil {
				return nil, err
			}
			if originOf(next) != originOf(u) {
				// A validator is worth nothing for what another origin holds.
				g.cond.ETag, g.cond.LastModified = "", time.Time{}
			}
			u = next
		default:
			r.close()
			return nil, g.client.statusError(u, r.Response)
		}
	}
}

func (g *get) conditional() bool { return g.cond.ETag != "" || !g.cond.LastModified.IsZero() }

// redirect reads where a response leads.
func (g *get) redirect(from *url.URL, r *http.Response) (*url.URL, error) {
	if g.post != nil {
		return nil, fmt.Errorf("%w: %d to a POST", ErrRedirect, r.StatusCode)
	}
	if len(g.redirects) >= g.client.config.MaxRedirects {
		return nil, fmt.Errorf("%w: more than %d", ErrRedirect, g.client.config.MaxRedirects)
	}
	location := r.Header.Get("Location")
	if location == "" || len(location) > maxURL {
		return nil, fmt.Errorf("%w: %d without a usable Location", ErrRedirect, r.StatusCode)
	}
	ref, err := url.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("%w: Location is no URL", ErrRedirect)
	}
	next, err := parse(from.ResolveReference(ref).String())
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrRedirect, err)
	case from.Scheme == "https" && next.Scheme == "http":
		return nil, fmt.Errorf("%w: from https down to %.200q", ErrRedirect, next)
	}
	if g.cond.Follow != nil {
		if err := g.cond.Follow(next.String()); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRedirect, err)
		}
	}
	g.redirects = append(g.redirects, Redirect{r.StatusCode, next.String()})
	return next, nil
}

// respond hands an answer to the caller.
func (g *get) respond(u *url.URL, r *answer, notModified bool) (*Response, error) {
	response := &Response{
		URL: u.String(), Redirects: g.redirects, NotModified: notModified, Header: r.Header, ETag: r.Header.Get("ETag"),
	}
	body, err := newBody(r, g, notModified)
	if err != nil {
		r.close()
		return nil, err
	}
	response.Body = body
	return response, nil
}

// request makes the request of one hop.
func (g *get) request(ctx context.Context, u *url.URL) (*http.Request, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if g.post != nil {
		method, body = http.MethodPost, bytes.NewReader(g.post.Body)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if g.post != nil {
		r.Header.Set("Content-Type", g.post.Type)
	}
	accept := g.cond.Accept
	if accept == "" {
		accept = "*/*"
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", "zstd, gzip")
	r.Header.Set("User-Agent", g.client.config.UserAgent)
	switch {
	case g.cond.ETag != "":
		r.Header.Set("If-None-Match", g.cond.ETag)
	case !g.cond.LastModified.IsZero():
		r.Header.Set("If-Modified-Since", g.cond.LastModified.UTC().Format(http.TimeFormat))
	}
	if g.cond.NoCache {
		r.Header.Set("Cache-Control", "no-cache")
	}
	if credential, ok := g.client.config.Credentials[originOf(u)]; ok {
		r.Header.Set("Authorization", credential.header)
	}
	return r, nil
}

// maxURL is the greatest length of a URL, in octets.
const maxURL = 8 << 10

// parse accepts an absolute http or https URL without user information.
func parse(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("URL of %d octets, at most %d", len(raw), maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("not a URL") // the parser's error repeats what may be a password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("scheme %.20q is neither http nor https", u.Scheme)
	case u.User != nil:
		return nil, errors.New("the URL holds user information; put credentials in a file or the environment")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// Origin returns the origin of an http or https URL as Config.Allowed has it:
// scheme, host in lower case, and the port unless it is the scheme's own.
func Origin(rawURL string) (string, error) {
	u, err := parse(rawURL)
	if err != nil {
		return "", err
	}
	return originOf(u), nil
}

func originOf(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port != "" && port != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		return u.Scheme + "://" + net.JoinHostPort(host, port)
	}
	if strings.IndexByte(host, ':') >= 0 {
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host
}
