package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

func newGrant(a *app) *cobra.Command {
	c := &cobra.Command{Use: "grant", Short: "Issue, list, show, renew or revoke grants", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newGrantIssue(a), newGrantList(a), newGrantShow(a), newGrantRenew(a), newGrantFeed(a), newGrantRevoke(a))
	return c
}

// issueFlags are the flags of grant issue.
type issueFlags struct {
	indexer, source, policy, listing, mode string
	scopes, purposes                       []string
	query, collection                      bool
	list                                   listFlags
	lifetime                               time.Duration
	retentionDays                          uint64
	bytesPerDay, pagesPerSecond            uint64
	attribution                            string
	from                                   []string
	dryRun                                 bool
}

func newGrantIssue(a *app) *cobra.Command {
	var f issueFlags
	c := &cobra.Command{
		Use:   "issue --indexer ID --source NAME --scope URL --purpose search.index",
		Short: "Sign a grant with its policy for one indexer and one collection",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := loadConfig(a.dir); err != nil {
				return err
			}
			q, err := f.request(cmd.InOrStdin())
			if err != nil {
				return err
			}
			if q.Statements, err = readStatements(cmd.ErrOrStderr(), f.from); err != nil {
				return err
			}
			if q.Purposes, err = drawPurposes(cmd.ErrOrStderr(), q.Statements, q.Purposes); err != nil {
				return err
			}
			rel, warnings, err := publisher.IssueGrant(a.dir, q, time.Now())
			if err != nil {
				return err
			}
			printWarnings(cmd.ErrOrStderr(), warnings)
			if q.DryRun {
				return a.showDraft(cmd.OutOrStdout(), rel)
			}
			return a.showGrant(cmd.OutOrStdout(), rel)
		},
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.from, "from-policy", nil, "file that says how the content may be used, in any form that doc/policy.md names; several, by commas or repeated, are combined, and any denial wins")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show in words what would be signed; sign and keep nothing")
	fl.StringVar(&f.indexer, "indexer", "", "SPIFFE ID of the indexer")
	fl.StringVar(&f.source, "source", "", "name of the collection")
	fl.StringArrayVar(&f.scopes, "scope", nil, "URL prefix that the grant covers, by whole segments; may be repeated")
	fl.StringArrayVar(&f.purposes, "purpose", nil, "purpose that is granted, such as search.index or rag.retrieve; may be repeated")
	fl.BoolVar(&f.query, "query", false, "cover URLs with a query too")
	fl.BoolVar(&f.collection, "collection", false, "cover the pages of this collection only, whatever else lies under the prefixes")
	f.list.add(c)
	fl.StringVar(&f.policy, "policy", "", "file with the policy's terms, JSON or YAML")
	fl.DurationVar(&f.lifetime, "for", grants.DefaultLifetime, "lifetime, at most 2160h")
	fl.StringVar(&f.listing, "listing", string(grants.ListingBlinded), "how the public log names this publisher: blinded or public")
	fl.StringVar(&f.mode, "mode", string(grants.ModePush), "who begins a transfer: push sends what changed, request signals it and lets the indexer ask, both (or push+request) does what push does and lets it ask")
	fl.Uint64Var(&f.retentionDays, "retention-days", 0, "cap on the policy's retention, in days; 0 sets none")
	fl.Uint64Var(&f.bytesPerDay, "bytes-per-day", 0, "the most octets of pages that the indexer may take in a day (UTC); 0 sets no limit")
	fl.Uint64Var(&f.pagesPerSecond, "pages-per-second", 0, "the most pages that the indexer may take in a second; 0 sets no limit")
	fl.StringVar(&f.attribution, "attribution", "", "words to be shown with the content, on one line")
	for _, name := range []string{"indexer", "source", "scope"} {
		c.MarkFlagRequired(name)
	}
	return c
}

func (f *issueFlags) request(in io.Reader) (q publisher.GrantRequest, err error) {
	if q.Indexer, err = parseName(f.indexer); err != nil {
		return q, err
	}
	if len(f.purposes) == 0 && len(f.from) == 0 {
		return q, cli.With(cli.Usage, errors.New("a grant names its purposes; say --purpose, or --from-policy FILE to take what it allows"))
	}
	if q.Purposes, err = grants.ParsePurposes(f.purposes); err != nil {
		return q, cli.With(cli.Usage, err)
	}
	if f.collection {
		q.Scope, err = grants.CollectionScope(f.source, f.scopes...)
	} else {
		q.Scope, err = grants.PrefixScope(f.scopes...)
	}
	if err != nil {
		return q, cli.With(cli.Usage, err)
	}
	q.Scope.Query = f.query
	if q.List, err = f.list.read(q.Scope, in); err != nil {
		return q, err
	}
	if q.List != nil && f.collection {
		return q, cli.With(cli.Usage, errors.New("a scope is for a collection or for a list, not for both"))
	}
	q.Source, q.Lifetime, q.DryRun = f.source, f.lifetime, f.dryRun
	q.Listing = grants.Listing(f.listing)
	if q.Mode, err = grants.ParseMode(f.mode); err != nil {
		return q, cli.With(cli.Usage, err)
	}
	q.Constraints = grants.Constraints{
		Attribution: f.attribution, MaxBytesPerDay: f.bytesPerDay, MaxFetchPerSecond: f.pagesPerSecond, RetentionDays: f.retentionDays,
	}
	if f.policy == "" {
		return q, nil
	}
	q.Terms, err = readTerms(f.policy)
	return q, err
}

func readTerms(file string) (grants.PolicyTerms, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return grants.PolicyTerms{}, err
	}
	terms, err := grants.ParsePolicyTerms(text)
	return terms, cli.With(cli.Config, err)
}

// grantLine is a grant as list and show print it.
type grantLine struct {
	GrantID    envelope.Hash  `json:"grant_id"`
	Series     string         `json:"series"`
	Indexer    envelope.Name  `json:"indexer"`
	Collection string         `json:"collection"`
	IssuedAt   envelope.Time  `json:"issued_at"`
	ExpiresAt  envelope.Time  `json:"expires_at"`
	Purposes   []string       `json:"purposes"`
	Scope      []string       `json:"scope"`
	Words      []string       `json:"words"`
	Expiry     string         `json:"expiry"`
	State      string         `json:"state"` // as in status
	Grant      jsontext.Value `json:"grant,omitzero"`
	Policy     jsontext.Value `json:"policy,omitzero"`

	Renewal    *publisher.Renewal     `json:"renewal,omitzero"`
	Statements []*publisher.Statement `json:"statements"` // that it was drawn from

	Revocations []publisher.RevocationStatus `json:"revocations"`
}

func lineOf(r *publisher.Relationship) grantLine {
	g := r.Pair.Grant
	l := grantLine{
		GrantID: g.Object.ID, Series: r.Series, Indexer: r.Indexer, Collection: r.Collection,
		IssuedAt: envelope.At(g.Object.IssuedAt), ExpiresAt: envelope.At(r.Pair.ExpiresAt()),
		Purposes: g.Body.Purposes.Strings(), Scope: g.Body.Scope.Prefixes, Words: grants.Describe(r.Pair),
		State: r.State(time.Now()), Expiry: r.Expiry(time.Now()), Renewal: r.Renewal, Statements: append([]*publisher.Statement{}, r.Statements...),
		Revocations: []publisher.RevocationStatus{},
	}
	for _, v := range r.Revocations() {
		l.Revocations = append(l.Revocations, v.Status())
	}
	return l
}

// showGrant prints one grant in words, or with its objects as JSON.
func (a *app) showGrant(w io.Writer, r *publisher.Relationship) error {
	l := lineOf(r)
	if a.json {
		l.Grant, l.Policy = r.Pair.Grant.Object.Raw, r.Pair.Policy.Object.Raw
		return cli.PrintJSON(w, l)
	}
	fmt.Fprintf(w, "grant %s\nseries %s, collection %s: %s\n", l.GrantID, l.Series, l.Collection, l.State)
	for _, line := range l.Words {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintf(w, "it %s\n", l.Expiry)
	printStatements(w, l.Statements)
	for _, v := range l.Revocations {
		printRevocation(w, v)
	}
	return nil
}

func newGrantShow(a *app) *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Show a grant in words, by its id or its series", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := publisher.FindGrant(a.dir, args[0])
			if err != nil {
				return err
			}
			return a.showGrant(cmd.OutOrStdout(), r)
		}}
}

func printWarnings(w io.Writer, all []grants.Warning) {
	for _, x := range all {
		fmt.Fprintf(w, "publisherd: consider: %s\n", x.Detail)
	}
}

func newGrantRenew(a *app) *cobra.Command {
	var q publisher.RenewRequest
	var purposes, from []string
	var policy, mode string
	var auto autoFlags
	var list listFlags
	c := &cobra.Command{
		Use:   "renew ID",
		Short: "Sign the next grant of a series; what is not said anew stays",
		Long: "Renew signs the next grant of a series, with its policy. What is not said anew stays as it is. The\n" +
			"next push rebinds the pages that the indexer holds to it: nothing is sent again, and pages outside\n" +
			"a narrower scope leave the index.\n\n" +
			"With --auto 14d the daemon renews the grant by itself, as it is, 14 days before each end; alone it\n" +
			"signs nothing now. That stops when the source, or a statement named by --from-policy, denies what is\n" +
			"granted, and a year after it was wished; --auto off takes it back.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if _, err := loadConfig(a.dir); err != nil {
				return err
			}
			if len(purposes) > 0 {
				if q.Purposes, err = grants.ParsePurposes(purposes); err != nil {
					return cli.With(cli.Usage, err)
				}
			}
			if mode != "" {
				if q.Mode, err = grants.ParseMode(mode); err != nil {
					return cli.With(cli.Usage, err)
				}
			}
			if policy != "" {
				terms, err := readTerms(policy)
				if err != nil {
					return err
				}
				q.Terms = &terms
			}
			if list != (listFlags{}) {
				rel, err := publisher.FindGrant(a.dir, args[0])
				if err != nil {
					return err
				}
				frame, err := rel.Frame(q.Prefixes)
				if err != nil {
					return cli.With(cli.Usage, err)
				}
				if q.List, err = list.read(frame, cmd.InOrStdin()); err != nil {
					return err
				}
			}
			if q.Statements, err = readStatements(cmd.ErrOrStderr(), from); err != nil {
				return err
			}
			return a.renew(cmd, args[0], q, auto)
		},
	}
	fl := c.Flags()
	fl.DurationVar(&q.Lifetime, "for", 0, "lifetime, at most 2160h; that of the present grant if it is not named")
	fl.StringArrayVar(&q.Prefixes, "scope", nil, "URL prefix in place of the present ones; may be repeated")
	fl.StringArrayVar(&purposes, "purpose", nil, "purpose in place of the present ones; may be repeated")
	list.add(c)
	fl.StringVar(&policy, "policy", "", "file with the policy's terms, in place of the present ones")
	fl.StringSliceVar(&from, "from-policy", nil, "file that says how the content may be used, in place of those that the grant was drawn from; several by commas or repeated")
	fl.StringVar(&mode, "mode", "", "who begins a transfer, in place of the present one: push, request or both")
	fl.StringVar(&auto.within, "auto", "", "how long before its end the daemon renews the grant by itself, such as 14d or 36h, at most half its life; off takes it back")
	fl.StringVar(&auto.during, "auto-for", "", "for how long it goes on to do so, at most 365d, the default")
	return c
}
