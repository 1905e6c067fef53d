package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Errors that callers branch on.
var (
	// ErrUnavailable: no answer came, or the log was too busy to give one.
	ErrUnavailable = errors.New("log not reachable")
	// ErrAbsent: the log answered that it has no such thing.
	ErrAbsent = errors.New("the log does not have it")
	// ErrMalformed: what came is not what was asked for.
	ErrMalformed = errors.New("malformed answer of the log")
)

// maxHeader bounds the header of an answer, in octets, and the body of one that
// gives a reason and nothing else.
const maxHeader = 64 << 10

// Options of a Client. The zero value is right for a program.
type Options struct {
	// Timeout bounds one request with its answer. 0 means 30 s.
	Timeout time.Duration
	// Tries is how often a request is made that fails or is refused for now
	// (429, 5xx). 0 means 4.
	Tries int
	// Patience bounds the time that all tries of one request wait between
	// them; a Retry-After beyond it ends them. 0 means 30 s.
	Patience time.Duration
	// Ahead is how many bundles are fetched ahead of the reader, each of up to
	// 16 MiB and of some hundred KiB as a rule. 0 means 8.
	Ahead int
	// Agent is the User-Agent. Empty means "uzpif-oi".
	Agent string
	// Dial opens connections, to HOST:PORT. nil means directly.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Tries = max(cmp.Or(o.Tries, 4), 1)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	o.Ahead = max(cmp.Or(o.Ahead, 8), 1)
	o.Agent = cmp.Or(o.Agent, "uzpif-oi")
	return o
}

// A Client reads one log. It is safe for concurrent use, and must be closed.
type Client struct {
	base   string // without trailing slash
	vkey   string
	o      Options
	client *http.Client

	// noteMu guards the newest note that was verified, and its ETag.
	noteMu sync.Mutex
	note   []byte
	tag    string
}

// CheckURL accepts an http or https URL without user, query or fragment.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(base, "#") {
		return fmt.Errorf("log URL %.200q: want http(s)://HOST[:PORT][/PATH]", base)
	}
	return nil
}

// New makes a client of the log at base, see CheckURL, whose notes are verified
// by vkey.
func New(base, vkey string, o Options) (*Client, error) {
	if err := CheckURL(base); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	dial := (&net.Dialer{Timeout: o.Timeout / 2}).DialContext
	if o.Dial != nil {
		dial = func(ctx context.Context, _, address string) (net.Conn, error) { return o.Dial(ctx, address) }
	}
	return &Client{
		base: strings.TrimRight(base, "/"), vkey: vkey, o: o,
		client: &http.Client{
			Timeout: o.Timeout,
			Transport: &http.Transport{
				DialContext:            dial,
				TLSHandshakeTimeout:    o.Timeout / 2,
				MaxResponseHeaderBytes: maxHeader,
				DisableCompression:     true, // it is undone here, within bounds
				MaxConnsPerHost:        o.Ahead,
				MaxIdleConnsPerHost:    o.Ahead,
				IdleConnTimeout:        time.Minute,
				ForceAttemptHTTP2:      true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close gives up the connections.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// URL is the address of the log, without a trailing slash.
func (c *Client) URL() string { return c.base }

// VerifierKey is the key by which notes are verified.
func (c *Client) VerifierKey() string { return c.vkey }

// A reply is a complete answer. Without a body it is 304: what tag named holds.
type reply struct {
	body []byte
	tag  string
}

// fetch gets what lies at path, of at most limit octets, with the tries that
// Options allow. tag, if it is not empty, makes the request conditional.
func (c *Client) fetch(ctx context.Context, path, tag string, limit int64) (reply, error) {
	var waited time.Duration
	for try := 1; ; try++ {
		r, after, err := c.once(ctx, path, tag, limit)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrUnavailable) {
			return r, errors.Join(err, ctx.Err())
		}
		// A log that says when to come again is not asked before.
		pause := max(after, 100*time.Millisecond<<(try-1))
		if waited += pause; try >= c.o.Tries || waited > c.o.Patience {
			return r, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return r, ctx.Err()
		}
	}
}

// once makes one request. after is how long the log asks to be left alone.
func (c *Client) once(ctx context.Context, path, tag string, limit int64) (r reply, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return r, 0, err
	}
	req.Header.Set("User-Agent", c.o.Agent)
	req.Header.Set("Accept-Encoding", "gzip")
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return r, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// What is left unread costs the connection, and most sizes of a log have no
		// checkpoint of their own. An error leaves it unread, which is no worse.
		io.CopyN(io.Discard, resp.Body, maxHeader)
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && tag != "":
		return reply{tag: tag}, 0, nil
	case resp.StatusCode == http.StatusNotFound:
		return r, 0, fmt.Errorf("%s%s: %w", c.base, path, ErrAbsent)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return r, retryAfter(resp.Header), fmt.Errorf("%w: %s%s answered %.60q", ErrUnavailable, c.base, path, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return r, 0, fmt.Errorf("%w: %s%s answered %.60q", ErrMalformed, c.base, path, resp.Status)
	}
	r.tag = resp.Header.Get("ETag")
	r.body, err = c.read(resp, path, limit)
	return r, 0, err
}

// read reads a body, decompressed. A body that ends too early is ErrUnavailable:
// what is missing may come when it is asked for again.
func (c *Client) read(resp *http.Response, path string, limit int64) ([]byte, error) {
	raw := &watched{r: resp.Body}
	var body io.Reader = raw
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "":
	case "gzip":
		z, err := gzip.NewReader(raw)
		if err != nil {
			return nil, c.bad(path, raw, err)
		}
		body = z
	default:
		return nil, fmt.Errorf("%w: %s%s has the encoding %.40q", ErrMalformed, c.base, path, encoding)
	}
	size := min(limit, max(resp.ContentLength, 0))
	buf := make([]byte, 0, min(size, 1<<20)+512) // a header's word is believed for 1 MiB
	b, err := readAll(buf, io.LimitReader(body, limit+1))
	if err != nil {
		return nil, c.bad(path, raw, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: %s%s is over %d octets", ErrMalformed, c.base, path, limit)
	}
	return b, nil
}

// bad tells a connection that failed from octets that are wrong.
func (c *Client) bad(path string, raw *watched, err error) error {
	if raw.err != nil {
		return fmt.Errorf("%w: %s%s: %w", ErrUnavailable, c.base, path, raw.err)
	}
	return fmt.Errorf("%w: %s%s: %w", ErrMalformed, c.base, path, err)
}

// watched remembers whether reading failed, whatever is made of it above.
type watched struct {
	r   io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// readAll is io.ReadAll into a buffer of a capacity that was foreseen.
func readAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}

// retryAfter reads Retry-After in its form of seconds, of which at most an hour
// is believed.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseUint(h.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, time.Hour)
}
