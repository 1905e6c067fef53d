package indexer

import (
	"net/http"
	"strconv"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// maxGrantEntries bounds the list of one grant's entries; the log itself is
// what counts, and has them all.
const maxGrantEntries = 100_000

// Public is the side for everybody: the log, the identity card, and which
// entries speak of a grant, all to be read (UZPIF-OI 9.1); and where a publisher
// may hand in a revocation that it cannot bring in a session (UZPIF-OI 12.6).
func (x *Indexer) Public() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", x.tlog.Handler())
	mux.HandleFunc("GET /card.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=300")
		w.Write(x.local.Card.Object.Raw)
	})
	mux.HandleFunc("GET /grant/{file}", x.serveGrant)
	mux.HandleFunc("POST /revocation", x.serveRevocation)
	return mux
}

// serveGrant lists the published entries under one grant, by index. It is a
// hint for convenience: nobody has to believe that the list is complete.
func (x *Indexer) serveGrant(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	const ext = ".json"
	if len(name) <= len(ext) || name[len(name)-len(ext):] != ext {
		http.NotFound(w, r)
		return
	}
	id, err := envelope.ParseHash(name[:len(name)-len(ext)])
	if err != nil {
		http.Error(w, "the name of a grant is sha256: and 64 lower-case hex digits", http.StatusBadRequest)
		return
	}
	published := x.tlog.Published().Tree.Size
	body := []byte(`{"entries":[`)
	n := 0
	lo := append([]byte{'X'}, id[:]...)
	for kv, err := range x.store.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			x.log.Error("grant entries", "error", err)
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		index := segmentNumber(kv.Key)
		if index >= published || n == maxGrantEntries {
			break
		}
		if n > 0 {
			body = append(body, ',')
		}
		body = strconv.AppendUint(body, index, 10)
		n++
	}
	if n == 0 {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	w.Write(append(body, "]}\n"...))
}
