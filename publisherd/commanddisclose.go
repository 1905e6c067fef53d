package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

func newDisclose(a *app) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "disclose GRANT -o FILE",
		Short: "Write the file by which an auditor can judge the pages of a grant's series in the log",
		Long: "Disclose writes the leaf key of the series, and which pages stand in which entry of the indexer's log, for\n" +
			"\"auditor lint --disclosed\". Whoever has the file can recognise every page of the series in the log, for good,\n" +
			"those to come as well. It cannot be taken back. Evidence of single pages discloses no more than that page.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.Errorf(cli.Usage, "name the file with -o; it holds a secret")
			}
			raw, err := ask(cmd.Context(), a, query[[]byte]{
				method: http.MethodGet, path: "/disclosure", values: url.Values{"grant": {args[0]}},
				store: func(p *publisher.Publisher) ([]byte, error) { return p.Disclose(args[0]) },
			})
			if err != nil {
				return err
			}
			if err := durable.WriteFile(out, raw, 0o600); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Whoever gets %s can recognise every page of this series in the log, for good.\n", out)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "file to write")
	return c
}
