package translog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// Types of what is served.
const (
	typeJSON   = "application/json"
	typeOctets = "application/octet-stream"
	typeHTML   = "text/html; charset=utf-8"
)

// Handler is the public, read-only side of the log: what anybody may ask,
// without a certificate, and nothing beyond the published tree. It answers GET
// and HEAD, with an ETag, and compressed where that is worth it:
//
//	/checkpoint                          C2SP tlog-checkpoint
//	/tile/<L>/<N>[.p/<W>]                C2SP tlog-tiles
//	/tile/entries/<N>[.p/<W>]            C2SP tlog-tiles
//	/signed-checkpoint.json              the same as /checkpoint, as an artefact
//	/signed-checkpoint/<size>.json       the one published first at that size
//	/entry/<index>.json                  one entry, as it was hashed
//	/proof/inclusion?index=&size=        InclusionProof
//	/proof/consistency?from=&to=         ConsistencyProof
//
// What is malformed is 400, what the published tree does not cover 404, and a
// log that cannot be read 503. Others may add paths beside these.
func (l *Log) Handler() http.Handler { return ReadOnly(l.mux(serveEntry)) }

func (l *Log) mux(entry route) *http.ServeMux {
	mux := http.NewServeMux()
	for path, serve := range map[string]route{
		"/checkpoint":               serveCheckpoint,
		"/tile/{path...}":           serveTile,
		"/signed-checkpoint.json":   serveSigned,
		"/signed-checkpoint/{file}": l.serveSignedAt,
		"/entry/{file}":             entry,
		"/proof/inclusion":          serveInclusion,
		"/proof/consistency":        serveConsistency,
	} {
		mux.Handle(path, l.serving(serve))
	}
	return mux
}

// A route makes the document that a request asks for, out of the published tree.
type route func(View, *http.Request) (Document, error)

func (l *Log) serving(serve route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := serve(l.Published(), r)
		if err != nil {
			l.serveError(w, r, err)
			return
		}
		d.Serve(w, r)
	})
}

var errMalformed = errors.New("malformed request")

func (l *Log) serveError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errMalformed):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, ErrNotCovered):
		http.Error(w, "not in the published tree", http.StatusNotFound)
	case errors.Is(err, durable.ErrFailed), errors.Is(err, durable.ErrClosed):
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "the log cannot be read now", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Cache-Control", "no-store")
		l.cfg.Logger.Error("public request", "path", r.URL.Path, "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

func serveCheckpoint(v View, _ *http.Request) (Document, error) {
	return Document{Body: v.Note, Type: "text/plain; charset=utf-8", Keep: Changing}, nil
}

func serveSigned(v View, _ *http.Request) (Document, error) {
	return Document{Body: v.Checkpoint.Raw, Type: typeJSON, Keep: Changing, Compress: true}, nil
}

func (l *Log) serveSignedAt(v View, r *http.Request) (Document, error) {
	size, err := fileNumber(r)
	if err != nil {
		return Document{}, err
	}
	if size > v.Tree.Size {
		return Document{}, ErrNotCovered
	}
	raw, err := l.rows.Get(publishedKey(size))
	if errors.Is(err, durable.ErrNotFound) {
		err = ErrNotCovered // no checkpoint was published at this size
	}
	return Document{Body: raw, Type: typeJSON, Keep: Immutable, Compress: true}, err
}

func serveEntry(v View, r *http.Request) (Document, error) {
	index, err := fileNumber(r)
	if err != nil {
		return Document{}, err
	}
	raw, err := v.Entry(index)
	return Document{Body: raw, Type: typeJSON, Keep: Immutable, Compress: true}, err
}

func serveTile(v View, r *http.Request) (Document, error) {
	p, err := parseTilePath(r.PathValue("path"))
	if err != nil {
		return Document{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	keep := Immutable
	if p.width < tileWidth {
		keep = Passing
	}
	if p.level == entriesLevel {
		b, err := v.bundle(p.index, p.width)
		return Document{Body: b, Type: typeOctets, Keep: keep, Compress: true}, err
	}
	b, err := v.tile(p.level, p.index, p.width)
	return Document{Body: b, Type: typeOctets, Keep: keep}, err
}

// bundle is the first width entries of an entry bundle, each behind its length
// in two octets. It is at most 16 MiB, and some hundred KiB as a rule.
func (v View) bundle(index uint64, width int) ([]byte, error) {
	if covered := (tree{size: v.Tree.Size}).width(0, index); width > covered {
		return nil, fmt.Errorf("%w: bundle %d of width %d, has %d", ErrNotCovered, index, width, covered)
	}
	first := index * tileWidth
	n := first
	var b []byte
	for row, err := range v.nodes.rows.Scan(entryKey(first), entryKey(first+uint64(width))) {
		if err != nil {
			return nil, err
		}
		if len(row.Value) > MaxEntry || string(row.Key) != string(entryKey(n)) {
			return nil, fmt.Errorf("%w: entry %d", ErrCorrupt, n)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(row.Value)))
		b = append(b, row.Value...)
		n++
	}
	if n != first+uint64(width) {
		return nil, fmt.Errorf("%w: entry %d is missing", ErrCorrupt, n)
	}
	return b, nil
}

func serveInclusion(v View, r *http.Request) (Document, error) {
	index, size, err := twoNumbers(r, "index", "size")
	if err != nil {
		return Document{}, err
	}
	path, err := v.InclusionAt(index, size)
	if err != nil {
		return Document{}, err
	}
	return jsonDocument(&InclusionProof{Hashes: Hashes(path), Index: index, Size: size})
}

func serveConsistency(v View, r *http.Request) (Document, error) {
	from, to, err := twoNumbers(r, "from", "to")
	if err != nil {
		return Document{}, err
	}
	path, err := v.ConsistencyAt(from, to)
	if err != nil {
		return Document{}, err
	}
	return jsonDocument(&ConsistencyProof{From: from, Hashes: Hashes(path), To: to})
}

func jsonDocument(v any) (Document, error) {
	b, err := envelope.Canonical(v)
	return Document{Body: b, Type: typeJSON, Keep: Passing, Compress: true}, err
}

// fileNumber is N in <N>.json.
func fileNumber(r *http.Request) (uint64, error) {
	digits, ok := strings.CutSuffix(r.PathValue("file"), ".json")
	if !ok {
		return 0, fmt.Errorf("%w: not <number>.json", errMalformed)
	}
	return number(digits)
}

// twoNumbers reads a query that has these two members, once each, and no other.
func twoNumbers(r *http.Request, a, b string) (x, y uint64, err error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(q) != 2 || len(q[a]) != 1 || len(q[b]) != 1 {
		return 0, 0, fmt.Errorf("%w: want ?%s=&%s=", errMalformed, a, b)
	}
	if x, err = number(q[a][0]); err != nil {
		return 0, 0, err
	}
	y, err = number(q[b][0])
	return x, y, err
}

// number accepts a decimal number without zeros in front, up to 2^53-1.
func number(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > envelope.MaxInteger || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%w: number %.30q", errMalformed, s)
	}
	return n, nil
}
