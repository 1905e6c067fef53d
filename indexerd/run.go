package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/uzpif-oi/uzpif-oi/indexerd/gateway"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The files of a running daemon.
const (
	runFile    = "run.json"   // the addresses really bound
	socketFile = "admin.sock" // commands talk to the daemon here; owner only
)

// running is run.json.
type running struct {
	PID    int    `json:"pid"`
	Listen string `json:"listen,omitempty"` // none of a frozen log
	Public string `json:"public"`
	Admin  string `json:"admin,omitempty"`
	Feed   string `json:"feed,omitempty"`

	Gateway string `json:"gateway,omitempty"`
}

func newRun(a *app) *cobra.Command {
	var frozen, trusted bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Accept sessions and serve the log until stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(a.dir)
			if err != nil {
				return err
			}
			c.trustStore = trusted
			level := new(slog.LevelVar)
			level.Set(c.level)
			return run(cmd.Context(), a.dir, c, frozen, cli.NewLogger(os.Stderr, level), level)
		},
	}
	c.Flags().BoolVar(&frozen, "frozen", false, "serve a frozen log to be read; accept no session and sign nothing")
	c.Flags().BoolVar(&trusted, "trust-restored-store", false,
		"take a restored store for the newest, once; if anything newer was ever shown, this forks the log for good (doc/backup.md)")
	return c
}

// run is the daemon: it listens, serves, and on the end of ctx stops in order:
// sessions, which are asked to come back and may finish what is in flight for
// 10 s (20 s while thousands of them go on ending); HTTP; log; store. A second signal ends the process at once.
func run(ctx context.Context, dir string, c config, frozen bool, log *slog.Logger, level *slog.LevelVar) (err error) {
	witnesses, err := c.openWitnesses(dir)
	if err != nil {
		return err
	}
	if witnesses != nil {
		defer witnesses.Close()
	}
	traces, flush, err := cli.OpenTraces(ctx, "indexerd", c.TraceEndpoint, c.TraceRatio, log)
	if err != nil {
		return err
	}
	defer flush()
	x, err := indexer.Open(indexer.Config{
		Trace: traces,
		Dir:   dir, Log: log, Publish: c.Publish, MaxGrant: c.MaxGrant, Room: c.room(), Stall: c.Stall, Frozen: frozen,
		Witnesses: witnesses, FailClosed: c.WitnessPolicy == policyClosed,
		TrustStore:  c.trustStore,
		Requests:    c.requests(),
		Allowance:   c.allowance(),
		Certificate: c.certificate(dir),
	})
	if errors.Is(err, translog.ErrRollback) {
		err = cli.With(cli.Failed, fmt.Errorf("%w; doc/backup.md says when run --trust-restored-store is right", err))
	}
	if err != nil {
		return err
	}
	defer func() {
		if closed := x.Close(); !errors.Is(err, durable.ErrFailed) { // else it says the same again
			err = errors.Join(err, closed)
		}
	}()
	d := &daemon{dir: dir, x: x, log: log, frozen: frozen, manager: &cli.Manager{Log: log, Turns: func() { _, _ = x.Status() }}}
	d.reload = &cli.Reloader[config]{Log: log, Config: c, Live: settings().Live(), Manager: d.manager, Written: d.reloaded,
		Read: func() (config, error) { return loadConfig(dir) },
		Apply: func(c config) {
			level.Set(c.level)
			x.SetMaxGrant(c.MaxGrant)
			x.SetAllowance(c.allowance())
			x.SetRequests(c.requests())
			if d.gateway != nil {
				d.gateway.SetRate(c.GatewayRate)
			}
		}}
	d.watch = newWatcher(d, c)
	if err := d.listen(c); err != nil {
		d.closeListeners()
		return err
	}
	defer os.Remove(filepath.Join(dir, runFile))
	defer os.Remove(filepath.Join(dir, socketFile))
	log.Info("running", "identity", x.Identity(), "listen", d.bound.Listen, "public", d.bound.Public, "admin", d.bound.Admin, "feed", d.bound.Feed)
	return d.serve(ctx)
}

// A daemon is the listeners of a running indexer.
type daemon struct {
	dir                             string
	x                               *indexer.Indexer
	log                             *slog.Logger
	bound                           running
	frozen                          bool // no sessions
	watch                           *watcher
	manager                         *cli.Manager
	reload                          *cli.Reloader[config]
	session, public, admin, control net.Listener
	feed                            net.Listener // nil: served to nobody

	gateway         *gateway.Gateway // nil: off
	gatewayListener net.Listener
}

func (d *daemon) closeListeners() {
	for _, l := range []net.Listener{d.session, d.public, d.admin, d.control, d.feed, d.gatewayListener} {
		if l != nil {
			l.Close()
		}
	}
}

// listen binds every address, and then tells them in run.json.
func (d *daemon) listen(c config) (err error) {
	d.bound.PID = os.Getpid()
	if !d.frozen {
		if d.session, err = net.Listen("tcp", c.Listen); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		d.bound.Listen = d.session.Addr().String()
	}
	if !d.frozen && c.Feed != "off" {
		if d.feed, err = net.Listen("tcp", c.Feed); err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		d.bound.Feed = d.feed.Addr().String()
	}
	if err := d.listenGateway(c); err != nil {
		return err
	}
	if d.public, err = net.Listen("tcp", c.Public); err != nil {
		return fmt.Errorf("public: %w", err)
	}
	d.bound.Public = d.public.Addr().String()
	if c.Admin != "off" {
		if d.admin, err = net.Listen("tcp", c.Admin); err != nil {
			return fmt.Errorf("admin: %w", err)
		}
		d.bound.Admin = d.admin.Addr().String()
	}
	if d.control, err = cli.ListenSocket(filepath.Join(d.dir, socketFile)); err != nil {
		return fmt.Errorf("admin socket: %w", err)
	}
	b, err := json.Marshal(d.bound)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(d.dir, runFile), append(b, '\n'), 0o644)
}

// serve runs all servers until ctx ends or one of them, or the log, fails.
func (d *daemon) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if !d.frozen {
		grpcServer := d.x.NewServer()
		group.Go(func() error { return d.x.Serve(ctx, grpcServer, d.session) })
	}
	if d.feed != nil {
		feedServer := d.x.NewFeedServer()
		group.Go(func() error { return d.x.ServeFeed(ctx, feedServer, d.feed) })
	}
	const read, write = 30 * time.Second, time.Minute
	cli.ServeHTTP(group, ctx, d.public, d.x.Public(), read, write, d.log)
	if d.gateway != nil {
		cli.ServeHTTP(group, ctx, d.gatewayListener, d.gateway, read, write, d.log)
	}
	cli.ServeHTTP(group, ctx, d.admin, d.monitor(d.reload.Config), read, write, d.log)
	cli.ServeHTTP(group, ctx, audit.Listener(d.control), d.audited(d.commands()), read, write, d.log)
	if d.admin != nil {
		group.Go(func() error { return monitor.Sample(ctx, d.watch.look) })
	}
	group.Go(func() error { return cli.KeepGarbageLow(ctx) })
	group.Go(func() error { return d.x.Wait(ctx) })
	group.Go(func() error { return d.reload.Run(ctx) })
	group.Go(func() error { return d.manager.Run(ctx) })
	d.manager.Ready()
	return group.Wait()
}
