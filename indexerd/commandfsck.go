package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime/debug"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// newFsck checks the store: through the daemon if one runs, else by itself,
// without changing anything.
func newFsck(a *app) *cobra.Command {
	var logOnly bool
	c := &cobra.Command{
		Use:   "fsck",
		Short: "Check the whole store: log, catalogue, segments, state, answers",
		Long: "Check the whole store, whether the daemon runs or not: every entry, tile and checkpoint of the log,\n" +
			"each page against its digest and each segment with its key, the state of each series against what the\n" +
			"log commits to, every answer that was given, and the checksum of every block of the tables, so that\n" +
			"damage is found where nothing is kept any more, too. Exit 1 if anything is not as it has to be.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := askLong(cmd.Context(), a, "/fsck", url.Values{"log-only": {fmt.Sprint(logOnly)}}, func(ctx context.Context) (*indexer.FsckReport, error) {
				return indexer.FsckFolder(ctx, a.dir, indexer.FsckOptions{LogOnly: logOnly})
			})
			if err != nil {
				return err
			}
			if a.json {
				err = cli.PrintJSON(cmd.OutOrStdout(), r)
			} else {
				_, err = io.WriteString(cmd.OutOrStdout(), r.String())
			}
			if err == nil && !r.OK() {
				err = cli.Errorf(cli.Failed, "the store in %s has %d findings; keep it as it is, and restore the newest sound copy", a.dir, r.Found())
			}
			return err
		},
	}
	c.Flags().BoolVar(&logOnly, "log-only", false, "check the log alone")
	return c
}

// long adds the commands that may take longer than a request of the rest.
func (d *daemon) long(mux *http.ServeMux) {
	mux.HandleFunc("POST /fsck", func(w http.ResponseWriter, r *http.Request) {
		answerLong(w, r, func(ctx context.Context) (*indexer.FsckReport, error) {
			return d.x.Fsck(ctx, indexer.FsckOptions{LogOnly: r.URL.Query().Get("log-only") == "true"})
		})
	})
	mux.HandleFunc("POST /backup", func(w http.ResponseWriter, r *http.Request) {
		answerLong(w, r, func(ctx context.Context) (*indexer.Manifest, error) {
			return d.x.Backup(ctx, r.URL.Query().Get("to"), cli.Version())
		})
	})
	mux.HandleFunc("POST /export", func(w http.ResponseWriter, r *http.Request) {
		answerLong(w, r, func(ctx context.Context) (*export.Report, error) {
			o, err := exportOptions(r.URL.Query())
			if err != nil {
				return nil, err
			}
			return writeExport(ctx, d.x, o)
		})
	})
}

// An outcome is what a long command would have had from the store: its value,
// or its error with the exit code.
type outcome struct {
	Value jsontext.Value `json:"value,omitzero"`
	Error string         `json:"error,omitzero"`
	Code  cli.Code       `json:"code,omitzero"`
}

// answerLong answers when f is done, however long that takes. A command that was
// interrupted ends the context. What f has read is given back to the system at once:
// a daemon with little to do would keep it until it next collects, which may take
// minutes.
func answerLong[T any](w http.ResponseWriter, r *http.Request, f func(context.Context) (T, error)) {
	defer debug.FreeOSMemory()
	err := unhurried(w)
	var o outcome
	if err == nil {
		var v T
		if v, err = f(r.Context()); err == nil {
			o.Value, err = json.Marshal(v)
		}
	}
	if err != nil {
		o = outcome{Error: err.Error(), Code: exitCode(err)}
	}
	w.Header().Set("Content-Type", "application/json")
	json.MarshalWrite(w, o) // a client that is gone needs no answer
}

// askLong has the daemon of the folder do what may take long, or, if none runs,
// does it by f.
func askLong[T any](ctx context.Context, a *app, path string, values url.Values, f func(context.Context) (T, error)) (v T, err error) {
	if _, err := loadConfig(a.dir); err != nil {
		return v, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(a.dir, socketFile))
	if err != nil { // no socket, or one that a daemon left behind that was killed
		return f(ctx)
	}
	defer conn.Close()
	client := &http.Client{Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives: true,
	}}
	u := url.URL{Scheme: "http", Host: "daemon", Path: path, RawQuery: values.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return v, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return v, cli.With(cli.Temporary, fmt.Errorf("the daemon did not answer: %w", err))
	}
	defer resp.Body.Close()
	var o outcome
	if err := json.UnmarshalRead(io.LimitReader(resp.Body, 64<<20), &o); err != nil || resp.StatusCode != http.StatusOK {
		return v, cli.Errorf(cli.Temporary, "the daemon does not know this command, or ended: %s", resp.Status)
	}
	if o.Error != "" {
		return v, cli.Errorf(o.Code, "%s", o.Error)
	}
	return v, json.Unmarshal(o.Value, &v)
}
