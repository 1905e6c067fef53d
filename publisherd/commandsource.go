package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

func newSource(a *app) *cobra.Command {
	c := &cobra.Command{Use: "source", Short: "Add, list, scan or remove collections", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newSourceAdd(a), newSourceList(a), newSourceScan(a), newSourceRemove(a))
	return c
}

func newSourceAdd(a *app) *cobra.Command {
	var s publisher.Source
	c := &cobra.Command{
		Use:   "add NAME --kind site|tct|scp|rbt|arc --location FOLDER|FILE|URL --base-url https://example.com/",
		Short: "Add a collection, or change it",
		Long: "Add writes the file of a collection, sources/NAME.yaml. A location that is a URL is read by requests\n" +
			"that spare its server: what has not changed is not fetched again. Addresses that are not public are\n" +
			"refused, also behind a redirect, unless the origin is named by --allow-origin or, on this machine,\n" +
			"by the location itself. Credentials stay where they are; no file, log or message repeats them.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := loadConfig(a.dir); err != nil {
				return err
			}
			s.Name = args[0]
			if err := s.Absolute(); err != nil {
				return cli.With(cli.Usage, err)
			}
			return cli.With(cli.Config, publisher.AddSource(a.dir, s))
		},
	}
	f := c.Flags()
	f.StringVar(&s.Kind, "kind", "", "what the location holds: site (a folder of HTML or Markdown), tct (Collaboration Tunnel), scp (Site Content Protocol), rbt (a Rabit burrow) or arc (ARC sitemap)")
	f.StringVar(&s.Location, "location", "", "the folder; for tct, scp and arc also a sitemap or collection, by file or by http(s) URL; for rbt a Git repository, here or by https, ssh or user@host:path, or a folder's URL")
	f.StringVar(&s.BaseURL, "base-url", "", "URL of the folder; for tct, scp, arc and rbt, of the pages if they are elsewhere than the location or its HTTPS root")
	f.StringVar(&s.Ref, "ref", "", "rbt: refs/heads/…, refs/tags/… or a commit; the repository's HEAD if it is not named")
	f.StringVar(&s.Git.Path, "path", "", "rbt: folder in the repository")
	f.StringVar(&s.Prefer, "prefer", "", "rbt: which of a burrow's roots are asked first: git (default), https or listed, as they are listed")
	f.StringVar(&s.SSHKeyFile, "ssh-key-file", "", "rbt: private key for ssh, readable by its owner only")
	f.StringVar(&s.SSHPassphraseFile, "ssh-passphrase-file", "", "rbt: passphrase of that key, in a file readable by its owner only")
	f.StringVar(&s.KnownHostsFile, "known-hosts-file", "", "rbt: file with the SSH servers that may be talked to")
	f.BoolVar(&s.StripExt, "strip-ext", false, "leave .html out of URLs")
	f.StringArrayVar(&s.SkipClasses, "skip-class", nil, "class that marks navigation, in place of the default list; may be repeated")
	f.StringArrayVar(&s.SkipIDs, "skip-id", nil, "id that marks navigation, in place of the default list; may be repeated")
	f.StringVar(&s.Section, "section", "", "section of scp; all if it is not named")
	f.StringArrayVar(&s.AllowOrigins, "allow-origin", nil, "further origin to fetch from, wherever its address is; may be repeated")
	f.StringVar(&s.CredentialsFile, "credentials-file", "", `file with "Bearer TOKEN" or "Basic USER:PASSWORD" for the location's origin; readable by its owner only`)
	f.StringVar(&s.CredentialsEnv, "credentials-env", "", "environment variable with the same")
	f.StringVar(&s.CredentialHelper, "credential-helper", "", "git credential helper to ask instead: a program by its whole path, with its arguments")
	f.StringVar(&s.ClientCertFile, "client-cert-file", "", "certificate to show to the location's origin, by https")
	f.StringVar(&s.ClientKeyFile, "client-key-file", "", "its key; readable by its owner only")
	f.StringVar(&s.Interval, "interval", "", "how often run asks the server, 1m to 24h (default 15m)")
	f.Float64Var(&s.Rate, "rate", 0, "requests a second to each origin, at most 100 (default 4)")
	f.StringArrayVar(&s.OnlyHosts, "only-host", nil, "rbt: host that may be asked, with all below it, and no other; may be repeated")
	f.StringArrayVar(&s.NoHosts, "no-host", nil, "rbt: host that is not asked, nor any below it; may be repeated")
	f.IntVar(&s.Sample, "sample", 0, "arc: how many pages, of those that are new or changed in a round, are held against their snapshots (default none)")
	f.BoolVar(&s.IgnoreRobots, "ignore-robots", false, "do not ask for robots.txt, on a server of your own")
	c.MarkFlagRequired("kind")
	c.MarkFlagRequired("location")
	return c
}

func newSourceList(a *app) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the collections", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := publisher.Sources(a.dir)
			if err != nil {
				return err
			}
			for _, s := range all {
				if a.json {
					if err := cli.PrintJSON(cmd.OutOrStdout(), s); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%s\t%s\n", s.Name, s.Kind, s.BaseURL, s.Location)
			}
			return nil
		}}
}

func newSourceScan(a *app) *cobra.Command {
	return &cobra.Command{Use: "scan NAME", Short: "Show what a collection holds, without changing anything", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := publisher.ReadSource(a.dir, args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			// Pages that go to a terminal are progress enough.
			progress, octets, pages := cli.NewProgress(cmd.ErrOrStderr()), int64(0), int64(0)
			quiet := a.json || cli.IsTerminal(out)
			sum, err := s.Scan(cmd.Context(), a.dir, func(l publisher.ScanLine) error {
				pages, octets = pages+1, octets+int64(l.Size)
				if a.json {
					return cli.PrintJSON(out, l)
				}
				if !quiet {
					progress.Show(cli.Step{What: "scan " + s.Name, Done: pages, Octets: octets})
				}
				fmt.Fprintf(out, "%s\t%s\t%d\t%s\n", l.URL, l.Format, l.Size, l.Title)
				for _, w := range l.Warnings {
					fmt.Fprintf(out, "\twarning: %s\n", w)
				}
				return nil
			})
			progress.Clear()
			if err != nil {
				return err
			}
			if a.json {
				return cli.PrintJSON(out, sum)
			}
			fmt.Fprintf(out, "%d pages, %d octets of payload\n", sum.Pages, sum.Bytes)
			for _, k := range sum.Skipped {
				fmt.Fprintf(out, "skipped %s: %s\n", k.Location, k.Reason)
			}
			for _, w := range sum.Warnings {
				fmt.Fprintf(out, "warning: %s\n", w)
			}
			for _, p := range sum.Preferences {
				fmt.Fprintf(out, "the source says %s\n", p)
			}
			return nil
		}}
}

func newSourceRemove(a *app) *cobra.Command {
	return &cobra.Command{Use: "remove NAME", Short: "Remove a collection's configuration; nothing is deleted at any indexer", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return publisher.RemoveSource(a.dir, args[0]) }}
}
