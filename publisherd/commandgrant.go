package main

import (
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
	c.AddCommand(newGrantIssue(a), newGrantList(a), newGrantShow(a), newGrantRenew(a), newGrantRevoke(a))
	return c
}

// issueFlags are the flags of grant issue.
type issueFlags struct {
	indexer, source, policy, listing, mode string
	scopes, purposes                       []string
	query, collection                      bool
	lifetime                               time.Duration
	retentionDays                          uint64
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
			q, err := f.request()
			if err != nil {
				return err
			}
			rel, warnings, err := publisher.IssueGrant(a.dir, q, time.Now())
			if err != nil {
				return err
			}
			printWarnings(cmd.ErrOrStderr(), warnings)
			return a.showGrant(cmd.OutOrStdout(), rel)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.indexer, "indexer", "", "SPIFFE ID of the indexer")
	fl.StringVar(&f.source, "source", "", "name of the collection")
	fl.StringArrayVar(&f.scopes, "scope", nil, "URL prefix that the grant covers, by whole segments; may be repeated")
	fl.StringArrayVar(&f.purposes, "purpose", nil, "purpose that is granted, such as search.index or rag.retrieve; may be repeated")
	fl.BoolVar(&f.query, "query", false, "cover URLs with a query too")
	fl.BoolVar(&f.collection, "collection", false, "cover the pages of this collection only, whatever else lies under the prefixes")
	fl.StringVar(&f.policy, "policy", "", "file with the policy's terms, JSON or YAML")
	fl.DurationVar(&f.lifetime, "for", grants.DefaultLifetime, "lifetime, at most 2160h")
	fl.StringVar(&f.listing, "listing", string(grants.ListingBlinded), "how the public log names this publisher: blinded or public")
	fl.StringVar(&f.mode, "mode", string(grants.ModePush), "who begins a transfer; this edition speaks push")
	fl.Uint64Var(&f.retentionDays, "retention-days", 0, "cap on the policy's retention, in days; 0 sets none")
	for _, name := range []string{"indexer", "source", "scope", "purpose"} {
		c.MarkFlagRequired(name)
	}
	return c
}

func (f *issueFlags) request() (q publisher.GrantRequest, err error) {
	if q.Indexer, err = parseName(f.indexer); err != nil {
		return q, err
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
	q.Source, q.Lifetime = f.source, f.lifetime
	q.Listing, q.Mode = grants.Listing(f.listing), grants.Mode(f.mode)
	q.Constraints.RetentionDays = f.retentionDays
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
	State      string         `json:"state"` // as in status
	Grant      jsontext.Value `json:"grant,omitzero"`
	Policy     jsontext.Value `json:"policy,omitzero"`

	Revocations []publisher.RevocationStatus `json:"revocations"`
}

func lineOf(r *publisher.Relationship) grantLine {
	g := r.Pair.Grant
	l := grantLine{
		GrantID: g.Object.ID, Series: r.Series, Indexer: r.Indexer, Collection: r.Collection,
		IssuedAt: envelope.At(g.Object.IssuedAt), ExpiresAt: envelope.At(r.Pair.ExpiresAt()),
		Purposes: g.Body.Purposes.Strings(), Scope: g.Body.Scope.Prefixes, Words: grants.Describe(r.Pair),
		State: r.State(time.Now()), Revocations: []publisher.RevocationStatus{},
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
	for _, v := range l.Revocations {
		printRevocation(w, v)
	}
	return nil
}

func newGrantList(a *app) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the grants", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rels, err := publisher.Relationships(a.dir)
			if err != nil {
				return err
			}
			for _, r := range rels {
				l := lineOf(r)
				if a.json {
					if err := cli.PrintJSON(cmd.OutOrStdout(), l); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%s\t%s until %s\t%v\n", l.GrantID, l.Indexer, l.Collection, l.State, l.ExpiresAt, l.Purposes)
			}
			return nil
		}}
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
	var purposes []string
	var policy string
	c := &cobra.Command{
		Use:   "renew ID",
		Short: "Sign the next grant of a series; what is not said anew stays",
		Long: "Renew signs the next grant of a series, with its policy. What is not said anew stays as it is. The\n" +
			"next push rebinds the pages that the indexer holds to it: nothing is sent again, and pages outside\n" +
			"a narrower scope leave the index.",
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
			if policy != "" {
				terms, err := readTerms(policy)
				if err != nil {
					return err
				}
				q.Terms = &terms
			}
			rel, warnings, err := publisher.RenewGrant(a.dir, args[0], q, time.Now())
			if err != nil {
				return err
			}
			printWarnings(cmd.ErrOrStderr(), warnings)
			return a.showGrant(cmd.OutOrStdout(), rel)
		},
	}
	fl := c.Flags()
	fl.DurationVar(&q.Lifetime, "for", 0, "lifetime, at most 2160h; that of the present grant if it is not named")
	fl.StringArrayVar(&q.Prefixes, "scope", nil, "URL prefix in place of the present ones; may be repeated")
	fl.StringArrayVar(&purposes, "purpose", nil, "purpose in place of the present ones; may be repeated")
	fl.StringVar(&policy, "policy", "", "file with the policy's terms, in place of the present ones")
	return c
}
