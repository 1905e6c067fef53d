package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// newAsk has pages asked for that their publishers would not send by themselves.
func newAsk(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ask URL...",
		Short: "Have pages asked for, before all that was signalled",
		Long: "Have pages asked for in the next session with each publisher whose grant is of mode request or both\n" +
			"and covers them: one whose payload went at the end of its retention, say. It is kept until the page\n" +
			"has come or its publisher says that it does not. Exit 77 if no grant lets this indexer ask.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, page := range args {
				if err := content.IsCanonical(page); err != nil {
					return cli.Errorf(cli.Usage, "page %.200q: %w; name it as its publisher does", page, err)
				}
			}
			for _, page := range args {
				all, err := askLong(cmd.Context(), a, "/ask", url.Values{"url": {page}}, func(ctx context.Context) ([]indexer.Wish, error) {
					return askStore(a, false, func(x *indexer.Indexer) ([]indexer.Wish, error) { return x.Ask(ctx, page) })
				})
				if err != nil {
					return err
				}
				for _, w := range all {
					if a.json {
						err = cli.PrintJSON(cmd.OutOrStdout(), w)
					} else {
						_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n  will be asked for of %s, collection %s; %d of its pages are wanted\n", w.URL, w.Publisher, w.Collection, w.Wanted)
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

// serveAsk answers the command on the socket.
func (d *daemon) serveAsk(w http.ResponseWriter, r *http.Request) {
	answerLong(w, r, func(ctx context.Context) ([]indexer.Wish, error) { return d.x.Ask(ctx, r.URL.Query().Get("url")) })
}
