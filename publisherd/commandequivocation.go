package main

import (
	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func newEquivocations(a *app) *cobra.Command { return cli.EquivocationsCommand(&a.dir, &a.json) }
