package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// monitor serves the admin side: how the daemon does, for programs and for people.
func (d *daemon) monitor(c config) http.Handler {
	a := &monitor.Admin{
		Address: c.Admin, Service: sessionService, Report: d.watch.report, Page: d.page, Profiles: c.Profiles, Log: d.log,
		Collectors: collectors(d.figures, d.reload.Last, time.Now, d.log),
	}
	return a.Handler()
}

// sessionService is what gRPC health v1 calls the daemon.
const sessionService = "uzpif.oi.v1.OutboundIndexing"

// audited has what the commands change through the socket written down.
func (d *daemon) audited(h http.Handler) http.Handler {
	return d.auditLog().Requests(h, d.unwritten)
}

func (d *daemon) auditLog() *audit.Log {
	return &audit.Log{Dir: d.dir, Program: "indexerd", Now: time.Now}
}

func (d *daemon) unwritten(err error) { d.log.Error("audit", "error", err) }

// reloaded has a reload written down. A signal does not say who sent it.
func (d *daemon) reloaded(changes []string, reload func() error) error {
	return d.auditLog().Do(audit.Unknown(), "SIGHUP", changes, d.unwritten, reload)
}

// liveAgreements counts the agreements that are in force.
func (d *daemon) liveAgreements() (n int) {
	all, err := d.x.Agreements()
	if err != nil {
		return 0 // whoever reads them says so
	}
	for _, a := range all {
		if a.Standing == "live" {
			n++
		}
	}
	return n
}

// commands answers the commands of this program on the socket.
func (d *daemon) commands() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.x.Status) })
	mux.HandleFunc("GET /agreements", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.x.Agreements) })
	mux.HandleFunc("GET /log", func(w http.ResponseWriter, _ *http.Request) { answer(w, d.x.LogStatus) })
	mux.HandleFunc("GET /page", d.servePage)
	mux.HandleFunc("GET /evidence", d.serveEvidence)
	mux.HandleFunc("GET /holders", d.serveHolders)
	mux.HandleFunc("GET /purged", d.servePurged)
	mux.HandleFunc("GET /feed", d.serveFeed)
	mux.HandleFunc("POST /log/freeze", d.serveFreeze)
	mux.HandleFunc("POST /ask", d.serveAsk)
	d.long(mux)
	return mux
}

func answer[T any](w http.ResponseWriter, f func() (T, error)) {
	v, err := f()
	if err == nil {
		var b []byte
		if b, err = json.Marshal(v); err == nil {
			w.Write(b)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// daemonClient talks to the daemon of a folder.
func daemonClient(dir string) *http.Client {
	socket := filepath.Join(dir, socketFile)
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

// ask gets an answer from the daemon of the folder, or, if none runs, from the
// store itself.
func ask[T any](ctx context.Context, a *app, path string, f func(*indexer.Indexer) (T, error)) (v T, err error) {
	client := daemonClient(a.dir)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon"+path, nil)
	if err != nil {
		return v, err
	}
	resp, err := client.Do(req)
	if err != nil {
		// A store that has no log yet begins one, as the daemon would.
		if v, err = askStore(a, true, f); errors.Is(err, translog.ErrIdentity) {
			return askStore(a, false, f)
		}
		return v, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return v, err
	}
	if resp.StatusCode != http.StatusOK {
		return v, fmt.Errorf("the daemon answers: %s", b)
	}
	return v, json.Unmarshal(b, &v)
}

// askStore opens the store, and does with it what a daemon would do meanwhile
// unless it is only to be read.
func askStore[T any](a *app, readOnly bool, f func(*indexer.Indexer) (T, error)) (v T, err error) {
	c, err := loadConfig(a.dir)
	if err != nil {
		return v, err
	}
	frozen, err := indexer.ReadFrozen(a.dir)
	if err != nil {
		return v, err
	}
	x, err := indexer.Open(indexer.Config{Dir: a.dir, Frozen: frozen != nil, ReadOnly: readOnly, Certificate: c.certificate(a.dir), Requests: c.requests()})
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	return f(x)
}

func newStatus(a *app) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show where log, catalogue and sessions stand", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := ask(cmd.Context(), a, "/status", (*indexer.Indexer).Status)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if a.json {
				return cli.PrintJSON(w, s)
			}
			_, err = fmt.Fprintf(w, "%s\nlog %s: %s, root %s\n%s of %s, %d octets of payload; %d octets of disk for the store, large pages apart; %s\n%s\n",
				s.Identity, s.LogOrigin, plural.Count(s.TreeSize, "entry", "entries"), s.Root, plural.Count(s.Pages, "page", "pages"),
				plural.Count(s.Publishers, "publisher", "publishers"), s.PayloadBytes, s.DiskBytes, plural.Count(s.Sessions, "session", "sessions"), cli.DescribeIdentity(s.Certificate, s.Trust))
			if err == nil && s.Signalled+s.Wanted+s.Delivered > 0 {
				_, err = fmt.Fprintf(w, "%d pages signalled, %d wanted, %d of them asked for, %d delivered for the asking\n", s.Signalled, s.Wanted, s.Asked, s.Delivered)
			}
			return err
		}}
}

// publisherLine is a trusted publisher as publishers prints it.
type publisherLine struct {
	Identity envelope.Name     `json:"identity"`
	Origins  []identity.Origin `json:"origins"`
	Series   int               `json:"series"`
	Pages    uint64            `json:"pages"`
}

func newPublishers(a *app) *cobra.Command {
	return &cobra.Command{Use: "publishers", Short: "List the trusted publishers with what is held of each", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			trust, err := openTrust(a.dir)
			if err != nil {
				return err
			}
			all, err := ask(cmd.Context(), a, "/agreements", (*indexer.Indexer).Agreements)
			if err != nil {
				return err
			}
			for _, p := range trust.List() {
				l := publisherLine{Identity: p.Card.Identity, Origins: append([]identity.Origin{}, p.Origins...)}
				for _, g := range all {
					if g.Publisher == l.Identity {
						l.Series++
						l.Pages += g.Pages
					}
				}
				if a.json {
					if err := cli.PrintJSON(cmd.OutOrStdout(), l); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%v\t%d series\t%d pages\n", l.Identity, l.Origins, l.Series, l.Pages)
			}
			return nil
		}}
}
