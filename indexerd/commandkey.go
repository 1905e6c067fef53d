package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func newKey(a *app) *cobra.Command {
	return cli.KeyCommand(cli.KeyConfig{
		Dir: &a.dir, JSON: &a.json, Change: indexer.ChangeKeys,
		Check: func(dir string, uses []envelope.Use) error {
			c, err := loadConfig(dir)
			if err == nil && c.Certificate != "" && slices.Contains(uses, envelope.UseTLS) {
				err = cli.Errorf(cli.Config, "tls_certificate names %s: its key is changed where that file is made", c.Certificate)
			}
			return err
		},
	})
}
