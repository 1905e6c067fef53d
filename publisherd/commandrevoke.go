package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// How long grant revoke waits for a deletion, and how often it asks.
const (
	deletionWait  = 5 * time.Second
	deletionPause = 200 * time.Millisecond
)

// revokeFlags are the flags of grant revoke.
type revokeFlags struct {
	all                  bool
	indexer, disposition string
	scopes               []string
}

func newGrantRevoke(a *app) *cobra.Command {
	var f revokeFlags
	c := &cobra.Command{
		Use:   "revoke ID | --all",
		Short: "Withdraw consent, for a grant, for some of its pages, or altogether",
		Long: "Revoke signs a revocation and brings it to the indexer at once. It counts from now on: nothing more is\n" +
			"pushed under the grant. If the indexer cannot be reached the revocation is kept, and goes before\n" +
			"anything else as soon as it can.\n\n" +
			"What this cannot do: take back copies that were made, models that were trained, or what others were\n" +
			"given. An acknowledgement is a signed promise; that it is kept is a matter of contract and law.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := loadConfig(a.dir); err != nil {
				return err
			}
			q, err := f.request(args)
			if err != nil {
				return cli.With(cli.Usage, err)
			}
			all, err := publisher.Revoke(a.dir, q, time.Now())
			if err != nil {
				return err
			}
			states, err := a.deliver(cmd.Context(), all)
			return errors.Join(a.printRevocations(cmd.OutOrStdout(), states), err)
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.all, "all", false, "end the whole relationship with each indexer")
	fl.StringVar(&f.indexer, "indexer", "", "with --all: this indexer only")
	fl.StringArrayVar(&f.scopes, "scope", nil, "revoke the pages under this URL prefix only; may be repeated")
	fl.StringVar(&f.disposition, "disposition", string(grants.DispositionStop),
		"what becomes of the pages: stop (kept, and shown to nobody), retention (kept until the policy's time is up) or delete (now)")
	return c
}

func (f *revokeFlags) request(args []string) (q publisher.RevokeRequest, err error) {
	q.Disposition = grants.Disposition(f.disposition)
	switch q.Disposition {
	case grants.DispositionStop, grants.DispositionRetention, grants.DispositionDelete:
	default:
		return q, fmt.Errorf("disposition %.40q, want stop, retention or delete", f.disposition)
	}
	switch {
	case f.all == (len(args) == 1):
		return q, errors.New("name one grant or series, or say --all")
	case f.all && len(f.scopes) > 0:
		return q, errors.New("--scope goes with one grant, not with --all")
	}
	if f.indexer != "" {
		if q.Indexer, err = parseName(f.indexer); err != nil {
			return q, err
		}
	}
	if !f.all {
		q.Grant = args[0]
	}
	if len(f.scopes) > 0 {
		scope, err := grants.PrefixScope(f.scopes...)
		if err != nil {
			return q, err
		}
		q.Scope = &scope
	}
	return q, nil
}

// deliver brings revocations to their indexers, and says how each stands then.
func (a *app) deliver(ctx context.Context, all []*publisher.Revocation) ([]publisher.RevocationStatus, error) {
	ids := make([]envelope.Hash, len(all))
	for i, v := range all {
		ids[i] = v.ID()
	}
	states, err := ask(ctx, a, query[[]publisher.RevocationStatus]{
		method: http.MethodPost, path: "/revocations", body: ids,
		store: func(p *publisher.Publisher) ([]publisher.RevocationStatus, error) {
			return deliverRevocations(ctx, p, ids)
		},
	})
	if len(states) == 0 { // nobody could try
		for _, v := range all {
			states = append(states, v.Status())
		}
	}
	unreached := errors.Is(err, publisher.ErrUnavailable) || errors.Is(err, durable.ErrLocked)
	for _, s := range states {
		var coded *cli.Error
		if s.State == "pending" && (unreached || errors.As(err, &coded) && coded.Code == cli.Unavailable) {
			return states, cli.With(cli.Temporary, fmt.Errorf("%w: %w", publisher.ErrPending, err))
		}
	}
	return states, err
}

// deliverRevocations asks the indexers until everything is settled, or the
// time to wait for deletions is over.
func deliverRevocations(ctx context.Context, p *publisher.Publisher, ids []envelope.Hash) ([]publisher.RevocationStatus, error) {
	for deadline := time.Now().Add(deletionWait); ; {
		states := make([]publisher.RevocationStatus, len(ids))
		tried := make(map[envelope.Name]bool)
		settled := true
		var errs []error
		for i, id := range ids {
			v, err := p.Revocation(id)
			if err == nil && !v.Settled() && !tried[v.Indexer] {
				tried[v.Indexer] = true
				errs = append(errs, p.DeliverRevocations(ctx, v.Indexer))
				v, err = p.Revocation(id)
			}
			if err != nil {
				return nil, err
			}
			states[i] = v.Status()
			settled = settled && v.Settled()
		}
		if err := errors.Join(errs...); err != nil || settled || time.Now().After(deadline) {
			return states, err
		}
		select {
		case <-time.After(deletionPause):
		case <-ctx.Done():
			return states, context.Cause(ctx)
		}
	}
}

func (a *app) printRevocations(w io.Writer, all []publisher.RevocationStatus) error {
	for _, s := range all {
		if !a.json {
			printRevocation(w, s)
			continue
		}
		if err := cli.PrintJSON(w, s); err != nil {
			return err
		}
	}
	return nil
}

func printRevocation(w io.Writer, s publisher.RevocationStatus) {
	what := "everything"
	switch {
	case len(s.Scope) > 0:
		what = fmt.Sprintf("%v of series %s", s.Scope, s.Series)
	case s.Series != "":
		what = "series " + s.Series
	}
	fmt.Fprintf(w, "revocation %s\n  of %s, %s, to %s: %s\n", s.ID, what, s.Disposition, s.Indexer, s.State)
	for _, x := range s.Acknowledgements {
		fmt.Fprintf(w, "  %s: %s of series %s, at %s, log entry %d\n", x.Type, plural.Count(x.Count, "page", "pages"), x.Series, x.IssuedAt, x.Entry)
		if x.Unplaced {
			fmt.Fprintln(w, "    where the indexer stood is not known here: the records of this series were lost, older or begun anew")
		}
	}
}
