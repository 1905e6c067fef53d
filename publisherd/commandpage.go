package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// pageStatus shows who may have been handed one page, and has it still.
func (a *app) pageStatus(cmd *cobra.Command, page string) error {
	if err := content.IsCanonical(page); err != nil {
		return cli.With(cli.Usage, err)
	}
	told, err := ask(cmd.Context(), a, query[*publisher.PageHolders]{
		method: http.MethodGet, path: "/holders", values: url.Values{"page": {page}},
		store: func(p *publisher.Publisher) (*publisher.PageHolders, error) { return p.AskPage(cmd.Context(), page) },
	})
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if a.json {
		return cli.PrintJSON(w, told)
	}
	left := 0
	for _, h := range told.Holders {
		if h.State != "purged" {
			left++
		}
		fmt.Fprintf(w, "%s, collection %s: %s%s for %s, %s\n", h.Indexer, h.Collection, h.Consumer, party(h.ThirdParty), h.Purpose, describePage(&h))
	}
	_, err = fmt.Fprintf(w, "%s: %d may have been handed it, %d of them have not purged it, as the indexers said at %s\n", told.URL, len(told.Holders), left, told.AskedAt)
	return err
}

func party(third bool) string {
	if third {
		return ", a third party,"
	}
	return ""
}

// describePage is what became of a page, in words.
func describePage(h *publisher.PageHolder) string {
	switch h.State {
	case "held":
		return "may read it still"
	case "purged":
		return fmt.Sprintf("says that it is purged, last at %s", h.PurgedAt)
	}
	return "was to purge it, and has not said that it did"
}
