// Package serve answers requests for one representation after the other, as RFC
// 9110 asks: strong ETags, and If-None-Match before all else; no body where none
// belongs; the same header for HEAD as for GET; gzip and zstd under one ETag with the
// plain form; Content-Length throughout. The formats say what stands at a path, and
// with which fields of their own.
//
// TestConditionsAreEvaluatedAsRFC9110Does and TestRangesFollowIfRange hold it
// against the RFC through a handler that is built on it.
package serve

import (
	"io"
	"net/http"
	"strconv"
	"time"
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
type Server struct{ compressors compressors }

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
	if c := codings(r.Header); c.any() {
		// One ETag stands for all codings, so a range of one could be glued to
		// another: to who accepts one, no ranges are sent.
		body, coding, err := s.compressors.of(p, c)
		if err != nil {
			clear(header) // takes back what promised a representation
			Refuse(w, http.StatusInternalServerError)
			return
		}
		if body != nil {
			header.Set("Content-Encoding", coding)
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
