package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

func newKey(a *app) *cobra.Command {
	return cli.KeyCommand(cli.KeyConfig{
		Dir: &a.dir, JSON: &a.json, Change: publisher.ChangeKeys,
		Check: func(dir string, uses []envelope.Use) error {
			c, err := loadConfig(dir)
			if err == nil && c.Certificate != "" && slices.Contains(uses, envelope.UseTLS) {
				err = cli.Errorf(cli.Config, "tls_certificate names %s: its key is changed where that file is made", c.Certificate)
			}
			return err
		},
		Next: "Grants in force stay so. After a loss renew each one (grant renew), and make revocations again that no indexer has acknowledged yet.",
	})
}
