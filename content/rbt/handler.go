package rbt

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/uzpif-oi/uzpif-oi/content/serve"
)

// A Handler serves the folder of an export, and the registry that may lie in it:
// manifests and Markdown by the media types of section 4.3, resources by those
// that the manifest names. What no manifest lists is not there, .git least of
// all. Conditions are evaluated, ETags are strong.
//
// TLS, logs, tokens and limits of rate are the business of the server around it.
type Handler struct {
	Dir *os.Root
	// Prefix is the path of the folder's URL; empty stands for "/".
	Prefix string

	server serve.Server
	etags  serve.ETags

	typesMu sync.Mutex
	types   map[string]string // of resources, by path
	of      string            // ETag of the manifest that names them
}

// maxServed is the greatest size of a file that is served, in octets.
const maxServed = 100 << 20

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		serve.Refuse(w, http.StatusMethodNotAllowed)
		return
	}
	prefix := h.Prefix
	if prefix == "" {
		prefix = "/"
	}
	name, ok := strings.CutPrefix(r.URL.Path, prefix)
	mediaType := ""
	if ok && fs.ValidPath(name) {
		mediaType = h.typeOf(name)
	}
	if mediaType == "" {
		serve.Refuse(w, http.StatusNotFound)
		return
	}
	f, info, etag, err := h.etags.Open(h.Dir, name, maxServed)
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) {
			status = http.StatusNotFound
		}
		serve.Refuse(w, status)
		return
	}
	defer f.Close()
	w.Header().Set("Cache-Control", "max-age=0, must-revalidate")
	h.server.Serve(w, r, &serve.Representation{Content: f, ETag: etag, Modified: info.ModTime(), Type: mediaType})
}

// typeOf is the media type that a path is served as; empty if nothing is there.
func (h *Handler) typeOf(name string) string {
	switch name {
	case ManifestFile, RegistryFile, strings.TrimPrefix(WellKnownBurrow, "/"), strings.TrimPrefix(WellKnownWarren, "/"):
		return "application/json; charset=utf-8"
	case RegistryPageFile:
		return "text/markdown; charset=utf-8"
	}
	h.typesMu.Lock()
	defer h.typesMu.Unlock()
	f, _, etag, err := h.etags.Open(h.Dir, ManifestFile, maxServed)
	if err != nil {
		return ""
	}
	defer f.Close()
	if etag != h.of {
		types := make(map[string]string)
		data, err := readBounded(f)
		if err != nil {
			return ""
		}
		m, err := ParseManifest(data, Options{})
		if err != nil {
			return ""
		}
		for at, e := range listed(m, h.read) {
			types[at] = e.Type
			if e.Children != nil {
				types[at] = "application/json; charset=utf-8"
			}
		}
		h.types, h.of = types, etag
	}
	return h.types[name]
}

func (h *Handler) read(name string) ([]byte, error) {
	f, err := h.Dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f)
}

func readBounded(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxManifest+1)) }
