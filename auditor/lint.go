package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// lintFlags is the command line of lint.
type lintFlags struct {
	key, state, disclosed string
	json, ended           bool
}

func lintCommand() *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint LOG_URL --key CARD.json",
		Short: "Judge a whole log: whether what its indexer signed there can be true",
		Long: `Judge a whole log by the rules of its profile. Beside what fsck checks: keys,
terms of grants, expiry, revocations, batches, cursors, numbers of pages, and the
order and chain of checkpoints. Each violation is told with the index of the entry
(of a checkpoint: its size) and the name of the rule; doc/auditor.md has them all.

With --state, a later run goes on from where this one has come to, and a history
that was changed in between is found. With --disclosed, single pages are judged
too: a publisher makes such a file where it wants its pages to be known.

No violation does not mean that the indexer does what it logs.`,
		Example: `  auditor lint https://log.search.example --key indexer.json
  auditor lint https://log.search.example --key indexer.json --state lint --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLint(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "the indexer's identity `card`")
	flags.StringVar(&f.state, "state", "", "a `folder` to go on from, and to remember in")
	flags.StringVar(&f.disclosed, "disclosed", "", "a `file` in which a publisher discloses its pages")
	flags.BoolVar(&f.ended, "ended", false, "the log has ended: do not ask for a new checkpoint")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON")
	if err := cmd.MarkFlagRequired("key"); err != nil {
		panic(err) // the flag is declared six lines above
	}
	return cmd
}

// runLint prints what was found, and returns an error if that is anything.
func runLint(ctx context.Context, out, progress io.Writer, url string, f lintFlags) error {
	o, err := lintOptions(f, time.Now())
	if err != nil {
		return err
	}
	log, err := remote.New(url, o.Card.Log.VKey, remote.Options{Agent: "uzpif-oi-auditor"})
	if err != nil {
		return cli.With(cli.Usage, err)
	}
	defer log.Close()
	if file, ok := progress.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		o.Progress = progressLine(file, time.Now)
	}
	report, err := lint.Remote(ctx, log, o)
	if err != nil {
		return scanError(ctx, err)
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
		return cli.Errorf(cli.Failed, "%s: %s; the first: %s", url, report.Count(), safe(report.Violations[0].String()))
	}
	return nil
}

// lintOptions reads every file that the command line names.
func lintOptions(f lintFlags, now time.Time) (lint.Options, error) {
	o := lint.Options{State: f.state, Ended: f.ended, Now: now}
	var err error
	if o.Card, err = readCard(f.key); err != nil {
		return o, err
	}
	if o.Card.Log == nil {
		return o, cli.Errorf(cli.Usage, "%s is the card of a %s, which has no log", f.key, o.Card.Role)
	}
	if f.disclosed == "" {
		return o, nil
	}
	raw, err := readFile(f.disclosed, lint.MaxDisclosure)
	if err != nil {
		return o, err
	}
	if o.Disclosed, err = lint.ParseDisclosure(raw); err != nil {
		return o, cli.Errorf(cli.Failed, "%s: %w", f.disclosed, err)
	}
	return o, nil
}

// progressEvery is how often a line says how far a check has come.
const progressEvery = 3 * time.Second

// progressLine writes such lines.
func progressLine(w io.Writer, now func() time.Time) func(done, total uint64) {
	began := now()
	next := began.Add(progressEvery)
	first := uint64(0)
	return func(done, total uint64) {
		if first == 0 {
			first = done
		}
		t := now()
		if t.Before(next) || total == 0 {
			return
		}
		next = t.Add(progressEvery)
		rate := float64(done-first) / t.Sub(began).Seconds()
		fmt.Fprintf(w, "%d of %d entries (%d %%), %.0f a second\n", done, total, 100*done/total, rate)
	}
}
