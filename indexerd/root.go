package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// app is what the commands share.
type app struct {
	dir  string
	json bool
}

func newRoot() *cobra.Command {
	a := new(app)
	root := &cobra.Command{
		Use:   "indexerd",
		Short: "Accept what publishers push under signed grants, and prove every decision",
		Long: "indexerd accepts sessions from the publishers that its operator trusts, admits only what their\n" +
			"grants allow, stores it sealed, and keeps every decision in a Merkle transparency log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&a.dir, "dir", ".", "folder of configuration, keys and store")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, one object a line")
	root.AddCommand(
		newInit(a), cli.CardCommand(&a.dir), newTrust(a), newRun(a), newStatus(a), newAgreements(a), newPublishers(a), newPage(a), newEvidence(a), newLog(a),
		newConsumer(a), newFeed(a), newExport(a), newAsk(a),
		newFsck(a), newBackup(a), newKey(a), newEquivocations(a), newCheckConfig(a), cli.SettingsCommand(settings(), &a.json), cli.VersionCommand(&a.json), cli.ManCommand(),
	)
	audit.Commands(root, &a.dir, changing(), reading())
	return root
}

func openTrust(dir string) (*identity.Trust, error) {
	return identity.OpenTrust(filepath.Join(dir, "trust"), identity.TrustOptions{})
}

func newTrust(a *app) *cobra.Command {
	return cli.TrustCommand(cli.TrustConfig{Dir: &a.dir, JSON: &a.json, Role: identity.Publisher, Origins: true, Open: openTrust})
}

// exitCode is where errors meet exit codes.
func exitCode(err error) cli.Code {
	var coded *cli.Error
	var reason grants.Reason
	switch {
	case errors.As(err, &coded):
		return coded.Code
	case errors.Is(err, durable.ErrLocked):
		return cli.Temporary
	case errors.Is(err, indexer.ErrFrozen), errors.Is(err, translog.ErrRollback), errors.Is(err, translog.ErrEnded), errors.Is(err, translog.ErrCorrupt):
		return cli.Failed
	case errors.Is(err, indexer.ErrRotation):
		return cli.Usage
	case errors.Is(err, translog.ErrIdentity):
		return cli.Config
	case errors.As(err, &reason):
		return cli.Refused
	case errors.Is(err, identity.ErrNoIdentity), errors.Is(err, identity.ErrExists), errors.Is(err, identity.ErrPermission), errors.Is(err, identity.ErrMismatch),
		errors.Is(err, identity.ErrCertificate), errors.Is(err, identity.ErrValidity):
		return cli.Config
	}
	return cli.CodeOf(err)
}

// initFlags are the flags of init.
type initFlags struct {
	identity, listen, public, admin, endpoint, logURL string
	files                                             cli.CertificateFlags
}

func newInit(a *app) *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:   "init --identity spiffe://search.example/indexer",
		Short: "Make an identity: keys, certificate, configuration, card",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			local, err := identity.Create(a.dir, o)
			if err != nil {
				return err
			}
			said := f.files.Settings()
			said["listen"], said["public"], said["admin"] = f.listen, f.public, f.admin
			if err := writeConfig(a.dir, said); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s in %s\ncard fingerprint %s\n", local.Name(), a.dir, local.Card.Fingerprint())
			fmt.Fprintf(cmd.ErrOrStderr(), "Next: print the card with \"card\", give it to publishers, import theirs with \"trust add\", then \"run\".\n")
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.identity, "identity", "", "SPIFFE ID of this indexer")
	fl.StringVar(&f.listen, "listen", defaultListen, "address for sessions")
	fl.StringVar(&f.public, "public", defaultPublic, "address of the public side")
	fl.StringVar(&f.admin, "admin", defaultAdmin, "address of the admin side, on loopback")
	fl.StringVar(&f.endpoint, "endpoint", "", "HOST:PORT as publishers reach it; the listening address if it is not said")
	fl.StringVar(&f.logURL, "log-url", "", "URL of the public side as others reach it; http and its address if it is not said")
	f.files.Add(c)
	c.MarkFlagRequired("identity")
	return c
}

func (f *initFlags) options() (identity.Options, error) {
	o := identity.Options{Role: identity.Indexer, Now: time.Now(), Endpoint: f.endpoint, LogURL: f.logURL}
	var err error
	if o.Identity, err = identity.ParseName(f.identity); err != nil {
		return o, cli.With(cli.Usage, err)
	}
	if o.ExternalTLS, err = f.files.External(); err != nil {
		return o, err
	}
	for _, addr := range []string{f.listen, f.public} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return o, cli.With(cli.Usage, err)
		}
	}
	if o.Endpoint == "" {
		o.Endpoint = f.listen
	}
	if o.LogURL == "" {
		o.LogURL = "http://" + f.public
	}
	return o, nil
}
