package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// newBackup makes a backup: through the daemon if one runs, which goes on
// meanwhile, else by itself.
func newBackup(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy store, keys and configuration into a new folder, and check the copy",
		Long: "Copy store, keys and configuration into the new folder DIR, whether the daemon runs or not, and check the\n" +
			"whole copy as fsck does. DIR/store and DIR/keys are apart, to be kept apart: without the keys nobody reads\n" +
			"the pages. Only what this prints is a backup. How to restore it is in doc/backup.md.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := filepath.Abs(args[0]) // the daemon has another current folder
			if err != nil {
				return err
			}
			m, err := askLong(cmd.Context(), a, "/backup", url.Values{"to": {to}}, func(ctx context.Context) (*indexer.Manifest, error) {
				return indexer.BackupFolder(ctx, a.dir, to, cli.Version())
			})
			if err != nil {
				return err
			}
			if a.json {
				return cli.PrintJSON(cmd.OutOrStdout(), m)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: checked, durable\nlog %s: %d entries, root %s\n%d series, %d pages; store %d octets, keys %d octets\n",
				to, m.LogOrigin, m.TreeSize, m.Root, m.Series, m.Pages, m.StoreBytes, m.KeysBytes)
			return err
		},
	}
}
