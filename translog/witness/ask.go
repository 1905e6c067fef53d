package witness

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds on what a witness may make us send, read and wait for; the time is the
// Group's.
const (
	maxAnswer = 16 << 10 // octets of a body
	maxHeader = 16 << 10 // octets of the headers
	maxProof  = 63       // hashes of a consistency proof (C2SP tlog-witness)
	sizeType  = "text/x.tlog.size"
)

// A Submission is a checkpoint that witnesses are asked to cosign.
type Submission struct {
	// Note is signed by the log; its tree has Size entries.
	Note []byte
	Size uint64
	// Prove gives the consistency proof from a smaller tree. It is called by
	// several goroutines.
	Prove func(from uint64) ([][32]byte, error)
	// Everyone waits for every witness, and not only for a quorum.
	Everyone bool
}

func newHTTPClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
			TLSHandshakeTimeout:    timeout,
			MaxResponseHeaderBytes: maxHeader,
			MaxConnsPerHost:        2,
			IdleConnTimeout:        time.Minute,
			DisableCompression:     true,
		},
		// The address asked is the one in the policy.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask makes the add-checkpoint call of C2SP tlog-witness, and once more if the
// witness answers that it has cosigned another size than hint. seen is the size
// that it is then known to have cosigned.
func (g *Group) ask(ctx context.Context, w *Witness, hint uint64, s *Submission) (c Cosignature, seen uint64, f *Failure) {
	seen = hint
	for range 2 {
		status, contentType, body, f := g.post(ctx, w, seen, s)
		if f != nil {
			return c, seen, f
		}
		if status != http.StatusConflict || contentType != sizeType {
			c, f = g.judge(w, s, status, body)
			if f == nil {
				seen = s.Size
			}
			return c, seen, f
		}
		if seen, f = parseSize(body); f != nil {
			return c, hint, f
		}
		if seen > s.Size {
			f = fail(Ahead, "it has cosigned a tree of %d entries, and this one has %d", seen, s.Size)
			f.Size = seen
			return c, seen, f
		}
	}
	return c, seen, fail(Conflict, "it asked for a proof from size %d, and then for another", seen)
}

// parseSize reads the body of a 409: a decimal number and a line feed.
func parseSize(body []byte) (uint64, *Failure) {
	digits, ok := strings.CutSuffix(string(body), "\n")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || strconv.FormatUint(n, 10) != digits {
		return 0, fail(BadAnswer, "the size it answers is %.40q", body)
	}
	return n, nil
}

// post sends the checkpoint with the proof from size old.
func (g *Group) post(ctx context.Context, w *Witness, old uint64, s *Submission) (status int, contentType string, body []byte, f *Failure) {
	request, err := requestBody(old, s)
	if err != nil {
		return 0, "", nil, fail(BadAnswer, "no proof from size %d: %w", old, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/add-checkpoint", bytes.NewReader(request))
	if err != nil {
		return 0, "", nil, fail(Unreachable, "%w", err)
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	req.Header.Set("User-Agent", "uzpif-oi-log")
	resp, err := g.http.Do(req)
	if err != nil {
		return 0, "", nil, unreachable(ctx, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return 0, "", nil, unreachable(ctx, err)
	}
	if len(body) > maxAnswer {
		return 0, "", nil, fail(BadAnswer, "it answers with more than %d octets", maxAnswer)
	}
	contentType, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
	return resp.StatusCode, contentType, body, nil
}

func unreachable(ctx context.Context, err error) *Failure {
	var timeout interface{ Timeout() bool }
	if ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout() {
		return fail(Timeout, "%w", err)
	}
	return fail(Unreachable, "%w", err)
}

// requestBody is the old size, the proof, an empty line, and the checkpoint.
func requestBody(old uint64, s *Submission) ([]byte, error) {
	var path [][32]byte
	if old > 0 && old < s.Size { // from nothing, and to itself, there is none
		var err error
		if path, err = s.Prove(old); err != nil {
			return nil, err
		}
	}
	if len(path) > maxProof {
		return nil, fmt.Errorf("it has %d hashes, at most %d", len(path), maxProof)
	}
	b := fmt.Appendf(nil, "old %d\n", old)
	for _, h := range path {
		b = append(base64.StdEncoding.AppendEncode(b, h[:]), '\n')
	}
	return append(append(b, '\n'), s.Note...), nil
}

// judge is what any other answer than the size of a 409 means. A 422 is to the
// proof from the very size that the witness has named or cosigned: the log has
// shown it another tree of that size. So is a 409 without a size.
func (g *Group) judge(w *Witness, s *Submission, status int, body []byte) (Cosignature, *Failure) {
	switch {
	case status == http.StatusOK:
		return g.accept(w, s, body)
	case status == http.StatusUnprocessableEntity, status == http.StatusConflict:
		return Cosignature{}, fail(Fork, "status %d: it has cosigned a tree that the one of %d entries does not extend", status, s.Size)
	case status == http.StatusNotFound:
		return Cosignature{}, fail(UnknownLog, "status 404: it does not know this log. Have its operator add the log's verifier key")
	case status == http.StatusForbidden:
		return Cosignature{}, fail(UnknownKey, "status 403: it does not know this log by its key. Have its operator add the log's verifier key")
	case status == http.StatusTooManyRequests, status >= 500:
		return Cosignature{}, fail(Busy, "status %d", status)
	}
	return Cosignature{}, fail(BadAnswer, "status %d", status)
}

// accept takes the witness's own line out of a 200, verified over the note as
// it was sent. Everything else in the body is left behind.
func (g *Group) accept(w *Witness, s *Submission, body []byte) (Cosignature, *Failure) {
	text, err := textOf(s.Note)
	if err != nil {
		return Cosignature{}, fail(BadAnswer, "%w", err)
	}
	now := g.o.Now()
	all, err := keyring{w.Key}.cosignatures(slices.Concat(text, []byte("\n"), body), now)
	switch {
	case errors.Is(err, ErrCosignature):
		return Cosignature{}, fail(BadSigning, "%w", err)
	case err != nil:
		return Cosignature{}, fail(BadAnswer, "%w", err)
	case len(all) == 0:
		return Cosignature{}, fail(BadSigning, "there is no line by the key of %s", w.Key.Name())
	case all[0].At.Before(now.Add(-Skew)):
		return Cosignature{}, fail(BadClock, "its cosignature is of %s", all[0].At.Format(time.RFC3339))
	}
	return all[0], nil
}
