package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func newExport(a *app) *cobra.Command {
	var purpose, publisher, at string
	var o export.Options
	c := &cobra.Command{
		Use:   "export --purpose P --format scp|tct|jsonl|rbt|arc --out DIR",
		Short: "Write what a purpose may read into a folder, with a signed manifest of the permissions",
		Long: "Write every page that may be read for a purpose at this moment into a folder, in one of the formats, with\n" +
			"a signed manifest. Done again to the same folder it writes what has changed, and what may be read no more\n" +
			"is gone. Who opens the folder sees the old export or the new one. Check one with \"auditor verify DIR\".",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := filepath.Abs(o.Dir) // the daemon has another current folder
			if err != nil {
				return err
			}
			values := url.Values{
				"purpose": {purpose}, "format": {o.Format}, "out": {dir}, "base-url": {o.BaseURL}, "publisher": {publisher},
				"collection": {o.Collection}, "generated": {at}, "third-party": {fmt.Sprint(o.ThirdParty)},
			}
			asked, err := exportOptions(values)
			if err != nil {
				return err
			}
			r, err := askLong(cmd.Context(), a, "/export", values, func(ctx context.Context) (*export.Report, error) {
				return askStore(a, false, func(x *indexer.Indexer) (*export.Report, error) { return writeExport(ctx, x, asked) })
			})
			if err != nil {
				return err
			}
			if a.json {
				return cli.PrintJSON(cmd.OutOrStdout(), r)
			}
			return printExport(cmd.OutOrStdout(), r)
		},
	}
	f := c.Flags()
	f.StringVar(&purpose, "purpose", "", "what the pages are to be used for")
	f.StringVar(&o.Format, "format", "", "scp, tct, jsonl, rbt or arc")
	f.StringVar(&o.Dir, "out", "", "folder to write to: empty, or with an earlier export")
	f.StringVar(&o.BaseURL, "base-url", "", "URL by which the folder is handed out; if it is not named, the publisher's own site")
	f.StringVar(&publisher, "publisher", "", "pages of this publisher alone")
	f.StringVar(&o.Collection, "collection", "", "pages of collections of this name alone")
	f.BoolVar(&o.ThirdParty, "third-party", false, "for others than this indexer: only what policy lets be passed on")
	f.StringVar(&at, "generated", "", "time that the formats carry, RFC 3339; now if it is not named")
	for _, name := range []string{"purpose", "format", "out"} {
		c.MarkFlagRequired(name)
	}
	return c
}

// exportOptions reads what the command asks the daemon for.
func exportOptions(q url.Values) (o export.Options, err error) {
	o = export.Options{
		Format: q.Get("format"), Dir: q.Get("out"), BaseURL: q.Get("base-url"), Collection: q.Get("collection"),
		ThirdParty: q.Get("third-party") == "true", Generated: time.Now(),
	}
	if !slices.Contains(export.Formats(), o.Format) {
		return o, cli.Errorf(cli.Usage, "--format %.40q: want one of %s", o.Format, strings.Join(export.Formats(), ", "))
	}
	if o.Purpose, err = grants.ParsePurpose(q.Get("purpose")); err != nil {
		return o, cli.With(cli.Usage, err)
	}
	if name := q.Get("publisher"); name != "" {
		if o.Publisher, err = envelope.ParseName(name); err != nil {
			return o, cli.With(cli.Usage, err)
		}
	}
	if at := q.Get("generated"); at != "" {
		if o.Generated, err = time.Parse(time.RFC3339, at); err != nil {
			return o, cli.Errorf(cli.Usage, "--generated %.40q: want a time such as 2026-01-02T15:04:05Z", at)
		}
	}
	return o, nil
}

func writeExport(ctx context.Context, x *indexer.Indexer, o export.Options) (*export.Report, error) {
	r, err := export.Write(ctx, x, o)
	if errors.Is(err, export.ErrEnding) {
		err = cli.With(cli.Temporary, err)
	}
	return r, err
}

func printExport(w io.Writer, r *export.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s as %s for %s: %d pages, %d written, %d removed\n", r.Dir, r.Format, r.Purpose, r.Pages, r.Written, r.Removed)
	fmt.Fprintf(&b, "manifest %s, root %s\nlog %s: %d entries, root %s\n", r.Manifest, r.Root, r.LogOrigin, r.Checkpoint.Size, r.Checkpoint.Root)
	fmt.Fprintf(&b, "export again before %s; nothing of it may be used from %s on\n", r.FirstEnd, r.Until)
	for _, c := range r.Collections {
		fmt.Fprintf(&b, "%s: %d pages of %s, collection %s\n", c.ID, c.Pages, c.Publisher, c.Collection)
	}
	for _, l := range slices.Sorted(maps.Keys(r.Lost)) {
		fmt.Fprintf(&b, "lost: %s (%d pages)\n", l, r.Lost[l])
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "skipped %s\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
