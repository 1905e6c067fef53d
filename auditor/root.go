package main

import (
	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "auditor",
		Short: "Check evidence and logs of outbound indexing, trusting neither side",
		Long: `The auditor checks what a publisher and an indexer have signed, for someone who
trusts neither: a court, a regulator, a lawyer, a researcher.

Exit codes: 0 the check reached what was required, 1 it did not, 2 the command
line is wrong, 69 the log cannot be reached, 74 a file cannot be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(verifyCommand(), fsckCommand(), lintCommand(), statusCommand(), followCommand(), cli.VersionCommand(nil), cli.ManCommand())
	return root
}
