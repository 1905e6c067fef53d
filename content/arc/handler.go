package arc

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/serve"
)

// A Handler serves the folder of an export, and nothing else of it than an
// export's files: with strong ETags and Last-Modified, answers to conditional
// requests, and gzip. The sitemap is at its own path and below /.well-known/.
//
// Paths are those of requests below Prefix. TLS, logs and limits of rate are the
// business of the server around it.
type Handler struct {
	Dir *os.Root
	// Prefix is the path of the export's base URL; empty stands for "/".
	Prefix string

	// Authorise says whether a request may read what is there; nil: all may. Who
	// may not is told 401 with Challenge as WWW-Authenticate, whatever conditions
	// the request has (E.6, E.12).
	Authorise func(*http.Request) bool
	Challenge string

	// Served, if not nil, is told of each answer: what was asked for, and the
	// status (E.12).
	Served func(r *http.Request, status int)

	server serve.Server
	etags  serve.ETags
}

// The Cache-Control of what is served.
const caching = "max-age=0, must-revalidate, stale-while-revalidate=60"

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.Served != nil {
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		w = seen
		defer func() { h.Served(r, seen.status) }()
	}
	name, ok := h.file(r.URL.Path)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		serve.Refuse(w, http.StatusMethodNotAllowed)
	case h.Authorise != nil && !h.Authorise(r):
		w.Header().Set("WWW-Authenticate", h.Challenge)
		w.Header().Set("Cache-Control", "no-store")
		serve.Refuse(w, http.StatusUnauthorized)
	case !ok:
		serve.Refuse(w, http.StatusNotFound)
	default:
		h.serve(w, r, name)
	}
}

// file is the name of the file that stands at a path.
func (h *Handler) file(at string) (name string, ok bool) {
	name, ok = strings.CutPrefix(at, h.prefix())
	if name == ".well-known/"+SitemapFile {
		name = SitemapFile
	}
	return name, ok && mediaType(name) != ""
}

// mediaType is that of an export's file; empty for any other.
func mediaType(name string) string {
	if _, isDelta := isDeltaFile(name); isDelta {
		return "application/json"
	}
	switch name {
	case SitemapFile, policyFile:
		return "application/json"
	case YAMLFile:
		return "application/yaml"
	case DescriptorFile:
		return "application/ld+json"
	}
	return ""
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, name string) {
	f, info, etag, err := h.etags.Open(h.Dir, name, maxSitemap)
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) {
			status = http.StatusNotFound
		}
		serve.Refuse(w, status)
		return
	}
	defer f.Close()
	p := &serve.Representation{Content: f, ETag: etag, Modified: info.ModTime(), Type: mediaType(name)}
	// The compressed file is written first; one of another content belongs to what
	// stands here next.
	if z, _, of, err := h.etags.Open(h.Dir, name+".gz", maxSitemap); err == nil {
		defer z.Close()
		if of == etag {
			p.Gzip = z
		}
	}
	w.Header().Set("Cache-Control", caching)
	if h.Authorise != nil {
		w.Header().Set("Cache-Control", "private, no-store")
	}
	if _, err := h.Dir.Stat(policyFile); err == nil && name == SitemapFile {
		w.Header().Set("Link", `<`+h.prefix()+policyFile+`>; rel="describedby"; type="application/json"`)
	}
	h.server.Serve(w, r, p)
}

func (h *Handler) prefix() string {
	if h.Prefix == "" {
		return "/"
	}
	return h.Prefix
}

// A statusWriter remembers the status that was sent.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
