package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog/fsck"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// fsckFlags is the command line of fsck.
type fsckFlags struct {
	key        string
	signatures bool
	json       bool
}

func fsckCommand() *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck LOG_URL|BACKUP_DIR --key CARD.json",
		Short: "Check a whole log, entry by entry, over HTTP or in a backup",
		Long: `Check a whole log: every entry, every tile, the checkpoints and what chains them.

Over HTTP that is all that the log publishes. In a backup that "indexerd backup"
made, or in the folder of an indexer that is not running, the decision sets and
every checkpoint ever published are checked too. Payloads are checked by
"indexerd fsck", which has their keys.`,
		Example: `  auditor fsck https://log.search.example --key indexer.json
  auditor fsck /backups/2027-01-15 --key indexer.json --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runFsck(cmd.Context(), cmd.OutOrStdout(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "the indexer's identity `card`")
	flags.BoolVar(&f.signatures, "signatures", true, "check the signature of each entry, which takes most of the time")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON")
	if err := cmd.MarkFlagRequired("key"); err != nil {
		panic(err) // the flag is declared four lines above
	}
	return cmd
}

// runFsck prints what was found, and returns an error if that is anything.
func runFsck(ctx context.Context, out io.Writer, from string, f fsckFlags) error {
	card, err := readCard(f.key)
	if err != nil {
		return err
	}
	if card.Log == nil {
		return cli.Errorf(cli.Usage, "%s is the card of a %s, which has no log", f.key, card.Role)
	}
	report, err := checkLog(ctx, from, card, fsck.Options{
		VKey: card.Log.VKey, Keys: card, Indexer: card.Identity, Signatures: f.signatures,
	})
	if err != nil {
		return err
	}
	if f.json {
		err = cli.PrintJSON(out, report)
	} else {
		_, err = io.WriteString(out, safe(report.String()))
	}
	if err != nil {
		return cli.With(cli.IO, err)
	}
	if !report.OK() {
		return cli.Errorf(cli.Failed, "%s: %d things are not as they have to be%s", from, report.Found(), elsewhere(from, card, report))
	}
	return nil
}

// elsewhere is where the log is by its card, if no checkpoint of it was found at the URL
// from: so it is when a log was rotated out, whose place is still that of the first.
func elsewhere(from string, card *identity.Card, r *fsck.Report) string {
	if r.Origin != "" || !strings.Contains(from, "://") || strings.TrimRight(from, "/") == strings.TrimRight(card.Log.URL, "/") {
		return ""
	}
	return safe(fmt.Sprintf("; by its card the log %s is at %s", card.Log.Origin, card.Log.URL))
}

// checkLog tells a URL from a folder: a URL has a scheme.
func checkLog(ctx context.Context, from string, card *identity.Card, o fsck.Options) (*fsck.Report, error) {
	if strings.Contains(from, "://") {
		log, err := remote.New(from, card.Log.VKey, remote.Options{Agent: "uzpif-oi-auditor"})
		if err != nil {
			return nil, cli.With(cli.Usage, err)
		}
		defer log.Close()
		report, err := fsck.Remote(ctx, log, o)
		if errors.Is(err, remote.ErrUnavailable) {
			err = cli.With(cli.Unavailable, err)
		}
		return report, err
	}
	store := filepath.Join(from, "store")
	if _, err := os.Stat(store); err != nil {
		return nil, cli.Errorf(cli.IO, "%s is neither the URL of a log nor a folder with a store: %w", from, err)
	}
	s, err := durable.OpenReadOnly(store, durable.Options{Logger: slog.New(slog.DiscardHandler)})
	if errors.Is(err, durable.ErrLocked) {
		return nil, cli.With(cli.Temporary, err)
	}
	if err != nil {
		return nil, cli.Errorf(cli.Failed, "the store in %s cannot be opened: %w", from, err)
	}
	defer s.Close() // it was only read: there is nothing to lose
	report, err := fsck.Store(ctx, s, o)
	if err != nil {
		return nil, err
	}
	// The rest of the store is read once, which finds what changed on the disk.
	for _, err := range s.Scan([]byte{0}, nil) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			report.Add(fsck.Finding{Kind: fsck.Unreadable, Key: "store", Detail: err.Error()})
		}
	}
	return report, nil
}
