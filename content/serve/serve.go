// Package serve answers requests for one representation after the other, as RFC
// 9110 asks: strong ETags, and If-None-Match before all else; no body where none
// belongs; the same header for HEAD as for GET; gzip under one ETag with the plain
// form; Content-Length throughout. The formats say what stands at a path, and
// with which fields of their own.
//
// TestConditionsAreEvaluatedAsRFC9110Does and TestRangesFollowIfRange hold it
// against the RFC through a handler that is built on it.
package serve

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A Representation is what stands at a path.
type Representation struct {
	// Content is read from its start to its end; the caller closes it.
	Content io.ReadSeeker
	// Gzip is Content, compressed beforehand; it may be nil.
	Gzip     io.ReadSeeker
	ETag     string    // strong, without quotes
	Modified time.Time // zero if it is not known
	Type     string    // Content-Type
}

// A Server keeps what requests can share. Its zero value is ready, and it may be
// used by several goroutines.
type Server struct{ compressors sync.Pool } // of *gzip.Writer

// Refuse answers without a representation.
func Refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

// Serve answers a GET or HEAD with a representation, or with the part of its
// header that a condition leaves. Fields that w holds already are sent as well.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, p *Representation) {
	header := w.Header()
	header.Set("ETag", `"`+p.ETag+`"`)
	header.Set("Vary", "Accept-Encoding")
	header.Set("X-Content-Type-Options", "nosniff")
	if !p.Modified.IsZero() {
		header.Set("Last-Modified", p.Modified.UTC().Format(http.TimeFormat))
	}
	if status := evaluate(r.Header, p); status != 0 {
		w.WriteHeader(status)
		return
	}
	header.Set("Content-Type", p.Type)
	if acceptsGzip(r.Header) {
		// One ETag stands for both codings, so a range of one could be glued to
		// the other: to who accepts gzip, no ranges are sent.
		body, err := s.compressed(p)
		if err != nil {
			clear(header) // takes back what promised a representation
			Refuse(w, http.StatusInternalServerError)
			return
		}
		if body != nil {
			header.Set("Content-Encoding", "gzip")
			send(w, r, body)
			return
		}
	} else if r.Header.Get("Range") != "" {
		s.ranges(w, r, p)
		return
	}
	send(w, r, p.Content)
}

// ranges serves a part, if If-Range allows it.
func (s *Server) ranges(w http.ResponseWriter, r *http.Request, p *Representation) {
	// The conditions have been evaluated; what is left for the library is If-Range,
	// which it takes as a strong comparison.
	r = r.Clone(r.Context())
	for _, field := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"} {
		r.Header.Del(field)
	}
	http.ServeContent(w, r, "", p.Modified, p.Content)
}

// send sends a whole body, its length first.
func send(w http.ResponseWriter, r *http.Request, body io.ReadSeeker) {
	size, err := body.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	if err != nil {
		clear(w.Header())
		Refuse(w, http.StatusInternalServerError)
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
func (s *Server) compressed(p *Representation) (io.ReadSeeker, error) {
	if p.Gzip != nil {
		return p.Gzip, nil
	}
	size, err := p.Content.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if _, err := p.Content.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if size < worthItFrom || size > worthItTo {
		return nil, nil
	}
	var b bytes.Buffer
	z, _ := s.compressors.Get().(*gzip.Writer)
	if z == nil {
		z = gzip.NewWriter(&b)
	}
	defer s.compressors.Put(z)
	z.Reset(&b)
	if _, err := io.Copy(z, p.Content); err != nil {
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
