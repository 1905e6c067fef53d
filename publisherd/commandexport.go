package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

func newExport(a *app) *cobra.Command {
	var o publisher.ExportOptions
	var at string
	c := &cobra.Command{
		Use:   "export NAME --format tct|scp|rbt|arc --out FOLDER",
		Short: "Write a collection as files that a web server can hand out, with their sitemap",
		Long: "Export writes all pages of a collection in one of the formats, for a web server to hand out. Done\n" +
			"again to the same folder it writes what has changed: of tct and rbt those files, of scp and arc\n" +
			"a delta, and of arc the sitemap. The same\n" +
			"pages give the same octets. Each file is replaced as a whole, the sitemap last, so that who reads\n" +
			"meanwhile finds what fits together. It says what the format loses of the pages.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if !slices.Contains([]string{"tct", "scp", "rbt", "arc"}, o.Format) {
				return cli.Errorf(cli.Usage, "--format %.40q: want tct, scp, rbt or arc", o.Format)
			}
			if o.Generated = time.Now(); at != "" {
				if o.Generated, err = time.Parse(time.RFC3339, at); err != nil {
					return cli.Errorf(cli.Usage, "--generated %.40q: want a time such as 2026-01-02T15:04:05Z", at)
				}
			}
			s, err := publisher.ReadSource(a.dir, args[0])
			if err != nil {
				return err
			}
			report, err := s.Export(cmd.Context(), a.dir, o)
			if err != nil {
				return err
			}
			if a.json {
				return cli.PrintJSON(cmd.OutOrStdout(), report)
			}
			printExport(cmd.OutOrStdout(), report)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.Format, "format", "", "tct (Collaboration Tunnel), scp (Site Content Protocol), rbt (a Rabit burrow) or arc (ARC sitemap)")
	f.StringVar(&o.Dir, "out", "", "folder to write to: empty, or with an earlier export")
	f.StringVar(&o.BaseURL, "base-url", "", "URL by which the folder is handed out; the collection's own if it is not named")
	f.BoolVar(&o.SkipBroken, "skip-broken", false, "leave out pages that cannot be read")
	f.StringVar(&at, "generated", "", "scp, rbt, arc: time that the export carries, RFC 3339; now if it is not named")
	f.BoolVar(&o.Snapshot, "snapshot", false, "scp: write the full state, and no delta")
	f.StringVar(&o.Section, "section", "", "scp: name of the section; the collection's if it is not named")
	f.StringVar(&o.Nginx, "nginx", "", "tct: folder, not that of --out, for a configuration of nginx")
	f.BoolVar(&o.KeepListings, "keep-listings", false, "tct: export pages that only list others as well")
	f.BoolVar(&o.ARC.Summaries, "summaries", false, "arc: no snapshots; agents read the pages themselves")
	f.BoolVar(&o.ARC.YAML, "yaml", false, "arc: write the sitemap in YAML as well")
	f.StringVar(&o.ARC.Policy, "policy", "", "arc: file of an ARC policy to hand out with it")
	f.StringVar(&o.ARC.Rate, "crawl-rate", "", "arc: rate to suggest to agents, such as 1/s or 30/m")
	f.StringVar(&o.ARC.Contact, "contact", "", "arc: whom agents may write to")
	burrowFlags(c, &o.BurrowOptions)
	c.MarkFlagRequired("format")
	c.MarkFlagRequired("out")
	return c
}

// burrowFlags are those of rbt alone.
func burrowFlags(c *cobra.Command, o *publisher.BurrowOptions) {
	f := c.Flags()
	f.StringVar(&o.GitRemote, "git-remote", "", "rbt: Git remote that the folder is pushed to, as others reach it")
	f.StringVar(&o.GitRef, "git-ref", "refs/heads/main", "rbt: full name of the ref there")
	f.StringVar(&o.GitPath, "git-path", "/", "rbt: folder in the repository")
	f.StringArrayVar(&o.Mirrors, "mirror", nil, "rbt: https URL of a folder that holds the same; may be repeated")
	f.StringVar(&o.Title, "title", "", "rbt: title of the burrow; the collection's name if it is not named")
	f.StringVar(&o.Description, "description", "", "rbt: one to three sentences about it")
	f.StringVar(&o.Registry, "registry", "", "rbt: folder of a registry, made if it is not there, that is to list the burrow")
	f.StringVar(&o.OriginDir, "origin-dir", "", "rbt: folder that is the root of the base URL's origin, if --out is a deeper one; its pointer is written there")
	f.StringVar(&o.RegistryOrigin, "registry-origin", "", "rbt: https URL, with a slash at its end, that the registry's folder is the root of; its pointer is written too")
}

func printExport(w io.Writer, r publisher.ExportReport) {
	fmt.Fprintf(w, "%s as %s to %s: %d pages, %d written, %d removed\n", r.Collection, r.Format, r.Dir, r.Pages, r.Written, r.Removed)
	if r.File != "" {
		fmt.Fprintf(w, "%s %s\n", r.Type, r.File)
	}
	if r.Delta != "" {
		fmt.Fprintf(w, "delta %s\n", r.Delta)
	}
	if r.RID != "" {
		fmt.Fprintf(w, "manifest %s\n", r.RID)
	}
	if r.Short != "" {
		fmt.Fprintf(w, "short of full conformance: %s\n", r.Short)
	}
	for _, c := range r.Contradictions {
		fmt.Fprintf(w, "look at this, agents are told two things: %s\n", c)
	}
	for _, l := range slices.Sorted(maps.Keys(r.Lost)) {
		fmt.Fprintf(w, "lost: %s (%d pages)\n", l, r.Lost[l])
	}
	for _, u := range r.Listings {
		fmt.Fprintf(w, "left out, it only lists others: %s\n", u)
	}
	for _, u := range r.Withheld {
		fmt.Fprintf(w, "left out, it says that it is not for all: %s\n", u)
	}
	for _, u := range r.Personal {
		fmt.Fprintf(w, "look at this, something in it looks like personal data: %s\n", u)
	}
	for _, k := range r.Skipped {
		fmt.Fprintf(w, "skipped %s: %s\n", k.Location, k.Reason)
	}
}
