package indexer

import (
	"net/http"
	"strconv"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxGrantEntries bounds the list of one grant's entries; the log itself is
// what counts, and has them all.
const maxGrantEntries = 100_000

// Public is the side for everybody: the log, the identity card, and which
// entries speak of a grant, all to be read (UZPIF-OI 9.1); and where a publisher
// may hand in a revocation that it cannot bring in a session (UZPIF-OI 12.6).
//
// The first log is served at the root for ever, and each that a rotation has
// begun below /logs/ under a name made of its key: an address that somebody noted
// down, from a card or from evidence, goes on to mean the log that it meant. A
// log that has ended answers as it did on its last day.
func (x *Indexer) Public() http.Handler {
	mux := http.NewServeMux()
	urls := x.logURLs()
	for _, l := range x.logs() {
		side, path := x.publicOf(l, urls[l.Origin()]), logPath(l.VerifierKey())
		mux.Handle(path+"/", http.StripPrefix(path, side))
		if l.Number() == 0 {
			mux.Handle("/", side)
		}
	}
	return mux
}

// logURLs are the addresses of all logs by their origins, as the cards have them.
func (x *Indexer) logURLs() map[string]string {
	urls := make(map[string]string)
	for _, c := range append([]*identity.Card{x.local.Card}, x.past...) {
		urls[c.Log.Origin] = c.Log.URL
	}
	return urls
}

// publicOf is the public side of one log. Card and revocations are those of the
// indexer, at whichever of its logs one asks.
func (x *Indexer) publicOf(l *translog.Log, url string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", l.HandlerWithPages(translog.Site{URL: url}))
	mux.Handle("/card.json", translog.ReadOnly(http.HandlerFunc(x.serveCard)))
	mux.Handle("/card/{file}", translog.ReadOnly(http.HandlerFunc(x.servePastCard)))
	mux.Handle("/grant/{file}", translog.ReadOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { x.serveGrant(w, r, l) })))
	mux.HandleFunc("POST /revocation", x.serveRevocation)
	mux.HandleFunc("/revocation", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a revocation is posted here", http.StatusMethodNotAllowed)
	})
	return mux
}

func (x *Indexer) serveCard(w http.ResponseWriter, r *http.Request) {
	translog.Document{Body: x.local.Card.Object.Raw, Type: "application/json", Keep: "public, max-age=300", Compress: true}.Serve(w, r)
}

// servePastCard serves a card that was replaced, by the object_id by which the
// next one names it.
func (x *Indexer) servePastCard(w http.ResponseWriter, r *http.Request) {
	for _, c := range x.past {
		if r.PathValue("file") == c.Object.ID.String()+".json" {
			translog.Document{Body: c.Object.Raw, Type: "application/json", Keep: translog.Immutable, Compress: true}.Serve(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

// serveGrant lists the published entries under one grant, by index. It is a
// hint for convenience: nobody has to believe that the list is complete.
func (x *Indexer) serveGrant(w http.ResponseWriter, r *http.Request, l *translog.Log) {
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
	published := l.Published().Tree.Size
	body := []byte(`{"entries":[`)
	n := 0
	lo, hi := grantEntryKey(id, l.Number(), 0), grantEntryKey(id, l.Number(), envelope.MaxInteger)
	for kv, err := range x.store.Scan(lo, hi) {
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
	translog.Document{Body: append(body, "]}\n"...), Type: "application/json", Keep: translog.Changing, Compress: true}.Serve(w, r)
}
