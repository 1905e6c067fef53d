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

	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// The files of a running daemon.
const (
	runFile    = "run.json"   // what really runs
	socketFile = "admin.sock" // commands talk to the daemon here; owner only
)

// running is run.json.
type running struct {
	PID   int    `json:"pid"`
	Admin string `json:"admin,omitempty"`
}

func newRun(a *app) *cobra.Command {
	var admin string
	c := &cobra.Command{
		Use:   "run",
		Short: "Keep every indexer up to date until stopped",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(a.dir)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("admin") {
				c.Admin = admin
				if err := c.check(); err != nil {
					return err
				}
			}
			level := new(slog.LevelVar)
			level.Set(c.level)
			return run(cmd.Context(), a.dir, c, cli.NewLogger(os.Stderr, level), level)
		},
	}
	c.Flags().StringVar(&admin, "admin", "off", "HOST:PORT for the status page, /healthz, /readyz and /metrics; off opens no port")
	return c
}

// run is the daemon. On the end of ctx it stops in order: batches in flight,
// sessions, HTTP, store.
func run(ctx context.Context, dir string, c config, log *slog.Logger, level *slog.LevelVar) (err error) {
	traces, flush, err := cli.OpenTraces(ctx, "publisherd", c.TraceEndpoint, c.TraceRatio, log)
	if err != nil {
		return err
	}
	defer flush()
	opened := c.publisher(dir, log)
	opened.Trace = traces
	p, err := publisher.Open(opened)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	d := &daemon{dir: dir, p: p, d: publisher.NewDaemon(p, publisher.DaemonOptions{Rescan: c.Rescan}), log: log}
	d.manager = &cli.Manager{Log: log, Turns: func() { _ = p.Ready() }}
	d.reload = &cli.Reloader[config]{Log: log, Config: c, Live: settings().Live(), Manager: d.manager, Written: d.reloaded,
		Read: func() (config, error) {
			next, err := loadConfig(dir)
			next.Admin = c.Admin // the flag may have named it
			return next, err
		},
		Apply: func(c config) {
			level.Set(c.level)
			p.SetReply(c.Reply)
			p.SetVerify(c.verify())
			d.d.SetRescan(c.Rescan)
		}}
	d.watch = newWatcher(d, c)
	defer d.closeListeners()
	if err := d.listen(c); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(dir, runFile))
	defer os.Remove(filepath.Join(dir, socketFile))
	log.Info("running", "identity", p.Identity(), "admin", d.bound.Admin)
	defer log.Info("stopped")
	return d.serve(ctx)
}

// A daemon is the publisher's Daemon with its listeners.
type daemon struct {
	dir            string
	p              *publisher.Publisher
	d              *publisher.Daemon
	log            *slog.Logger
	bound          running
	watch          *watcher
	manager        *cli.Manager
	reload         *cli.Reloader[config]
	admin, control net.Listener
}

func (d *daemon) closeListeners() {
	for _, l := range []net.Listener{d.admin, d.control} {
		if l != nil {
			l.Close()
		}
	}
}

// listen binds what is asked for, and then tells it in run.json.
func (d *daemon) listen(c config) (err error) {
	d.bound.PID = os.Getpid()
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

// serve works until ctx ends. Commands are answered until the last session is
// closed: one that waits for a push learns what became of it.
func (d *daemon) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	drained, done := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer done()
		return d.d.Run(ctx)
	})
	// A push may take long: a limit on reading would end the request's context
	// while its handler works.
	const read, write = 30 * time.Second, time.Minute
	cli.ServeHTTP(group, drained, d.admin, d.monitor(d.reload.Config), read, write, d.log)
	cli.ServeHTTP(group, drained, audit.Listener(d.control), d.audited(d.commands()), 0, 0, d.log)
	if d.admin != nil {
		group.Go(func() error { return monitor.Sample(ctx, d.watch.look) })
	}
	group.Go(func() error { return d.reload.Run(ctx) })
	group.Go(func() error { return d.manager.Run(ctx) })
	d.manager.Ready()
	return group.Wait()
}
