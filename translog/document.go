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

// How long a Document may be kept.
const (
	// Immutable: what a size, an index or a hash names never changes.
	Immutable = "public, max-age=31536000, immutable"
	// Passing never changes either, but is soon of no use: a partial tile goes
	// out of date when the tile has grown, a proof when it has been checked.
	Passing = "public, max-age=86400, immutable"
	// Changing is as old as one interval of publication, and is asked for again
	// then; with the ETag that costs no body.
	Changing = "public, max-age=1, must-revalidate"
	// errorsKept keeps a crowd that asks too early from being asked through,
	// and is over before the next checkpoint is.
	errorsKept = "public, max-age=1"
)

// maxTarget is the longest request target that is looked at, in octets: ten
// times the longest that anything here has.
const maxTarget = 2048

// worthGzip is the size from which compression is tried, in octets.
const worthGzip = 512

// A Document is what the public side answers with. Its ETag is strong, and made
// of the octets.
type Document struct {
	Body []byte
	Type string // Content-Type
	Keep string // Cache-Control
	// Compress is set for what shrinks; hashes do not, and are sent as they are.
	Compress bool
	// Policy is the Content-Security-Policy, of pages for people.
	Policy string
}

// Serve answers GET and HEAD alike, compressed if the client prefers that, or
// not at all if it has the document already.
func (d Document) Serve(w http.ResponseWriter, r *http.Request) {
	zip, ok := d.coding(r.Header.Values("Accept-Encoding"))
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	if !ok {
		http.Error(w, "this is served as gzip or as it is, and the request accepts neither", http.StatusNotAcceptable)
		return
	}
	sum := sha256.Sum256(d.Body)
	tag := hex.EncodeToString(sum[:16])
	if zip {
		tag += "-gzip" // another representation has another tag
	}
	h.Set("ETag", `"`+tag+`"`)
	h.Set("Cache-Control", d.Keep)
	if names(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified) // spared: compressing what is not sent
		return
	}
	h.Set("Content-Type", d.Type)
	if d.Policy != "" {
		h.Set("Content-Security-Policy", d.Policy)
		h.Set("Referrer-Policy", "no-referrer")
	}
	body := d.Body
	if zip {
		body = compress(body)
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// names reports whether an If-None-Match names tag. Whether it does so weakly
// makes no difference to that header. A comma within a tag only splits it into
// parts that are none of ours.
func names(values []string, tag string) bool {
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		one = strings.TrimSpace(one)
		if one == "*" || strings.TrimPrefix(one, "W/") == `"`+tag+`"` {
			return true
		}
	}
	return false
}

// coding decides between gzip and identity (RFC 9110 12.5.3); not ok if the
// client takes neither. Without a word about it, gzip is not used.
func (d Document) coding(accept []string) (zip, ok bool) {
	weight := map[string]float64{}
	for one := range strings.SplitSeq(strings.ToLower(strings.Join(accept, ",")), ",") {
		name, params, has := strings.Cut(one, ";")
		if name = strings.TrimSpace(name); name == "x-gzip" {
			name = "gzip"
		}
		q := 1.0
		if has {
			var valid bool
			if q, valid = quality(params); !valid {
				continue
			}
		}
		if _, twice := weight[name]; !twice && (name == "gzip" || name == "identity" || name == "*") {
			weight[name] = q
		}
	}
	rest, star := weight["*"]
	gz, named := weight["gzip"]
	if !named {
		gz = rest
	}
	plain, named := weight["identity"]
	switch {
	case named && plain == 0, !named && star && rest == 0: // forbidden
		return gz > 0, gz > 0
	case !named: // taken, but liked less than whatever is named
		plain = min(gz, 0.001)
	}
	return d.Compress && len(d.Body) >= worthGzip && gz > 0 && gz >= plain, true
}

// quality reads a weight, and nothing else: 0 to 1 with at most three decimals.
func quality(params string) (float64, bool) {
	s, ok := strings.CutPrefix(strings.TrimSpace(params), "q=")
	if !ok || len(s) == 0 || len(s) > 5 || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	q, err := strconv.ParseFloat(s, 64)
	return q, err == nil && q <= 1
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

// ReadOnly lets GET and HEAD through to h, for targets of at most maxTarget
// octets, and sees to what all answers have in common: any page on the Web may
// read them, nobody guesses their type, and no error is kept for more than a
// second, whoever wrote it.
func ReadOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := &openWriter{ResponseWriter: w}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case len(r.RequestURI) > maxTarget:
			http.Error(o, "the address is too long", http.StatusRequestURITooLong)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			o.Header().Set("Allow", "GET, HEAD")
			http.Error(o, "this is to be read: use GET or HEAD", http.StatusMethodNotAllowed)
		default:
			h.ServeHTTP(o, r)
		}
	})
}

// An openWriter is the ResponseWriter of ReadOnly.
type openWriter struct{ http.ResponseWriter }

func (w *openWriter) WriteHeader(code int) {
	h := w.Header()
	if code >= 300 && code != http.StatusNotModified && h.Get("Cache-Control") != "no-store" {
		h.Set("Cache-Control", errorsKept)
	}
	w.ResponseWriter.WriteHeader(code)
}
