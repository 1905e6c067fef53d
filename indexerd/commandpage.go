package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// newPage shows where a page comes from. It shows nothing of the page itself.
func newPage(a *app) *cobra.Command {
	var purpose string
	c := &cobra.Command{
		Use:   "page URL",
		Short: "Show where a page comes from, under which grant and log entry, and until when it may be kept",
		Long: "Show where a page comes from: its publisher, the grant that it is held under, the log entry that\n" +
			"says so, what has to be kept to by whoever uses it, and until when. With --purpose, also whether it\n" +
			"may be read for that; exit 77 if it may not. Exit 1 if no publisher offered such a page.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := pageQuery(args[0], purpose)
			if err != nil {
				return err
			}
			all, err := ask(cmd.Context(), a, "/page?"+q.Encode(), func(x *indexer.Indexer) ([]indexer.Found, error) {
				return x.Find(args[0], grants.Purpose(purpose))
			})
			if err != nil {
				return err
			}
			for i := range all {
				if a.json {
					err = cli.PrintJSON(cmd.OutOrStdout(), all[i])
				} else {
					_, err = io.WriteString(cmd.OutOrStdout(), describePage(&all[i]))
				}
				if err != nil {
					return err
				}
			}
			return judgePages(args[0], purpose, all)
		},
	}
	c.Flags().StringVar(&purpose, "purpose", "", "also say whether the page may be read for this purpose")
	return c
}

// pageQuery checks what was asked for.
func pageQuery(page, purpose string) (url.Values, error) {
	if err := content.IsCanonical(page); err != nil {
		return nil, cli.Errorf(cli.Usage, "page %.200q: %w; name it as its publisher does", page, err)
	}
	if purpose != "" {
		if _, err := grants.ParsePurposes([]string{purpose}); err != nil {
			return nil, cli.With(cli.Usage, err)
		}
	}
	return url.Values{"url": {page}, "purpose": {purpose}}, nil
}

// judgePages is the outcome of the command.
func judgePages(page, purpose string, all []indexer.Found) error {
	if len(all) == 0 {
		return cli.Errorf(cli.Failed, "page %s is not in the catalogue", page)
	}
	if purpose == "" {
		return nil
	}
	var refused []error
	for _, f := range all {
		if f.Refused == "" {
			return nil
		}
		refused = append(refused, fmt.Errorf("page %s of %s may not be read for %s: refused (%s): %s", page, f.Publisher, purpose, string(f.Refused), f.Detail))
	}
	return cli.With(cli.Refused, errors.Join(refused...))
}

// describePage is a page in words.
func describePage(f *indexer.Found) string {
	var b strings.Builder
	t := &f.Terms
	fmt.Fprintf(&b, "%s\n  from %s, collection %s, series %s\n", f.URL, f.Publisher, f.Collection, f.Series)
	fmt.Fprintf(&b, "  taken in at %s as revision %d of journal epoch %d, digest %s\n", f.TakenAt, f.Revision, f.JournalEpoch, f.Digest)
	fmt.Fprintf(&b, "  under grant %s, held now under %s with policy %s\n", f.GrantID, f.HeldUnder, f.PolicyHash)
	fmt.Fprintf(&b, "  log %s, entry %d (%s, %s), %s\n", f.Entry.LogOrigin, f.Entry.Index, f.Entry.Decision, f.Entry.IssuedAt, f.Entry.ObjectID)
	if f.Purge != nil {
		fmt.Fprintf(&b, "  its payload went at the end of its retention: entry %d (%s)\n", f.Purge.Index, f.Purge.IssuedAt)
	}
	fmt.Fprintf(&b, "  for %s\n", strings.Join(t.Purposes.Strings(), ", "))
	fmt.Fprintf(&b, "  copies until %s, what was extracted until %s; the grant ends at %s\n", t.CopyUntil, t.FeaturesUntil, t.ExpiresAt)
	fmt.Fprintf(&b, "  attribution %s; link back %s; snippets %s, summaries %s, embeddings %s, anything else %s; to third parties %s\n", attribution(t.Attribution),
		yesNo(t.Attribution.LinkBack), t.Derivatives.Snippets, t.Derivatives.Summary, t.Derivatives.Embeddings, t.Derivatives.Other, t.Redistribution)
	if t.TermsURL != "" {
		fmt.Fprintf(&b, "  terms %s\n", t.TermsURL)
	}
	if f.Refused != "" {
		fmt.Fprintf(&b, "  not to be read: refused (%s): %s\n", string(f.Refused), f.Detail)
	}
	return b.String()
}

func attribution(a indexer.Attribution) string {
	switch {
	case a.Text != "":
		return fmt.Sprintf("%q", a.Text)
	case a.Required:
		return "required"
	}
	return "not required"
}

func yesNo(b bool) string {
	if b {
		return "required"
	}
	return "not required"
}

// servePage answers the command on the socket.
func (d *daemon) servePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	answer(w, func() ([]indexer.Found, error) { return d.x.Find(q.Get("url"), grants.Purpose(q.Get("purpose"))) })
}
