package main

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// newBackup makes a backup: through the daemon if one runs, which goes on
// meanwhile, else by itself.
func newBackup(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy journal, receipts, keys and configuration into a new folder, and check the copy",
		Long: "Copy store, keys, sources, trust, grants and configuration into the new folder DIR, whether the daemon runs\n" +
			"or not, read all of the copy, and evaluate each receipt in it again. The pages themselves are not in it: they\n" +
			"are where the sources say. How to restore it is in doc/backup.md.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := filepath.Abs(args[0]) // the daemon has another current folder
			if err != nil {
				return err
			}
			m, err := ask(cmd.Context(), a, query[*publisher.Manifest]{
				method: http.MethodPost, path: "/backup", values: url.Values{"to": {to}},
				store: func(p *publisher.Publisher) (*publisher.Manifest, error) { return p.Backup(to, cli.Version()) },
			})
			if err != nil {
				return err
			}
			if a.json {
				err = cli.PrintJSON(cmd.OutOrStdout(), m)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: checked, durable\n%d collections, %d agreements, %d receipts; store %d octets, keys %d octets\n",
					to, m.Collections, m.Agreements, m.Receipts, m.StoreBytes, m.KeysBytes)
			}
			if err == nil && len(m.Failed) > 0 {
				err = fmt.Errorf("the backup is made; as in the store, %w: %d of %d, the first: %s", errBadReceipts, len(m.Failed), m.Receipts, m.Failed[0])
			}
			return err
		},
	}
}

// serveBackup makes a backup while the daemon goes on, and gives back what the check
// of the copy took of memory: a daemon with little to do would keep it for minutes.
func (d *daemon) serveBackup(w http.ResponseWriter, r *http.Request) {
	defer debug.FreeOSMemory()
	answer(w, func() (*publisher.Manifest, error) { return d.p.Backup(r.URL.Query().Get("to"), cli.Version()) })
}
