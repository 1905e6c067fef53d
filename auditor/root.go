package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
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
	root.AddCommand(verifyCommand(), fsckCommand(), lintCommand(), followCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "auditor "+version())
			return err
		},
	}
}

// version is what the Go tool recorded in the program: the module's version
// and the revision it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return v
}
