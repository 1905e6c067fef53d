package tct

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/serve"
)

// The Cache-Control values of the draft, for pages and for sitemaps.
const (
	pageCaching    = "max-age=0, must-revalidate, stale-while-revalidate=60, stale-if-error=86400"
	sitemapCaching = "max-age=0, must-revalidate, stale-while-revalidate=60"
)

// ErrGone says that what stood at a path was removed for good.
var ErrGone = errors.New("the page was removed for good")

// A Kind tells what a Served is.
type Kind uint8

// The kinds of what a site serves.
const (
	Payload Kind = iota + 1
	Sitemap
	Descriptor // of the policy
)

// A Served is what stands at a path.
type Served struct {
	Kind Kind
	// Content is read from its start to its end, and closed.
	Content io.ReadSeekCloser
	// Gzip is Content, compressed beforehand; it may be nil.
	Gzip      io.ReadSeekCloser
	ETag      string    // without quotes
	Canonical string    // the C-URL of a payload
	Modified  time.Time // zero if it is not known
	// Protected says that Authorise must agree before anything is said of it.
	Protected bool
	// Moved is the path of the resource that took this one's place for good;
	// all else is then empty.
	Moved string
}

func (s *Served) close() {
	if s.Content != nil {
		s.Content.Close()
	}
	if s.Gzip != nil {
		s.Gzip.Close()
	}
}

// Documents are what a Handler serves. Open looks up the path of a request as
// it was sent, percent-encoding and all. Its error is fs.ErrNotExist where there
// is nothing, as for pages that only list others, and ErrGone where there was;
// any other one is the server's own fault. A sitemap that it returns must list
// no Protected page unless it is Protected itself.
type Documents interface {
	Open(ctx context.Context, path string) (*Served, error)
}

// A Handler serves documents as the draft asks: strong ETags and If-None-Match
// before all else, no body where none belongs, the same header for HEAD as for
// GET, and Content-Length throughout.
type Handler struct {
	Documents Documents

	// Authorise says whether a request may see what is Protected; nil: none may.
	// Who may not is told 401 with Challenge as WWW-Authenticate, or 404 if
	// Challenge is empty, whatever conditions the request has.
	Authorise func(*http.Request) bool
	Challenge string

	// Clear says whether a request that came without TLS is answered all the
	// same: behind a proxy that ends TLS, or on loopback. Nil: none is; it is
	// sent to the https URL.
	Clear func(*http.Request) bool

	// Policy and Index are the paths of the policy descriptor and the sitemap,
	// for links; empty for none.
	Policy, Index string

	server serve.Server
}

// WellKnown is the path below which agents may look for a sitemap of which no
// link tells. It redirects to Index.
const WellKnown = "/.well-known/llm-sitemap.json"

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		serve.Refuse(w, http.StatusMethodNotAllowed)
		return
	}
	if r.TLS == nil && (h.Clear == nil || !h.Clear(r)) {
		w.Header().Set("Location", "https://"+r.Host+r.URL.RequestURI())
		serve.Refuse(w, http.StatusPermanentRedirect)
		return
	}
	if r.URL.Path == WellKnown && h.Index != "" {
		w.Header().Set("Location", h.Index)
		serve.Refuse(w, http.StatusPermanentRedirect)
		return
	}
	s, err := h.Documents.Open(r.Context(), r.URL.EscapedPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		serve.Refuse(w, http.StatusNotFound)
		return
	case errors.Is(err, ErrGone):
		serve.Refuse(w, http.StatusGone)
		return
	case err != nil:
		serve.Refuse(w, http.StatusInternalServerError)
		return
	}
	defer s.close()
	switch {
	case s.Protected && (h.Authorise == nil || !h.Authorise(r)):
		h.deny(w)
	case s.Moved != "":
		w.Header().Set("Location", s.Moved)
		serve.Refuse(w, http.StatusPermanentRedirect)
	default:
		h.head(w.Header(), s)
		p := &serve.Representation{Content: s.Content, ETag: s.ETag, Modified: s.Modified, Type: "application/json; charset=utf-8"}
		if s.Gzip != nil {
			p.Gzip = s.Gzip
		}
		h.server.Serve(w, r, p)
	}
}

func (h *Handler) deny(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if h.Challenge == "" {
		serve.Refuse(w, http.StatusNotFound)
		return
	}
	w.Header().Set("WWW-Authenticate", h.Challenge)
	serve.Refuse(w, http.StatusUnauthorized)
}

// head sets the fields that 200 and 304, GET and HEAD have in common, and that
// are the draft's own.
func (h *Handler) head(header http.Header, s *Served) {
	header.Set("Cache-Control", sitemapCaching)
	if s.Kind == Payload {
		header.Set("Cache-Control", pageCaching)
		header.Add("Link", fmt.Sprintf(`<%s>; rel="canonical"`, s.Canonical))
	}
	if s.Protected {
		header.Set("Cache-Control", "private, no-store")
	}
	if h.Index != "" && s.Kind == Payload {
		header.Add("Link", fmt.Sprintf(`<%s>; rel="index"; type="application/json"`, h.Index))
	}
	if h.Policy != "" && s.Kind == Sitemap {
		header.Add("Link", fmt.Sprintf(`<%s>; rel="describedby"; type="application/json"`, h.Policy))
	}
}
