package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/uzpif-oi/uzpif-oi/content/serve"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
)

// A Config says what a gateway hands out.
type Config struct {
	Indexer *indexer.Indexer
	// Purpose is the one for which whoever asks is taken to read.
	Purpose grants.Purpose
	// URL is that of the gateway as others reach it, with a slash at its end.
	URL  string
	Rate float64 // requests a second of each client
	// Proxied says that the client's address is what a proxy in front says last.
	Proxied bool
	Log     *slog.Logger
}

// A Gateway answers requests.
type Gateway struct {
	c        Config
	clients  clients
	crowd    crowd // requests that are being answered, by client
	peers    crowd // connections, by address
	editions editions

	// namesMu guards names, the collections that a request has found.
	namesMu sync.Mutex
	names   map[string]name

	requests, limited, refused, crowded, cut atomic.Uint64
}

type name struct {
	publisher envelope.Name
	series    string
}

// maxNames bounds the names that are kept.
const maxNames = 4096

// New makes a gateway.
func New(c Config) *Gateway {
	g := &Gateway{c: c, names: make(map[string]name), crowd: crowd{most: clientRequests}, peers: crowd{most: clientConnections}}
	g.SetRate(c.Rate)
	g.editions.building = make(chan struct{}, 1)
	g.editions.all = make(map[string]*edition)
	return g
}

// SetRate sets, at any time, how many requests a second each client has.
func (g *Gateway) SetRate(rate float64) {
	g.clients.allMu.Lock()
	defer g.clients.allMu.Unlock()
	g.clients.rate = rate
}

// Figures are what an operator watches.
type Figures struct {
	Requests uint64
	Limited  uint64 // answered 429
	Refused  uint64 // for what is not there, or may not be passed on
	Cut      uint64 // answers that were cut off where permission ended
	Crowded  uint64 // connections closed at once, of a client that has too many
}

// Figures counts since the start.
func (g *Gateway) Figures() Figures {
	return Figures{g.requests.Load(), g.limited.Load(), g.refused.Load(), g.cut.Load(), g.crowded.Load()}
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	g.requests.Add(1)
	w := &asking{ResponseWriter: to, g: g}
	client := clientOf(r, g.c.Proxied)
	if !g.crowd.enter(client) {
		g.limit(w)
		return
	}
	defer g.crowd.leave(client)
	if !g.clients.take(client) {
		g.limit(w)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		serve.Refuse(w, http.StatusMethodNotAllowed)
		return
	}
	reading, err := g.c.Indexer.Reading(g.c.Purpose, true)
	if err != nil {
		g.fail(w, err)
		return
	}
	defer reading.Close()
	id, file, below := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if !below {
		h := &tct.Handler{Documents: telling{&root{g, reading}, g}, Index: "/" + tct.SitemapFile, Clear: anyhow}
		h.ServeHTTP(w, r)
		return
	}
	o, err := g.offer(reading, id)
	if err != nil {
		g.fail(w, err)
		return
	}
	w.Header().Set("Content-Usage", usage(o))
	if file == scpSitemap || strings.HasPrefix(file, id+scpPart) {
		g.serveSCP(w, r, reading, o, file)
		return
	}
	h := &tct.Handler{
		Documents: telling{&folder{g, reading, o, w}, g}, Index: "/" + id + "/" + tct.SitemapFile, Policy: "/" + id + "/" + tct.PolicyFile, Clear: anyhow,
	}
	h.ServeHTTP(w, r)
}

func (g *Gateway) limit(w http.ResponseWriter) {
	g.limited.Add(1)
	w.Header().Set("Retry-After", "1")
	serve.Refuse(w, http.StatusTooManyRequests)
}

func anyhow(*http.Request) bool { return true }

// offer finds an open collection by its name in paths.
func (g *Gateway) offer(r *indexer.Reading, id string) (*indexer.Offer, error) {
	g.namesMu.Lock()
	n, known := g.names[id]
	g.namesMu.Unlock()
	if known {
		return r.Offer(n.publisher, n.series)
	}
	all, err := r.Offers()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if export.ID(&all[i]) != id {
			continue
		}
		g.namesMu.Lock()
		if len(g.names) >= maxNames {
			clear(g.names)
		}
		g.names[id] = name{all[i].Publisher, all[i].Series}
		g.namesMu.Unlock()
		return &all[i], nil
	}
	return nil, fs.ErrNotExist
}

// fail answers without a representation: 410 for what was withdrawn, 404 for all else
// that may not be read, whatever the reason.
func (g *Gateway) fail(w http.ResponseWriter, err error) {
	err = gone(err)
	switch {
	case errors.Is(err, tct.ErrGone):
		serve.Refuse(w, http.StatusGone)
	case errors.Is(err, fs.ErrNotExist):
		serve.Refuse(w, http.StatusNotFound)
	case errors.Is(err, context.Canceled):
		serve.Refuse(w, http.StatusServiceUnavailable)
	default:
		g.c.Log.Error("gateway", "error", err)
		serve.Refuse(w, http.StatusInternalServerError)
	}
}

// telling are documents whose faults are told: their handler says nothing of them.
type telling struct {
	tct.Documents
	g *Gateway
}

// Open opens one.
func (d telling) Open(ctx context.Context, path string) (*tct.Served, error) {
	s, err := d.Documents.Open(ctx, path)
	if err = gone(err); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, tct.ErrGone) && ctx.Err() == nil {
		d.g.c.Log.Error("gateway", "error", err)
	}
	return s, err
}

// gone turns a refusal into what a request is told.
func gone(err error) error {
	var reason grants.Reason
	switch {
	case errors.Is(err, grants.ErrRevoked):
		return tct.ErrGone
	case errors.As(err, &reason):
		return fs.ErrNotExist
	}
	return err
}

// usage is the Content-Usage of what a collection's terms allow.
func usage(o *indexer.Offer) string {
	say := func(p grants.Purpose) string {
		if o.Terms.Purposes.Has(p) {
			return "y"
		}
		return "n"
	}
	return fmt.Sprintf("search=%s, train-ai=%s", say(grants.SearchIndex), say(grants.AITrain))
}

// asking has caches ask before each use: consent may end at any time, and what the
// formats let caches do without asking is for who owns the pages. A refusal is not to
// be kept at all, and says nothing of what its terms would be.
//
// While a body goes out, permission is looked up again before each piece of it that is
// written (at most 32 KiB). Where it has ended the answer is cut off, which its length
// tells the client.
type asking struct {
	http.ResponseWriter
	g     *Gateway
	watch *indexer.Watch // of what is being sent; nil: it holds nothing of any page
}

// Write writes one piece, if all of the body may still be read.
func (a *asking) Write(b []byte) (int, error) {
	if a.watch != nil {
		if err := a.watch.Look(); err != nil {
			a.g.cut.Add(1)
			if !errors.Is(err, indexer.ErrEnding) {
				a.g.c.Log.Error("gateway", "error", err)
			}
			panic(http.ErrAbortHandler)
		}
	}
	return a.ResponseWriter.Write(b)
}

// WriteHeader replaces what the formats say.
func (a *asking) WriteHeader(status int) {
	h := a.Header()
	h.Set("Cache-Control", "no-cache")
	if status >= http.StatusBadRequest && status != http.StatusPreconditionFailed && status != http.StatusRequestedRangeNotSatisfiable {
		h.Set("Cache-Control", "no-store")
		h.Del("Content-Usage")
	}
	if status == http.StatusNotFound || status == http.StatusGone {
		a.g.refused.Add(1)
	}
	a.ResponseWriter.WriteHeader(status)
}

// nopCloser is content in memory.
type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

func inMemory(b []byte) nopCloser { return nopCloser{bytes.NewReader(b)} }
