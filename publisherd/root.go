package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// app is what the commands share.
type app struct {
	dir  string
	json bool
	log  io.Writer // where a command that opens the store logs; nil: standard error
}

func newRoot() *cobra.Command {
	a := new(app)
	root := &cobra.Command{
		Use:   "publisherd",
		Short: "Push your pages to the indexers that you chose, with proof of consent and of delivery",
		Long: "publisherd dials out over mutual TLS to the indexers that its owner chose, shows each a signed\n" +
			"grant and policy, pushes what changed, and keeps a receipt for everything. It opens no port\n" +
			"unless --admin asks for one.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&a.dir, "dir", ".", "folder of configuration, keys and store")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, one object a line")
	root.AddCommand(
		newInit(a), newCard(a), newTrust(a), newSource(a), newGrant(a), newExport(a), newPush(a), newRun(a), newStatus(a), newRefused(a),
		newReceipts(a), newEvidence(a), newDisclose(a), newBackup(a), newKey(a), newEquivocations(a), newCheckConfig(a), cli.SettingsCommand(settings(), &a.json), cli.VersionCommand(&a.json), cli.ManCommand(),
	)
	audit.Commands(root, &a.dir, changing(), reading())
	return root
}

// open opens the publisher of the folder for one command.
func (a *app) open() (*publisher.Publisher, error) {
	c, err := loadConfig(a.dir)
	if err != nil {
		return nil, err
	}
	w := a.log
	if w == nil {
		w = os.Stderr
	}
	level := c.level
	if level == slog.LevelInfo {
		level = slog.LevelWarn // what goes well, the command prints
	}
	return publisher.Open(c.publisher(a.dir, cli.NewLogger(w, level)))
}

// exitCode is where errors meet exit codes.
func exitCode(err error) cli.Code {
	var coded *cli.Error
	var refused *publisher.Refused
	var reason grants.Reason
	var status *fetch.StatusError
	var network net.Error
	var failure *evaluate.Failure
	switch {
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &refused) && refused.RetryMS > 0, errors.Is(err, durable.ErrLocked), errors.Is(err, publisher.ErrDraining),
		errors.Is(err, publisher.ErrStopping):
		return cli.Temporary
	case errors.Is(err, durable.ErrFull):
		return cli.DiskFull
	case errors.As(err, &refused), errors.As(err, &reason), errors.Is(err, fetch.ErrForbiddenAddress):
		return cli.Refused
	case errors.Is(err, publisher.ErrUnavailable), errors.Is(err, publisher.ErrNoAnswer), errors.As(err, &status), errors.As(err, &network):
		return cli.Unavailable
	case errors.Is(err, publisher.ErrProtocol), errors.Is(err, publisher.ErrSplitView), errors.Is(err, publisher.ErrProbe), errors.Is(err, publisher.ErrClock), errors.As(err, &failure),
		errors.Is(err, publisher.ErrBehind), errors.Is(err, publisher.ErrRestored), errors.Is(err, publisher.ErrMassDelete), errors.Is(err, publisher.ErrIncomplete), isFailure(err):
		return cli.Failed
	case errors.Is(err, publisher.ErrNoSource), errors.Is(err, publisher.ErrNothingToPush), errors.Is(err, publisher.ErrNoGrant),
		errors.Is(err, publisher.ErrNoReceipt), errors.Is(err, identity.ErrNoIdentity), errors.Is(err, identity.ErrExists),
		errors.Is(err, identity.ErrPermission), errors.Is(err, identity.ErrMismatch), errors.Is(err, identity.ErrCertificate), errors.Is(err, identity.ErrValidity):
		return cli.Config
	}
	return cli.CodeOf(err)
}

// parseName reads an identity from the command line.
func parseName(s string) (envelope.Name, error) {
	n, err := identity.ParseName(s)
	return n, cli.With(cli.Usage, err)
}
