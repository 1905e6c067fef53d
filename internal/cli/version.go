package cli

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// A Build is what the Go tool recorded in the program.
type Build struct {
	Program  string `json:"program"`
	Version  string `json:"version"` // of the module, "devel" if there is none
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // something was not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadBuild reads it.
func ReadBuild(program string) Build {
	b := Build{Program: program, Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Version is the version of the module and the commit.
func Version() string {
	b := ReadBuild("")
	if b.Commit == "" {
		return b.Version
	}
	return b.Version + " " + b.Commit
}

// VersionCommand prints what the program was built from, as JSON if asJSON holds
// when it runs; nil gives it a flag of its own.
func VersionCommand(asJSON *bool) *cobra.Command {
	own := asJSON == nil
	if own {
		asJSON = new(bool)
	}
	c := &cobra.Command{Use: "version", Short: "Print version, commit and Go version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := ReadBuild(cmd.Root().Name())
			if *asJSON {
				return PrintJSON(cmd.OutOrStdout(), b)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), b.Program, Version(), b.Go, b.Platform)
			return err
		}}
	if own {
		c.Flags().BoolVar(asJSON, "json", false, "print JSON")
	}
	return c
}

// ManCommand writes a manual page for each command of the program, for those who
// package it. The pages hold no date of their own: SOURCE_DATE_EPOCH gives it.
func ManCommand() *cobra.Command {
	return &cobra.Command{Use: "man DIR", Short: "Write the manual pages into a folder", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: root.Name(), Manual: "Outbound indexing"}, args[0])
		}}
}
