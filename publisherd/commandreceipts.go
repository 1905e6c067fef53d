package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// errBadReceipts is returned when a stored receipt does not hold.
var errBadReceipts = errors.New("receipts that do not hold")

func newReceipts(a *app) *cobra.Command {
	c := &cobra.Command{Use: "receipts", Short: "List, show or verify receipts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newReceiptsList(a), newReceiptsShow(a), newReceiptsVerify(a))
	return c
}

// maxReceipts is how many receipts are listed unless --limit says otherwise.
const maxReceipts = 1000

func newReceiptsList(a *app) *cobra.Command {
	var limit uint16
	c := &cobra.Command{Use: "list", Short: "List the newest receipts, oldest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := ask(cmd.Context(), a, query[publisher.ReceiptList]{
				method: http.MethodGet, path: "/receipts", values: url.Values{"limit": {strconv.Itoa(int(limit))}},
				store: func(p *publisher.Publisher) (publisher.ReceiptList, error) { return p.Receipts(int(limit)) },
			})
			if err != nil {
				return err
			}
			if list.Older > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d older receipts are not shown; see --limit\n", list.Older)
			}
			for _, l := range list.Receipts {
				if a.json {
					if err := cli.PrintJSON(cmd.OutOrStdout(), l); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%s\t%s\tto revision %d", l.IssuedAt, l.Receipt, l.Indexer, l.Collection, l.Through)
				for _, e := range l.Entries {
					fmt.Fprintf(cmd.OutOrStdout(), "\t%s %d", e.Decision, e.Count)
				}
				fmt.Fprintln(cmd.OutOrStdout())
			}
			return nil
		}}
	c.Flags().Uint16Var(&limit, "limit", maxReceipts, "show the newest `N`, 0 for all")
	return c
}

func newReceiptsShow(a *app) *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Print a receipt's exact octets", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := envelope.ParseHash(args[0])
			if err != nil {
				return cli.With(cli.Usage, err)
			}
			raw, err := ask(cmd.Context(), a, query[[]byte]{
				method: http.MethodGet, path: "/receipts/" + id.String(),
				store: func(p *publisher.Publisher) ([]byte, error) { return p.ReceiptFile(id) },
			})
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(raw)
			return err
		}}
}

// verified is what receipts verify prints.
type verified struct {
	Checked int      `json:"checked"`
	Failed  []string `json:"failed"`
}

func verifyReceipts(p *publisher.Publisher) (verified, error) {
	n, bad, err := p.VerifyReceipts()
	v := verified{n, make([]string, len(bad))}
	for i, b := range bad {
		v.Failed[i] = b.Error()
	}
	return v, err
}

func newReceiptsVerify(a *app) *cobra.Command {
	return &cobra.Command{Use: "verify", Short: "Evaluate every stored receipt again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := ask(cmd.Context(), a, query[verified]{
				method: http.MethodPost, path: "/receipts/verify", store: verifyReceipts,
			})
			if err != nil {
				return err
			}
			if a.json {
				err = cli.PrintJSON(cmd.OutOrStdout(), v)
			} else {
				for _, b := range v.Failed {
					fmt.Fprintln(cmd.OutOrStdout(), b)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d receipts checked, %d do not hold\n", v.Checked, len(v.Failed))
			}
			if err == nil && len(v.Failed) > 0 {
				err = fmt.Errorf("%w: %d of %d", errBadReceipts, len(v.Failed), v.Checked)
			}
			return err
		}}
}
