package indexer

import (
	"errors"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// How many revocations the public side looks at, whoever sends them: opening
// one costs signatures and a commit.
const (
	postsPerSecond = 20
	postsAtOnce    = 40
)

// A publicAnswer is the answer to a revocation that was taken in.
type publicAnswer struct {
	RevocationID envelope.Hash    `json:"revocation_id"`
	Acknowledged []jsontext.Value `json:"acknowledged"` // acknowledgements, as signed
	Pending      uint32           `json:"pending"`      // deletions under way
}

// A publicError tells why it was not. Reason is a code of package grants, empty
// where the request did not come as far.
type publicError struct {
	Reason grants.Reason `json:"reason"`
	Detail string        `json:"detail"`
}

// serveRevocation takes a revocation from anybody: the object authenticates
// itself. To ask again later with the same object is how to learn of a deletion.
func (x *Indexer) serveRevocation(w http.ResponseWriter, r *http.Request) {
	if !x.posts.Allow() {
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusTooManyRequests, publicError{Detail: "too many revocations at once; try again"})
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, envelope.MaxSize))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeJSON(w, http.StatusRequestEntityTooLarge, publicError{grants.ErrOversize, grants.ErrOversize.Error()})
		return
	case err != nil:
		writeJSON(w, http.StatusBadRequest, publicError{Detail: "the request was cut short"})
		return
	}
	answer, err := x.publicRevocation(r, raw)
	if errors.Is(err, translog.ErrReadOnly) {
		writeJSON(w, http.StatusServiceUnavailable, publicError{Detail: "this log is frozen and takes nothing in; ask its operator"})
		return
	}
	if full := exhausted(err); full != nil {
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, publicError{full.reason, full.detail})
		return
	}
	if refused, ok := asRefusal(err); ok {
		x.log.Warn("revocation refused", "remote", r.RemoteAddr, "reason", refused.reason, "detail", refused.detail)
		code := http.StatusForbidden
		if refused.reason == grants.ErrMalformed {
			code = http.StatusBadRequest
		}
		writeJSON(w, code, publicError{refused.reason, refused.detail})
		return
	}
	if err != nil {
		x.log.Error("revocation", "error", err)
		writeJSON(w, http.StatusInternalServerError, publicError{Detail: "internal error"})
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func (x *Indexer) publicRevocation(r *http.Request, raw []byte) (publicAnswer, error) {
	rev, err := x.revoke(r.Context(), raw, "")
	if err != nil {
		return publicAnswer{}, err
	}
	given, pending, err := x.acknowledgements(rev.Object.ID)
	a := publicAnswer{RevocationID: rev.Object.ID, Acknowledged: []jsontext.Value{}, Pending: pending}
	for _, g := range given {
		a.Acknowledged = append(a.Acknowledged, g.Object)
	}
	return a, err
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	// A client that has gone is not told.
	_, _ = w.Write(append(b, '\n'))
}
