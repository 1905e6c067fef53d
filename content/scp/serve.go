package scp

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Handler serves the folder of an export as "Use with HTTP" asks: with media
// type and coding by the file's ending, the collection's checksum as ETag, its
// time as Last-Modified, and answers to conditional requests. It serves
// collections and sitemaps by their names at the root, and nothing else.
//
// freq is the update frequency, from which the times for caches follow.
// Rate limits, and TLS, are the business of the server around it.
func Handler(dir *os.Root, freq string) http.Handler {
	return &handler{dir, interval(freq)}
}

type handler struct {
	dir   *os.Root
	every time.Duration
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	isMap := strings.HasPrefix(name, "sitemap") && strings.HasSuffix(name, ".xml")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	case strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") || !isMap && !isCollectionName(name):
		http.NotFound(w, r)
		return
	}
	f, err := h.dir.Open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	if isMap {
		// Two exports may lie within the second that Last-Modified knows.
		ServeSitemap(w, r, f, fmt.Sprintf("%x-%x", info.ModTime().UnixNano(), info.Size()), info.ModTime())
		return
	}
	h.collection(w, r, f, info.Size(), info.ModTime())
}

// ServeSitemap answers a GET or HEAD with a sitemap, under an ETag without quotes.
func ServeSitemap(w http.ResponseWriter, r *http.Request, sitemap io.ReadSeeker, etag string, modified time.Time) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "application/xml; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=60, must-revalidate")
	w.Header().Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, "", modified, sitemap)
}

// ServeCollection answers a GET or HEAD with a collection of so many octets, as
// Handler does.
func ServeCollection(w http.ResponseWriter, r *http.Request, collection io.ReadSeeker, size int64, freq string) {
	h := &handler{every: interval(freq)}
	h.collection(w, r, collection, size, time.Time{})
}

// collection serves one file; what it cannot read of it, it leaves unsaid.
func (h *handler) collection(w http.ResponseWriter, r *http.Request, f io.ReadSeeker, size int64, modified time.Time) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	// ServeContent leaves the length out where a coding is set.
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	header.Set("Content-Type", "application/scp")
	c, packed, err := metadata(f)
	if coding := packed.Coding(); coding != "" {
		header.Set("Content-Encoding", coding)
	}
	maxAge, rest := h.every, "stale-while-revalidate=3600"
	if err == nil {
		modified = c.Generated
		if c.Checksum != "" {
			header.Set("ETag", `"`+c.Checksum+`"`)
		}
		if c.Type == Delta {
			maxAge, rest = min(h.every, time.Hour)/2, "must-revalidate"
		}
	}
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d, %s", int(maxAge.Seconds()), rest))
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	http.ServeContent(w, r, "", modified, f)
}

// metadata reads the first line of a collection, and how the file is packed.
func metadata(r io.Reader) (Collection, Compression, error) {
	u, err := unpack(r, Limits{})
	if err != nil {
		return Collection{}, Plain, err
	}
	defer u.close()
	line, err := newLines(u).next()
	if err != nil {
		return Collection{}, u.Compression, err
	}
	line = []byte(strings.TrimPrefix(string(line), "\uFEFF"))
	c, _, err := newWalker().readCollection(trim(line), func(string) {})
	return c, u.Compression, err
}
