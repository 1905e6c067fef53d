package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/uzpif-oi/uzpif-oi/auditor/follow"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// followFlags is the command line of follow.
type followFlags struct {
	followLog
	config, state, metrics string
	every, stale           time.Duration
	once, json             bool
}

func followCommand() *cobra.Command {
	var f followFlags
	cmd := &cobra.Command{
		Use:   "follow {LOG_URL --key CARD.json | --config FILE} --state DIR",
		Short: "Watch a log, or many: that each only grows, and that it is the same for all",
		Long: `Watch a log for as long as this runs, or with --once for one round: each checkpoint
must go on from those before it, each new entry is verified, and what others were
shown (--notes) must be the same log. What was shown is remembered in the state
folder, across restarts.

A log that forks, goes back, serves what it did not sign for, shows others another
log, shows nothing new, or is not cosigned leaves an alert in the folder alerts
below the state folder, with the notes that it signed. It stays there until you
remove it. doc/auditor.md says what each kind means.

With --once, exit code 0 means that the round came to its end and no alert stands.`,
		Example: `  auditor follow https://log.search.example --key indexer.json --state watch --once
  auditor follow https://log.search.example --key indexer.json --state watch --witnesses policy.txt --notes notes-of-others
  auditor follow --config logs.yaml --state watch --metrics 127.0.0.1:9464`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.URL = args[0]
			}
			return runFollow(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Key, "key", "", "the indexer's identity `card`")
	flags.StringVar(&f.config, "config", "", "a YAML `file` with a list of logs: url, key, witnesses, quorum, notes")
	flags.StringVar(&f.state, "state", "", "the `folder` to remember in")
	flags.StringVar(&f.Witnesses, "witnesses", "", "a `file` that names witnesses you trust: C2SP tlog-policy, of which URLs are not needed")
	flags.IntVar(&f.Quorum, "quorum", 0, "how many of them must have cosigned; 0 takes the quorum of the file")
	flags.StringArrayVar(&f.Notes, "notes", nil, "a `file`, or a folder of files, with checkpoint notes that others were shown")
	flags.DurationVar(&f.every, "every", time.Minute, "the time between two rounds")
	flags.DurationVar(&f.stale, "stale", 2*time.Hour, "how old a checkpoint, a quorum of witnesses, or the last good round may be")
	flags.BoolVar(&f.once, "once", false, "make one round and end")
	flags.StringVar(&f.metrics, "metrics", "", "serve /metrics and /healthz at this `address`, as 127.0.0.1:9464")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON for each log and round")
	if err := cmd.MarkFlagRequired("state"); err != nil {
		panic(err) // the flag is declared some lines above
	}
	return cmd
}

// runFollow follows until ctx ends, which is no error, or for one round.
func runFollow(ctx context.Context, out, events io.Writer, f followFlags) (err error) {
	if f.every < time.Second || f.stale < time.Minute {
		return cli.Errorf(cli.Usage, "--every %s --stale %s: want at least a second, and at least a minute", f.every, f.stale)
	}
	logs, err := f.logs()
	if err != nil {
		return err
	}
	words := cli.NewLogger(events, slog.LevelInfo)
	if f.once { // the report says it
		words = slog.New(slog.DiscardHandler)
	}
	set, err := follow.Open(follow.Options{
		Dir: f.state, Logger: words, Now: time.Now, Rand: rand.Int64N, Every: f.every, Stale: f.stale,
		Remote: remote.Options{Timeout: 20 * time.Second, Tries: 3, Patience: 10 * time.Second, Ahead: 4, Agent: "uzpif-oi-auditor"},
	}, logs)
	switch {
	case errors.Is(err, follow.ErrLocked):
		return cli.With(cli.Temporary, err)
	case errors.Is(err, follow.ErrState):
		return cli.With(cli.Failed, err)
	case err != nil:
		return cli.With(cli.Usage, err)
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	if f.once {
		return followOnce(ctx, out, set, f.json)
	}
	return followOn(ctx, out, set, f, words)
}

// followOnce prints what one round found, and returns the gravest error.
func followOnce(ctx context.Context, out io.Writer, set *follow.Set, json bool) error {
	var worst error
	for _, r := range set.Once(ctx) {
		var err error
		if json {
			err = cli.PrintJSON(out, r)
		} else {
			err = printFollowed(out, r)
		}
		if err != nil {
			return cli.With(cli.IO, err)
		}
		if err := judgeFollowed(r); err != nil && (worst == nil || cli.CodeOf(worst) != cli.Failed) {
			worst = err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return worst
}

// judgeFollowed turns a report into the command's own error.
func judgeFollowed(r *follow.Report) error {
	switch {
	case len(r.Violations) > 0:
		v := r.Violations[0]
		return cli.Errorf(cli.Failed, "%s: %d alerts stand; the first: %s: %s", r.Origin, len(r.Violations), v.Rule, safe(v.Detail))
	case r.Reason == follow.Unavailable:
		return cli.Errorf(cli.Unavailable, "%s: %w", r.Origin, r.Err)
	case r.Reason == follow.Local:
		return cli.Errorf(cli.IO, "%s: %w", r.Origin, r.Err)
	case r.Err != nil:
		return cli.Errorf(cli.Failed, "%s: %w", r.Origin, r.Err)
	case r.Notes.Refused > 0:
		return cli.Errorf(cli.Failed, "%s: %d notes of others are none of this log", r.Origin, r.Notes.Refused)
	}
	return nil
}

func printFollowed(out io.Writer, r *follow.Report) error {
	text := fmt.Sprintf("%s: %d entries, of which %d are verified, %d of them now\n", r.Origin, r.TreeSize, r.Verified, r.Checked)
	if n := r.Notes; n != (follow.NoteCount{}) {
		text += fmt.Sprintf("  notes of others: %d are of this log, %d are ahead of it, %d are refused\n", n.Consistent, n.Ahead, n.Refused)
	}
	for _, v := range r.Violations {
		text += fmt.Sprintf("  ALERT %s since %s: %s (alerts/%s)\n", v.Rule, v.At, v.Detail, v.Folder)
	}
	_, err := io.WriteString(out, safe(text))
	return err
}

// followOn follows, and serves the metrics, until ctx ends.
func followOn(ctx context.Context, out io.Writer, set *follow.Set, f followFlags, words *slog.Logger) error {
	var l net.Listener
	if f.metrics != "" {
		if _, _, err := net.SplitHostPort(f.metrics); err != nil {
			return cli.Errorf(cli.Usage, "--metrics: %w", err)
		}
		var err error
		if l, err = net.Listen("tcp", f.metrics); err != nil {
			return cli.With(cli.IO, err)
		}
		words.Info("metrics", "address", l.Addr().String())
	}
	group, ctx := errgroup.WithContext(ctx)
	cli.ServeHTTP(group, ctx, l, followMonitor(set), 10*time.Second, 20*time.Second, words)
	group.Go(func() error {
		var outMu sync.Mutex // guards out and failed
		var failed error
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		set.Run(ctx, func(r *follow.Report) {
			if !f.json {
				return
			}
			outMu.Lock()
			defer outMu.Unlock()
			if err := cli.PrintJSON(out, r); err != nil && failed == nil {
				failed = cli.With(cli.IO, err) // nobody reads what is found
				stop()
			}
		})
		return failed
	})
	return group.Wait()
}

// scrapes is how many may be under way at once; more are refused.
const scrapes = 4

// followMonitor serves liveness, readiness and metrics. It is ready when each
// log has been looked at.
func followMonitor(set *follow.Set) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(set.Collector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/", cli.Health(func() error {
		for _, n := range set.Figures() {
			if n.Rounds == 0 {
				return fmt.Errorf("%s has not been looked at yet", n.Origin)
			}
		}
		return nil
	}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, Timeout: 10 * time.Second}))
	return mux
}
