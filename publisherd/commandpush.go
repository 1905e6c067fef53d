package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// isFailure reports whether err says that a check failed.
func isFailure(err error) bool { return errors.Is(err, errBadReceipts) }

func newPush(a *app) *cobra.Command {
	var indexer string
	var o publisher.PushOptions
	c := &cobra.Command{
		Use:   "push",
		Short: "Bring every indexer up to date once, then exit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if indexer != "" {
				var err error
				if o.Indexer, err = parseName(indexer); err != nil {
					return err
				}
			}
			values := url.Values{"indexer": {string(o.Indexer)}}
			if o.AllowMassDelete {
				values.Set("mass-delete", "")
			}
			progress := cli.NewProgress(cmd.ErrOrStderr())
			a.log = progress
			ctx := cmd.Context()
			if !a.json {
				ctx = publisher.WithProgress(ctx, func(p publisher.Progress) { progress.Show(stepOf(p)) })
			}
			results, err := ask(cmd.Context(), a, query[[]publisher.Result]{
				method: http.MethodPost, path: "/push", values: values,
				store: func(p *publisher.Publisher) ([]publisher.Result, error) { return p.Push(ctx, o) },
			})
			progress.Clear()
			for _, r := range results {
				if perr := a.printResult(cmd.OutOrStdout(), r); perr != nil {
					return errors.Join(err, perr)
				}
			}
			return err
		},
	}
	c.Flags().StringVar(&indexer, "indexer", "", "push to this indexer only")
	c.Flags().BoolVar(&o.AllowMassDelete, "allow-mass-delete", false, "delete however many pages are gone")
	return c
}

// stepOf is a publisher's progress as people are shown it.
func stepOf(p publisher.Progress) cli.Step {
	what := "push "
	if p.Scan {
		what = "scan "
	}
	what += p.Collection
	if p.Indexers > 1 {
		what += fmt.Sprintf(" to %d indexers", p.Indexers)
	}
	return cli.Step{What: what, Done: p.Done, Total: p.Total, Octets: p.Octets, Waiting: p.Waiting}
}

func (a *app) printResult(w io.Writer, r publisher.Result) error {
	if a.json {
		return cli.PrintJSON(w, r)
	}
	if r.Withheld > 0 {
		fmt.Fprintf(w, "%s, collection %s: %d pages are withheld by what they say of themselves; source scan names them\n", r.Indexer, r.Collection, r.Withheld)
	}
	fmt.Fprintf(w, "%s, collection %s: %d sent, %d deleted, %d unchanged, %d refused, %d files give no page; %.2f s, %d octets out, %d in, of them %d for the handshake\n",
		r.Indexer, r.Collection, r.Sent, r.Deleted, r.Unchanged, r.RefusedCount, r.SkippedCount, r.Seconds, r.WireOut, r.WireIn, r.Handshake)
	if r.Signalled > 0 || r.Asked > 0 || r.Waiting > 0 {
		fmt.Fprintf(w, "  %d pages signalled, %d asked for by the indexer, %d that it means to ask for later\n", r.Signalled, r.Asked, r.Waiting)
	}
	for _, x := range r.Receipts {
		fmt.Fprintf(w, "  receipt %s\n", x)
	}
	for _, x := range r.Refused[:min(len(r.Refused), fewRefused)] {
		fmt.Fprintf(w, "  refused %s: %s\n", x.URL, x.Reason)
	}
	if more := r.RefusedCount - fewRefused; more > 0 {
		fmt.Fprintf(w, "  and %d more pages; \"refused\" lists them\n", more)
	}
	if before := r.Undelivered - r.RefusedCount; before > 0 {
		fmt.Fprintf(w, "  %d pages that were refused before are not sent again before they change; \"refused\" lists them\n", before)
	}
	for _, x := range r.Unshown {
		fmt.Fprintf(w, "  NOT SHOWN %s: %s; it was sent again\n", x.URL, x.Reason)
	}
	for _, x := range r.Skipped[:min(len(r.Skipped), fewRefused)] {
		fmt.Fprintf(w, "  skipped %s: %s\n", x.Location, x.Reason)
	}
	if more := r.SkippedCount - fewRefused; more > 0 {
		fmt.Fprintf(w, "  and %d more files; \"source scan\" names them\n", more)
	}
	return nil
}

func newStatus(a *app) *cobra.Command {
	var holders bool
	var page string
	c := &cobra.Command{Use: "status", Short: "Show where collections and indexers stand", Args: cobra.NoArgs,
		Long: "Show where collections and indexers stand. With --ask, each indexer is asked first to whom it has handed\n" +
			"pages, and who of them has not said that what was to be dropped is gone; without, it is shown as it was\n" +
			"answered last. With --page, it is shown who may have been handed this page, and has not said that it is\n" +
			"gone. What an indexer says of that is its word alone.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if page != "" {
				return a.pageStatus(cmd, page)
			}
			q := query[publisher.Status]{method: http.MethodGet, path: "/status", store: (*publisher.Publisher).Status}
			if holders {
				q.values = url.Values{"ask": {"1"}}
				q.store = func(p *publisher.Publisher) (publisher.Status, error) { return askedStatus(cmd.Context(), p) }
			}
			s, err := ask(cmd.Context(), a, q)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if a.json {
				return cli.PrintJSON(w, s)
			}
			fmt.Fprintf(w, "%s\n%s\n", s.Identity, cli.DescribeIdentity(s.Certificate, s.Trust))
			for _, c := range s.Collections {
				fmt.Fprintf(w, "collection %s: %s, revision %d\n", c.Name, plural.Count(c.Pages, "page", "pages"), c.Revision)
			}
			for _, x := range s.Indexers {
				fmt.Fprintf(w, "indexer %s, collection %s: %s, %s delivered, %s behind\n", x.Identity, x.Collection, stateOf(x),
					plural.Count(x.Pages, "page", "pages"), plural.Count(x.Backlog, "revision", "revisions"))
				if x.Mode.Asks() {
					fmt.Fprintf(w, "  mode %s: %d pages signalled, %d asked for, %d delivered for the asking\n", x.Mode, x.Signalled, x.Asked, x.Delivered)
				}
				if x.Alert {
					fmt.Fprintf(w, "  alert: grant %s %s\n", x.GrantID, x.Expiry)
				} else {
					fmt.Fprintf(w, "  it %s\n", x.Expiry)
				}
				if !x.LimitedUntil.IsZero() {
					fmt.Fprintf(w, "  the grant's limit is used up; the rest goes from %s on\n", x.LimitedUntil)
				}
				io.WriteString(w, describeSession(x.Session, time.Now()))
				io.WriteString(w, describeHeld(x.Held))
				if x.Alarm != nil {
					fmt.Fprintf(w, "  ALARM (%s) at %s: %s\n", x.Alarm.Reason, x.Alarm.At, x.Alarm.Detail)
				}
				printRefused(w, x.Refused)
				io.WriteString(w, describeLog(x.Log))
				io.WriteString(w, describeHolders(x.Downstream))
			}
			return nil
		}}
	c.Flags().BoolVar(&holders, "ask", false, "ask each indexer first to whom it has handed pages")
	c.Flags().StringVar(&page, "page", "", "ask each indexer that has acknowledged this URL who was handed it, and show that alone")
	return c
}

// askedStatus is the status behind an answer of every indexer.
func askedStatus(ctx context.Context, p *publisher.Publisher) (publisher.Status, error) {
	asked := p.AskHolders(ctx, "")
	s, err := p.Status()
	return s, errors.Join(asked, err)
}

// describeSession is how the daemon's session stands, in words, if not well.
func describeSession(s *publisher.SessionStatus, now time.Time) string {
	if s == nil || s.Open {
		return ""
	}
	text := "  no session"
	if !s.Since.IsZero() {
		text += fmt.Sprintf(" since %s", s.Since)
	}
	if s.Next.After(now) {
		text += fmt.Sprintf("; tried again at %s", s.Next)
	}
	if s.LastError != "" {
		text += ": " + s.LastError
	}
	return text + "\n"
}

// describeLog is what the public log lacks of what the sessions show, in words. To be
// behind for some seconds is the rule: an indexer publishes now and then.
func describeLog(c *publisher.LogCheck) string {
	switch {
	case c == nil || c.State == publisher.LogConsistent:
		return ""
	case c.State == publisher.LogBehind:
		return fmt.Sprintf("  its public log had %d entries at %s; the %d that it showed at %s have to be there by %s\n",
			c.PublicSize, c.At, c.OwedSize, c.OwedSince, c.Due())
	}
	return fmt.Sprintf("  the public log was %s at %s: %s\n", c.State, c.At, c.Detail)
}

// describeHeld is why the indexer takes nothing more, in words.
func describeHeld(h *publisher.HeldStatus) string {
	if h == nil {
		return ""
	}
	next := "with the next push"
	if !h.Retry.IsZero() {
		next = "at " + h.Retry.String()
	}
	return fmt.Sprintf("  OVER QUOTA since %s: %s; offered again %s, or as soon as pages are deleted\n", h.Since, h.Detail, next)
}

// describeHolders is who was handed pages, in words.
func describeHolders(h *publisher.HoldersStatus) string {
	if h == nil {
		return ""
	}
	var b strings.Builder
	for _, c := range h.Holders {
		party, state := "", "may read"
		if c.ThirdParty {
			party = ", a third party"
		}
		if !c.Open {
			state = "may read no more"
		}
		fmt.Fprintf(&b, "  handed to %s%s for %s from %s to %s; it %s; %d deletions not confirmed", c.Consumer, party, c.Purpose, c.Since, c.Last, state, c.ToPurge)
		if !c.PurgedAt.IsZero() {
			fmt.Fprintf(&b, ", the last confirmed at %s", c.PurgedAt)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "  handed to %d consumers, as the indexer said at %s\n", len(h.Holders), h.AskedAt)
	return b.String()
}

// stateOf says where a grant stands, and until or since when if that matters.
func stateOf(x publisher.IndexerStatus) string {
	switch x.State {
	case "in-force":
		return fmt.Sprintf("in-force until %s", x.ExpiresAt)
	case "expired":
		return fmt.Sprintf("expired at %s", x.ExpiresAt)
	}
	return x.State
}
