package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// newAgreements shows this side of each bilateral relationship.
func newAgreements(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "agreements",
		Short: "Show what each publisher allows, in words, and how far the two have come",
		Long: "Show every agreement: whose pages, of which origins, for which purposes, the grant and its policy in\n" +
			"words, since when and until when, the receipts that were signed and the checkpoint that the last one\n" +
			"stands under, and where it stands: live, not yet valid, expired, revoked, deletion pending or deleted.\n" +
			"The publisher sees its side by \"publisherd grant list\".",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := ask(cmd.Context(), a, "/agreements", (*indexer.Indexer).Agreements)
			if err != nil {
				return err
			}
			for i := range all {
				if a.json {
					err = cli.PrintJSON(cmd.OutOrStdout(), all[i])
				} else {
					err = printAgreement(cmd.OutOrStdout(), &all[i])
				}
				if err != nil {
					return err
				}
			}
			return nil
		}}
}

// printAgreement prints one agreement for people.
func printAgreement(w io.Writer, g *indexer.Agreement) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, collection %s: %s\n", g.Publisher, g.Collection, g.Standing)
	origins := strings.Join(g.Origins, ", ")
	if !g.Trusted {
		origins = "none; the publisher is not trusted any more"
	}
	fmt.Fprintf(&b, "  origins: %s\n", origins)
	fmt.Fprintf(&b, "  since %s, until %s; series %s, grant %s\n", g.Since, g.ExpiresAt, g.Series, g.GrantID)
	fmt.Fprintf(&b, "  purposes: %s\n", strings.Join(g.Purposes, ", "))
	fmt.Fprintf(&b, "  %d pages at revision %d\n", g.Pages, g.Revision)
	if n := g.Asking; g.Mode.Asks() {
		fmt.Fprintf(&b, "  mode %s: %d pages signalled, %d wanted, %d of them asked for, %d delivered\n", g.Mode, n.Signalled, n.Wanted, n.Asked, n.Delivered)
		if n.Dropped > 0 {
			fmt.Fprintf(&b, "  %d signals were dropped beyond request_backlog\n", n.Dropped)
		}
	}
	if g.Receipts == 0 {
		b.WriteString("  no receipt yet\n")
	} else {
		fmt.Fprintf(&b, "  %d receipts; the last is %s of %s\n", g.Receipts, g.LastReceipt, g.LastReceiptAt)
		fmt.Fprintf(&b, "  last checkpoint: %d entries, root %s\n", g.LastCheckpoint.Size, g.LastCheckpoint.Root)
	}
	for _, v := range g.Revocations {
		done := ""
		if v.Deleted {
			done = ", deleted"
		}
		fmt.Fprintf(&b, "  revoked %s with disposition %s: %d pages%s (revocation %s)\n", v.At, v.Disposition, v.Count, done, v.ID)
	}
	for _, line := range g.Words {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
