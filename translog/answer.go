package translog

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// How long an answer may be kept.
const (
	// immutable: what a size or an index names never changes.
	immutable = "public, max-age=31536000, immutable"
	// changing: the newest checkpoint is asked for each time; with the ETag
	// that costs no body.
	changing = "public, no-cache"
)

// worthGzip is the size from which compression is tried, in octets. Hashes do
// not shrink, and are sent as they are.
const worthGzip = 512

// An answer is a body and how to send it.
type answer struct {
	body         []byte
	contentType  string
	cacheControl string
	compress     bool
}

func (a answer) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	sum := sha256.Sum256(a.body)
	tag := hex.EncodeToString(sum[:16])
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", a.cacheControl)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Access-Control-Allow-Origin", "*") // all of it is public
	body := a.body
	if a.compress {
		h.Set("Vary", "Accept-Encoding")
		if len(body) >= worthGzip && acceptsGzip(r.Header.Values("Accept-Encoding")) {
			body = compress(body)
			tag += "-gzip" // another representation has another tag
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// acceptsGzip reports whether gzip stands in Accept-Encoding with a weight
// above zero.
func acceptsGzip(values []string) bool {
	for coding := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, params, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		weight, ok := strings.CutPrefix(strings.TrimSpace(params), "q=")
		if !ok {
			return params == ""
		}
		q, err := strconv.ParseFloat(weight, 64)
		return err == nil && q > 0
	}
	return false
}

func compress(b []byte) []byte {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err == nil {
		_, _ = z.Write(b) // a bytes.Buffer takes everything
		err = z.Close()
	}
	if err != nil {
		panic("translog: gzip: " + err.Error())
	}
	return buf.Bytes()
}
