package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Bounds on what a log may make us wait for and read.
const (
	requestTime  = 10 * time.Second
	maxNote      = 64 << 10 // octets
	maxProof     = 64 << 10 // octets
	maxHeader    = 64 << 10 // octets
	publishTime  = 5 * time.Second
	pollInterval = 250 * time.Millisecond
)

// errUnreachable is an answer that did not come, or came with another status
// than 200; errAbsent is the status 404, which a log gives before it publishes
// for the first time.
var (
	errUnreachable = errors.New("log not reachable")
	errAbsent      = errors.New("not there")
)

// A logClient reads the public side of one log. Whatever answers is treated as
// hostile: it may be slow, endless or wrong. Redirects and proxies named in the
// environment are not followed, so that the address asked is the one given.
type logClient struct {
	base   string // without trailing slash
	client *http.Client

	// How long, and how often, checkpoint asks a log that is still behind.
	patience, interval time.Duration
}

// newLogClient accepts an http or https URL without user, query or fragment.
func newLogClient(base string) (*logClient, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, fmt.Errorf("log URL %q: want http(s)://HOST[:PORT][/PATH]", base)
	}
	return &logClient{
		base: strings.TrimRight(base, "/"),
		client: &http.Client{
			Timeout: requestTime,
			Transport: &http.Transport{
				DialContext:            (&net.Dialer{Timeout: requestTime / 2}).DialContext,
				TLSHandshakeTimeout:    requestTime / 2,
				MaxResponseHeaderBytes: maxHeader,
				DisableCompression:     true,
				MaxConnsPerHost:        1,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		patience: publishTime,
		interval: pollInterval,
	}, nil
}

func (c *logClient) close() { c.client.CloseIdleConnections() }

// checkpoint fetches the published note, verified by vkey, of at least the
// given size. A log publishes what it receipted up to a second later; after
// patience the note is returned as it is.
func (c *logClient) checkpoint(ctx context.Context, vkey string, atLeast uint64) ([]byte, error) {
	deadline := time.Now().Add(c.patience)
	for {
		note, err := c.fetch(ctx, "/checkpoint", maxNote)
		behind := errors.Is(err, errAbsent)
		if err != nil && !behind {
			return nil, err
		}
		if err == nil {
			tree, bad := translog.OpenNote(note, vkey)
			if bad != nil {
				return nil, fmt.Errorf("%s/checkpoint: %w", c.base, bad)
			}
			behind = tree.Size < atLeast
		}
		if !behind || time.Now().After(deadline) {
			return note, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(c.interval):
		}
	}
}

// Consistency fetches the proof between two sizes. It is not verified here.
func (c *logClient) Consistency(ctx context.Context, from, to uint64) ([][32]byte, error) {
	b, err := c.fetch(ctx, fmt.Sprintf("/proof/consistency?from=%d&to=%d", from, to), maxProof)
	if errors.Is(err, errAbsent) { // it answers, and does not stand by that size
		return nil, fmt.Errorf("%s does not publish a tree of %d entries", c.base, to)
	}
	if err != nil {
		return nil, err
	}
	var proof translog.ConsistencyProof
	if err := json.Unmarshal(b, &proof); err != nil {
		return nil, fmt.Errorf("consistency proof of %s: %w", c.base, err)
	}
	if proof.From != from || proof.To != to {
		return nil, fmt.Errorf("consistency proof of %s: from size %d to %d, asked for %d to %d", c.base, proof.From, proof.To, from, to)
	}
	return translog.Path(proof.Hashes), nil
}

// fetch reads at most limit octets.
func (c *logClient) fetch(ctx context.Context, path string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "uzpif-oi-auditor")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%w: %s%s is %w", errUnreachable, c.base, path, errAbsent)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s%s answered %.60q", errUnreachable, c.base, path, resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s%s: %w", errUnreachable, c.base, path, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s%s is over %d octets", c.base, path, limit)
	}
	return b, nil
}
