package tct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
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

	compressors sync.Pool // of *gzip.Writer
}

// WellKnown is the path below which agents may look for a sitemap of which no
// link tells. It redirects to Index.
const WellKnown = "/.well-known/llm-sitemap.json"

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed)
		return
	}
	if r.TLS == nil && (h.Clear == nil || !h.Clear(r)) {
		w.Header().Set("Location", "https://"+r.Host+r.URL.RequestURI())
		refuse(w, http.StatusPermanentRedirect)
		return
	}
	if r.URL.Path == WellKnown && h.Index != "" {
		w.Header().Set("Location", h.Index)
		refuse(w, http.StatusPermanentRedirect)
		return
	}
	s, err := h.Documents.Open(r.Context(), r.URL.EscapedPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		refuse(w, http.StatusNotFound)
		return
	case errors.Is(err, ErrGone):
		refuse(w, http.StatusGone)
		return
	case err != nil:
		refuse(w, http.StatusInternalServerError)
		return
	}
	defer s.close()
	switch {
	case s.Protected && (h.Authorise == nil || !h.Authorise(r)):
		h.deny(w)
	case s.Moved != "":
		w.Header().Set("Location", s.Moved)
		refuse(w, http.StatusPermanentRedirect)
	default:
		h.serve(w, r, s)
	}
}

// refuse answers without a representation.
func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

func (h *Handler) deny(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if h.Challenge == "" {
		refuse(w, http.StatusNotFound)
		return
	}
	w.Header().Set("WWW-Authenticate", h.Challenge)
	refuse(w, http.StatusUnauthorized)
}

// serve answers with a representation, or with the part of its header that a
// condition leaves.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, s *Served) {
	h.head(w.Header(), s)
	if status := evaluate(r.Header, s); status != 0 {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if acceptsGzip(r.Header) {
		// One ETag stands for both codings, so a range of one could be glued to
		// the other: to who accepts gzip, no ranges are sent.
		body, err := h.compressed(s)
		if err != nil {
			h.fail(w)
			return
		}
		if body != nil {
			w.Header().Set("Content-Encoding", "gzip")
			send(w, r, body)
			return
		}
	} else if r.Header.Get("Range") != "" {
		h.ranges(w, r, s)
		return
	}
	send(w, r, s.Content)
}

// fail takes back what promised a representation.
func (h *Handler) fail(w http.ResponseWriter) {
	clear(w.Header())
	refuse(w, http.StatusInternalServerError)
}

// head sets the fields that 200 and 304, GET and HEAD have in common.
func (h *Handler) head(header http.Header, s *Served) {
	header.Set("ETag", `"`+s.ETag+`"`)
	header.Set("Vary", "Accept-Encoding")
	header.Set("X-Content-Type-Options", "nosniff")
	if !s.Modified.IsZero() {
		header.Set("Last-Modified", s.Modified.UTC().Format(http.TimeFormat))
	}
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

// evaluate evaluates the preconditions of RFC 9110, 13.2.2: 0 goes on.
func evaluate(h http.Header, s *Served) (status int) {
	if ifMatch := h.Values("If-Match"); len(ifMatch) > 0 {
		if !matches(ifMatch, s.ETag, false) {
			return http.StatusPreconditionFailed
		}
	} else if t, ok := date(h, "If-Unmodified-Since"); ok && s.Modified.Truncate(time.Second).After(t) {
		return http.StatusPreconditionFailed
	}
	// Where there is an If-None-Match, If-Modified-Since counts for nothing: to
	// evaluate it after a mismatch would answer 304 to who holds something else.
	if ifNoneMatch := h.Values("If-None-Match"); len(ifNoneMatch) > 0 {
		if matches(ifNoneMatch, s.ETag, true) {
			return http.StatusNotModified
		}
	} else if t, ok := date(h, "If-Modified-Since"); ok && !s.Modified.IsZero() && !s.Modified.Truncate(time.Second).After(t) {
		return http.StatusNotModified
	}
	return 0
}

func date(h http.Header, field string) (time.Time, bool) {
	t, err := http.ParseTime(h.Get(field))
	return t, err == nil
}

// matches reports whether a list of ETags has one that is etag. In a weak
// comparison, tags that are marked as weak or as those of a compressed body
// match as well.
func matches(fields []string, etag string, weak bool) bool {
	rest := strings.Join(fields, ",")
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			return false
		}
		if rest[0] == '*' {
			return true
		}
		tag, isWeak := strings.CutPrefix(rest, "W/")
		if tag == "" || tag[0] != '"' {
			return false
		}
		end := strings.IndexByte(tag[1:], '"')
		if end < 0 {
			return false
		}
		tag, rest = tag[:end+2], tag[end+2:]
		if clean, odd := CleanETag(tag); clean == etag && (weak || !isWeak && odd == "") {
			return true
		}
	}
}

// ranges serves a part, if If-Range allows it.
func (h *Handler) ranges(w http.ResponseWriter, r *http.Request, s *Served) {
	// The conditions have been evaluated; what is left for the library is If-Range,
	// which it takes as a strong comparison.
	r = r.Clone(r.Context())
	for _, field := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		r.Header.Del(field)
	}
	http.ServeContent(w, r, "", s.Modified, s.Content)
}

// send sends a whole body, its length first.
func send(w http.ResponseWriter, r *http.Request, body io.ReadSeeker) {
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err != nil {
		clear(w.Header())
		refuse(w, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		io.CopyN(w, body, size) // what fails here, the client sees
	}
}

// worthIt bounds what is compressed while a request waits, in octets. Above,
// compressing would take more memory than it is worth; below, more time.
const worthItFrom, worthItTo = 256, 8 << 20

// compressed returns the gzipped body, or nil if it is not worth it.
func (h *Handler) compressed(s *Served) (io.ReadSeeker, error) {
	if s.Gzip != nil {
		return s.Gzip, nil
	}
	size, err := s.Content.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if _, err := s.Content.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if size < worthItFrom || size > worthItTo {
		return nil, nil
	}
	var b bytes.Buffer
	z, _ := h.compressors.Get().(*gzip.Writer)
	if z == nil {
		z = gzip.NewWriter(&b)
	}
	defer h.compressors.Put(z)
	z.Reset(&b)
	if _, err := io.Copy(z, s.Content); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.NewReader(b.Bytes()), nil
}

// acceptsGzip reads Accept-Encoding: gzip or *, unless its weight is zero.
func acceptsGzip(h http.Header) bool {
	accepted := map[string]bool{}
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, parameters, _ := strings.Cut(part, ";")
		weight := 1.0
		if _, q, ok := strings.Cut(strings.ToLower(parameters), "q="); ok {
			weight, _ = strconv.ParseFloat(strings.TrimSpace(q), 64) // what is no number is zero
		}
		accepted[strings.ToLower(strings.TrimSpace(coding))] = weight > 0
	}
	if ok, named := accepted["gzip"]; named {
		return ok
	}
	return accepted["*"]
}
