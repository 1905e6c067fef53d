package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

func newInit(a *app) *cobra.Command {
	var name, admin string
	var origins []string
	var files cli.CertificateFlags
	c := &cobra.Command{
		Use:   "init --identity spiffe://example.com/publisher --origin https://example.com",
		Short: "Make an identity: keys, certificate, configuration, card",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := identity.Options{Role: identity.Publisher, Now: time.Now()}
			var err error
			if o.Identity, err = parseName(name); err != nil {
				return err
			}
			if o.Origins, err = cli.ParseOrigins(origins); err != nil {
				return err
			}
			if o.ExternalTLS, err = files.External(); err != nil {
				return err
			}
			if err := cli.CheckAddressOrOff("admin", admin); err != nil {
				return cli.With(cli.Usage, err)
			}
			local, err := identity.Create(a.dir, o)
			if err != nil {
				return err
			}
			said := files.Settings()
			if admin != "off" {
				said["admin"] = admin
			}
			if err := writeConfig(a.dir, said); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s in %s\ncard fingerprint %s\n", local.Name(), a.dir, local.Card.Fingerprint())
			fmt.Fprintf(cmd.ErrOrStderr(), "Next: print the card with \"card\", give it to the indexer's operator, and import the indexer's with \"trust add\".\n")
			return nil
		},
	}
	c.Flags().StringVar(&name, "identity", "", "SPIFFE ID of this publisher")
	c.Flags().StringArrayVar(&origins, "origin", nil, "origin that this publisher speaks for; may be repeated")
	c.Flags().StringVar(&admin, "admin", "off", "address of the admin side, on loopback")
	files.Add(c)
	c.MarkFlagRequired("identity")
	c.MarkFlagRequired("origin")
	return c
}

func newCard(a *app) *cobra.Command {
	return cli.CardCommand(&a.dir)
}

func newTrust(a *app) *cobra.Command {
	return cli.TrustCommand(cli.TrustConfig{
		Dir: &a.dir, JSON: &a.json, Role: identity.Indexer, Endpoint: true,
		Open: publisher.OpenTrust,
	})
}
