package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// newFeed prints the feed of one purpose for local use.
func newFeed(a *app) *cobra.Command {
	var purpose, cursor, purged string
	var follow bool
	c := &cobra.Command{
		Use:   "feed --purpose P",
		Short: "Print what may be read for a purpose, one change a line, as JSON",
		Long: "Print every change that concerns what may be read for a purpose, as JSON lines: put, delete, stop, reset,\n" +
			"and head when all is told. Lines may come twice; applying one again changes nothing. Go on later with the\n" +
			"cursor of the last line that was applied. What is printed counts as handed out, to this indexer itself, and so\n" +
			"does what is exported or passed on by the gateway. With --purged, nothing is printed; it is recorded that\n" +
			"whatever was to be dropped up to the cursor of a line is gone, wherever this indexer had it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := grants.ParsePurpose(purpose); err != nil {
				return cli.With(cli.Usage, err)
			}
			if _, err := base64.RawURLEncoding.DecodeString(cursor); err != nil {
				return cli.Errorf(cli.Usage, "--since %.80q is no cursor", cursor)
			}
			if purged != "" {
				return a.sayPurged(cmd, purpose, purged)
			}
			return printFeed(cmd.Context(), a, cmd.OutOrStdout(), feedQuery{purpose, cursor, follow})
		},
	}
	c.Flags().StringVar(&purpose, "purpose", "", "what the pages are to be used for")
	c.Flags().StringVar(&cursor, "since", "", "cursor to go on behind; without one, all is told")
	c.Flags().BoolVar(&follow, "follow", false, "go on with what comes; needs a running daemon")
	c.Flags().StringVar(&purged, "purged", "", "cursor up to which whatever was to be dropped is gone")
	c.MarkFlagsMutuallyExclusive("purged", "since")
	c.MarkFlagsMutuallyExclusive("purged", "follow")
	c.MarkFlagRequired("purpose")
	return c
}

// sayPurged records what the indexer says of itself, as a consumer says it of its own.
func (a *app) sayPurged(cmd *cobra.Command, purpose, cursor string) error {
	values := url.Values{"purpose": {purpose}, "cursor": {cursor}}
	at, err := ask(cmd.Context(), a, "/purged?"+values.Encode(), func(x *indexer.Indexer) (envelope.Time, error) { return purgedHere(x, values) })
	if errors.Is(err, grants.ErrCursor) {
		return cli.With(cli.Refused, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "recorded at %s\n", at)
	return err
}

func purgedHere(x *indexer.Indexer, q url.Values) (at envelope.Time, err error) {
	cursor, err := base64.RawURLEncoding.DecodeString(q.Get("cursor"))
	if err != nil {
		return at, err
	}
	return x.Purged(grants.Purpose(q.Get("purpose")), cursor)
}

// servePurged answers the command on the socket.
func (d *daemon) servePurged(w http.ResponseWriter, r *http.Request) {
	answer(w, func() (envelope.Time, error) { return purgedHere(d.x, r.URL.Query()) })
}

type feedQuery struct {
	purpose, cursor string
	follow          bool
}

// printFeed copies what the daemon of the folder tells, or tells it from the store.
func printFeed(ctx context.Context, a *app, w io.Writer, q feedQuery) error {
	values := url.Values{"purpose": {q.purpose}, "since": {q.cursor}}
	if q.follow {
		values.Set("follow", "1")
	}
	client := daemonClient(a.dir)
	client.Timeout = 0
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon/feed?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		if q.follow {
			return cli.Errorf(cli.Temporary, "no daemon runs here, so that nothing more will come")
		}
		_, err := askStore(a, false, func(x *indexer.Indexer) (struct{}, error) { return struct{}{}, tellFeed(ctx, x, w, q) })
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		code := cli.IO
		if resp.StatusCode == http.StatusGone {
			code = cli.Refused
		}
		return cli.Errorf(code, "the daemon answers: %s", bytes.TrimSpace(b))
	}
	if _, err := io.Copy(w, resp.Body); err != nil && ctx.Err() == nil {
		return cli.With(cli.Temporary, err)
	}
	return nil
}

// feedLine is an item of the feed as it is printed.
type feedLine struct {
	Op        string        `json:"op"`
	Cursor    string        `json:"cursor,omitzero"`
	Publisher envelope.Name `json:"publisher,omitzero"`
	Series    string        `json:"series,omitzero"`
	URLHash   envelope.Hash `json:"url_hash,omitzero"`
	Reason    grants.Reason `json:"reason,omitzero"`
	Time      envelope.Time `json:"time,omitzero"`

	Page    *indexer.Page `json:"page,omitempty"`
	Payload []byte        `json:"payload,omitempty"` // base64
}

// tellFeed writes lines until all is told, or, following, until ctx ends.
func tellFeed(ctx context.Context, x *indexer.Indexer, w io.Writer, q feedQuery) error {
	cursor, err := base64.RawURLEncoding.DecodeString(q.cursor)
	if err != nil {
		return err
	}
	return x.Feed(ctx, grants.Purpose(q.purpose), cursor, q.follow, func(it *indexer.FeedItem) error {
		l := feedLine{
			Op: it.Op, Cursor: base64.RawURLEncoding.EncodeToString(it.Cursor), Publisher: it.Publisher, Series: it.Series,
			URLHash: it.URLHash, Reason: it.Reason, Time: it.Time, Page: it.Page,
		}
		if it.Page != nil {
			l.Payload = it.Page.Payload
		}
		b, err := json.Marshal(l, json.Deterministic(true))
		if err != nil {
			return err
		}
		_, err = w.Write(append(b, '\n'))
		return err
	})
}

// lineWriter sends each line at once, and notes that the answer has begun.
type lineWriter struct {
	http.ResponseWriter
	begun bool
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.begun = true
	n, err := l.ResponseWriter.Write(b)
	if err == nil {
		err = http.NewResponseController(l.ResponseWriter).Flush()
	}
	return n, err
}

// unhurried takes the limits of time off an answer that goes on for long.
func unhurried(w http.ResponseWriter) error {
	rc := http.NewResponseController(w)
	return errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}))
}

// serveFeed answers the command on the socket. What goes wrong later cuts the
// answer off, so that the command sees that it is not whole.
func (d *daemon) serveFeed(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	out := &lineWriter{ResponseWriter: w}
	err := errors.Join(unhurried(w), tellFeed(r.Context(), d.x, out, feedQuery{q.Get("purpose"), q.Get("since"), q.Get("follow") != ""}))
	switch {
	case err == nil:
	case out.begun:
		panic(http.ErrAbortHandler)
	case errors.Is(err, grants.ErrCursor):
		http.Error(w, fmt.Sprint(err), http.StatusGone)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
