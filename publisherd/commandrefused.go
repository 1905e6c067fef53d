package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
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
			"delivered, in another revision, or is gone. Without --all the\n" +
			"first 100 are shown; --json prints all, one a line.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			letters, err := ask(cmd.Context(), a, query[[]publisher.DeadLetter]{
				method: http.MethodGet, path: "/refused", store: (*publisher.Publisher).DeadLetters,
			})
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			for i, l := range letters {
				switch {
				case a.json:
					if err := cli.PrintJSON(w, l); err != nil {
						return err
					}
				case (all || i < manyRefused) && l.URL == "":
					fmt.Fprintf(w, "%s, of collection %s: %s since %s\n", l.Location, l.Collection, l.Reason, l.Since)
				case all || i < manyRefused:
					fmt.Fprintf(w, "%s: %s since %s, by %s\n", l.URL, reasonOf(l), l.Since, l.Indexer)
				}
			}
			if more := len(letters) - manyRefused; more > 0 && !all && !a.json {
				fmt.Fprintf(w, "and %d more; --all shows them\n", more)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show all, however many")
	return c
}

func reasonOf(l publisher.DeadLetter) string {
	if l.Detail == "" {
		return l.Reason
	}
	return l.Reason + " (" + l.Detail + ")"
}

// printRefused is what the status says of pages that are not delivered.
func printRefused(w io.Writer, r *publisher.RefusedStatus) {
	if r == nil {
		return
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Reasons[reason], reason))
	}
	fmt.Fprintf(w, "  ALERT: pages that are not delivered: %s; the first since %s\n", strings.Join(parts, ", "), r.Since)
	for _, l := range r.First[:min(len(r.First), 3)] {
		fmt.Fprintf(w, "    %s: %s since %s\n", l.URL, reasonOf(l), l.Since)
	}
	if r.Count > 3 {
		fmt.Fprintf(w, "    \"refused\" lists all %d\n", r.Count)
	}
}
