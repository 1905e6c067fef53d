package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// agreementLine is this side of a bilateral relationship as grant list prints
// it. `indexerd agreements` prints the other.
type agreementLine struct {
	grantLine
	Publisher envelope.Name       `json:"publisher"`
	Origins   []identity.Origin   `json:"origins"` // that our card claims
	Since     envelope.Time       `json:"since"`   // when the series' first grant began
	Standing  string              `json:"standing"`
	Delivery  *publisher.Delivery `json:"delivery,omitzero"` // absent while another process holds the store
}

func newGrantList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the grants: to whom, in words, since when, and what was acknowledged",
		Long: "List every agreement: with which indexer, about which collection, the grant and its policy in words,\n" +
			"since when and until when, the receipts that were kept, the last checkpoint of the indexer's log that\n" +
			"was verified, and where it stands: live, not yet valid, expired, revocation pending, revoked, deletion\n" +
			"pending or deleted. The indexer sees its side by \"indexerd agreements\".",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines, err := a.agreements(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			for i := range lines {
				if a.json {
					err = cli.PrintJSON(cmd.OutOrStdout(), lines[i])
				} else {
					err = printAgreement(cmd.OutOrStdout(), &lines[i])
				}
				if err != nil {
					return err
				}
			}
			return nil
		}}
}

// agreements reads the grants from their files, and how far each has come from
// the daemon or the store. Grants can be listed while a push holds the store.
func (a *app) agreements(ctx context.Context, stderr io.Writer) ([]agreementLine, error) {
	now := time.Now()
	local, err := identity.Load(a.dir, now)
	if err != nil {
		return nil, err
	}
	rels, err := publisher.Relationships(a.dir)
	if err != nil {
		return nil, err
	}
	since, err := publisher.Since(a.dir)
	if err != nil {
		return nil, err
	}
	far, err := ask(ctx, a, query[[]publisher.Delivery]{
		method: http.MethodGet, path: "/deliveries", store: (*publisher.Publisher).Deliveries,
	})
	if errors.Is(err, durable.ErrLocked) {
		fmt.Fprintln(stderr, "publisherd: another process holds the store; receipts and checkpoints are not shown")
	} else if err != nil {
		return nil, err
	}
	bySeries := make(map[string]*publisher.Delivery, len(far))
	for i := range far {
		bySeries[far[i].Series] = &far[i]
	}
	lines := make([]agreementLine, len(rels))
	for i, r := range rels {
		lines[i] = agreementLine{
			grantLine: lineOf(r), Publisher: local.Name(), Origins: append([]identity.Origin{}, local.Card.Origins...),
			Since: envelope.At(since[r.Series]), Standing: r.Standing(now), Delivery: bySeries[r.Series],
		}
	}
	return lines, nil
}

// printAgreement prints one agreement for people.
func printAgreement(w io.Writer, l *agreementLine) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, collection %s: %s\n", l.Indexer, l.Collection, l.Standing)
	origins := make([]string, len(l.Origins))
	for i, o := range l.Origins {
		origins[i] = string(o)
	}
	fmt.Fprintf(&b, "  origins: %s\n", strings.Join(origins, ", "))
	fmt.Fprintf(&b, "  since %s, until %s; series %s, grant %s\n", l.Since, l.ExpiresAt, l.Series, l.GrantID)
	fmt.Fprintf(&b, "  it %s\n", l.Expiry)
	fmt.Fprintf(&b, "  purposes: %s\n", strings.Join(l.Purposes, ", "))
	if d := l.Delivery; d != nil {
		fmt.Fprintf(&b, "  %d pages at revision %d\n", d.Pages, d.Revision)
		if d.Receipts == 0 {
			b.WriteString("  no receipt yet\n")
		} else {
			fmt.Fprintf(&b, "  %d receipts; the last is %s of %s\n", d.Receipts, d.LastReceipt, d.LastReceiptAt)
			fmt.Fprintf(&b, "  last checkpoint: %d entries, root %s\n", d.LastCheckpoint.Size, d.LastCheckpoint.Root)
		}
	}
	for _, v := range l.Revocations {
		fmt.Fprintf(&b, "  revoked %s with disposition %s: %s (revocation %s)\n", v.IssuedAt, v.Disposition, v.State, v.ID)
	}
	for _, line := range l.Words {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
