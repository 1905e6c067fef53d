package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// How many refused pages a person is shown where they are not the subject, and
// where they are.
const (
	fewRefused  = 10
	manyRefused = 100
)

func newRefused(a *app) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "refused",
		Short: "List the pages that are not delivered, with the reason and since when",
		Long: "refused lists the pages that an indexer refused, or that are beyond what it takes, and the files\n" +
			"that can be no page, such as one of more than 100 MiB. Each stays in the list until the page is\n" +
			"delivered, in another revision, or is gone. Without --all the first 100 are shown; --json prints\n" +
			"all, one a line.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			most := math.MaxInt
			if !all && !a.json {
				most = manyRefused
			}
			return a.printLetters(cmd.Context(), cmd.OutOrStdout(), most)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show all, however many")
	return c
}

// printLetters prints the first most of the dead letters. It holds one part of the
// list at a time.
func (a *app) printLetters(ctx context.Context, w io.Writer, most int) error {
	printed, pages := 0, 0
	for after := ""; ; {
		limit := min(most-printed, publisher.MaxDeadLetters)
		list, err := ask(ctx, a, query[publisher.DeadLetterList]{
			method: http.MethodGet, path: "/refused", values: url.Values{"after": {after}, "limit": {strconv.Itoa(limit)}},
			store: func(p *publisher.Publisher) (publisher.DeadLetterList, error) { return p.DeadLetters(after, limit) },
		})
		if err != nil {
			return err
		}
		for _, l := range list.Letters {
			if err := a.printLetter(w, l); err != nil {
				return err
			}
			if l.URL != "" {
				pages++
			}
		}
		printed += len(list.Letters)
		switch {
		case list.Next == "":
			return nil
		case printed < most:
		case list.Total > pages:
			_, err := fmt.Fprintf(w, "and %d more; --all shows them\n", list.Total-pages)
			return err
		default:
			_, err := fmt.Fprintln(w, "and more files; --all shows them")
			return err
		}
		after = list.Next
	}
}

func (a *app) printLetter(w io.Writer, l publisher.DeadLetter) (err error) {
	switch {
	case a.json:
		return cli.PrintJSON(w, l)
	case l.URL == "":
		_, err = fmt.Fprintf(w, "%s, of collection %s: %s since %s\n", l.Location, l.Collection, l.Reason, l.Since)
	default:
		_, err = fmt.Fprintf(w, "%s: %s since %s, by %s\n", l.URL, reasonOf(l), l.Since, l.Indexer)
	}
	return err
}

func reasonOf(l publisher.DeadLetter) string {
	if l.Detail == "" {
		return l.Reason
	}
	return l.Reason + " (" + l.Detail + ")"
}

// reasonsOf counts refused pages by reason.
func reasonsOf(r *publisher.RefusedStatus) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Reasons[reason], reason))
	}
	return strings.Join(parts, ", ")
}

// printRefused is what the status says of pages that are not delivered.
func printRefused(w io.Writer, r *publisher.RefusedStatus) {
	if r == nil {
		return
	}
	fmt.Fprintf(w, "  ALERT: pages that are not delivered: %s; the first since %s\n", reasonsOf(r), r.Since)
	for _, l := range r.First[:min(len(r.First), 3)] {
		fmt.Fprintf(w, "    %s: %s since %s\n", l.URL, reasonOf(l), l.Since)
	}
	if r.Count > 3 {
		fmt.Fprintf(w, "    \"refused\" lists all %d\n", r.Count)
	}
}
