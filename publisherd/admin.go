package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// monitor serves the admin side: how the daemon does, for programs and for people.
func (d *daemon) monitor(c config) http.Handler {
	a := &monitor.Admin{
		Address: c.Admin, Service: "publisherd", Report: d.watch.report, Page: d.page, Profiles: c.Profiles, Log: d.log,
		Collectors: collectors(d.watch.read, d.reload.Last, time.Now, d.log),
	}
	return a.Handler()
}

// audited has what the commands change through the socket written down.
func (d *daemon) audited(h http.Handler) http.Handler {
	return d.auditLog().Requests(h, d.unwritten)
}

func (d *daemon) auditLog() *audit.Log {
	return &audit.Log{Dir: d.dir, Program: "publisherd", Now: time.Now}
}

func (d *daemon) unwritten(err error) { d.log.Error("audit", "error", err) }

// reloaded has a reload written down. A signal does not say who sent it.
func (d *daemon) reloaded(changes []string, reload func() error) error {
	return d.auditLog().Do(audit.Unknown(), "SIGHUP", changes, d.unwritten, reload)
}

// commands answers the commands of this program on the socket.
func (d *daemon) commands() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("ask") != "" {
			answer(w, func() (publisher.Status, error) { return askedStatus(r.Context(), d.p) })
			return
		}
		answer(w, d.p.Status)
	})
	mux.HandleFunc("GET /holders", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() (*publisher.PageHolders, error) { return d.p.AskPage(r.Context(), r.URL.Query().Get("page")) })
	})
	mux.HandleFunc("POST /push", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() ([]publisher.Result, error) {
			q := r.URL.Query()
			return d.d.Push(r.Context(), publisher.PushOptions{Indexer: envelope.Name(q.Get("indexer")), AllowMassDelete: q.Has("mass-delete")})
		})
	})
	mux.HandleFunc("POST /revocations", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() ([]publisher.RevocationStatus, error) {
			var ids []envelope.Hash
			if err := json.UnmarshalRead(io.LimitReader(r.Body, 64<<10), &ids); err != nil {
				return nil, err
			}
			return deliverRevocations(r.Context(), d.p, ids)
		})
	})
	mux.HandleFunc("GET /deliveries", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.p.Deliveries) })
	mux.HandleFunc("GET /refused", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() (publisher.DeadLetterList, error) {
			limit, err := strconv.ParseUint(r.URL.Query().Get("limit"), 10, 16)
			if err != nil {
				return publisher.DeadLetterList{}, cli.With(cli.Usage, err)
			}
			return d.p.DeadLetters(r.URL.Query().Get("after"), int(limit))
		})
	})
	mux.HandleFunc("GET /receipts", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() (publisher.ReceiptList, error) {
			limit, err := strconv.ParseUint(r.URL.Query().Get("limit"), 10, 16)
			if err != nil {
				return publisher.ReceiptList{}, cli.With(cli.Usage, err)
			}
			return d.p.Receipts(int(limit))
		})
	})
	mux.HandleFunc("GET /receipts/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() ([]byte, error) {
			id, err := envelope.ParseHash(r.PathValue("id"))
			if err != nil {
				return nil, cli.With(cli.Usage, err)
			}
			return d.p.ReceiptFile(id)
		})
	})
	mux.HandleFunc("POST /receipts/verify", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, func() (verified, error) { return verifyReceipts(d.p) })
	})
	mux.HandleFunc("POST /backup", d.serveBackup)
	mux.HandleFunc("GET /disclosure", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() ([]byte, error) { return d.p.Disclose(r.URL.Query().Get("grant")) })
	})
	mux.HandleFunc("GET /evidence", func(w http.ResponseWriter, r *http.Request) {
		answer(w, func() ([]byte, error) { return evidenceFor(d.p, r.URL.Query()) })
	})
	return mux
}

// An answered request carries what the command would have had from the store:
// the value, and the error with the exit code that it ends the program with.
type answered struct {
	Value jsontext.Value `json:"value,omitzero"`
	Error string         `json:"error,omitzero"`
	Code  cli.Code       `json:"code,omitzero"`
}

func answer[T any](w http.ResponseWriter, f func() (T, error)) {
	var a answered
	v, err := f()
	if b, merr := json.Marshal(v); merr == nil {
		a.Value = b
	} else {
		err = errors.Join(err, merr)
	}
	if err != nil {
		a.Error, a.Code = err.Error(), exitCode(err)
	}
	w.Header().Set("Content-Type", "application/json")
	json.MarshalWrite(w, a) // a client that is gone needs no answer
}

// A query is one command as the daemon is asked it, and as the store answers it.
type query[T any] struct {
	method, path string
	values       url.Values
	body         any
	store        func(*publisher.Publisher) (T, error)
}

// maxAnswer bounds what is read from the daemon, in octets.
const maxAnswer = 1 << 30

// ask gets an answer from the daemon of the folder, or, if none runs, from the
// store itself. With some errors there is a value as well.
func ask[T any](ctx context.Context, a *app, q query[T]) (v T, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(a.dir, socketFile))
	if err != nil { // no socket, or one that a daemon left behind that was killed
		return askStore(a, q.store)
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives: true,
	}}
	defer conn.Close()
	var body []byte
	if q.body != nil {
		if body, err = json.Marshal(q.body); err != nil {
			return v, err
		}
	}
	u := url.URL{Scheme: "http", Host: "daemon", Path: q.path, RawQuery: q.values.Encode()}
	req, err := http.NewRequestWithContext(ctx, q.method, u.String(), bytes.NewReader(body))
	if err != nil {
		return v, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return v, cli.With(cli.Temporary, fmt.Errorf("the daemon did not answer: %w", err))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return v, cli.With(cli.Temporary, fmt.Errorf("the daemon did not answer: %w", err))
	}
	var got answered
	if err := json.Unmarshal(b, &got); err != nil || resp.StatusCode != http.StatusOK {
		return v, fmt.Errorf("the daemon does not know this command: %s", resp.Status)
	}
	if len(got.Value) > 0 {
		if err := json.Unmarshal(got.Value, &v); err != nil {
			return v, err
		}
	}
	if got.Error != "" {
		return v, cli.Errorf(got.Code, "%s", got.Error)
	}
	return v, nil
}

func askStore[T any](a *app, f func(*publisher.Publisher) (T, error)) (v T, err error) {
	p, err := a.open()
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return f(p)
}
