package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// newConsumer keeps the list of those who may read the feed. The daemon looks at
// it whenever one of them connects, and once a second while it reads.
func newConsumer(a *app) *cobra.Command {
	root := &cobra.Command{Use: "consumer", Short: "Add, list or remove who may read the feed, and for which purposes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	root.AddCommand(a.consumerAdd(), a.consumerList(), a.consumerRemove(), a.consumerHolders())
	return root
}

func openConsumers(dir string) (*identity.Consumers, error) {
	trust, err := openTrust(dir)
	if err != nil {
		return nil, err
	}
	return identity.OpenConsumers(filepath.Join(dir, "consumers"), trust)
}

func (a *app) consumerAdd() *cobra.Command {
	var purposes []string
	var card, fingerprint string
	var third bool
	c := &cobra.Command{
		Use:   "add ID --purpose P",
		Short: "Let an identity read the feed for some purposes, and for no other",
		Long: "Let an identity read the feed for the purposes named here, in the place of those named before. Its card\n" +
			"lists the key of its connections; compare its fingerprint with its operator first. Without one, the\n" +
			"authority of its trust domain has to vouch for it (\"trust ca add\"). An identity of another trust domain\n" +
			"than this indexer's is a third party, and reads only what a policy lets be redistributed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := newConsumerRecord(a.dir, args[0], purposes, third)
			if err != nil {
				return err
			}
			if card != "" {
				if r.Card, err = readConsumerCard(card, fingerprint); err != nil {
					return err
				}
			}
			consumers, err := openConsumers(a.dir)
			if err != nil {
				return err
			}
			if err := consumers.Add(r); err != nil {
				return cli.With(cli.Refused, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s may read for %s\n", r.Identity, strings.Join(r.Purposes, ", "))
			if r.ThirdParty {
				fmt.Fprintln(cmd.ErrOrStderr(), "it is a third party: it reads only what a policy lets be redistributed")
			}
			if r.Card != nil {
				fmt.Fprintf(cmd.OutOrStdout(), "fingerprint %s\n", r.Card.Fingerprint())
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&purposes, "purpose", nil, "purpose that it may read for; may be repeated")
	c.Flags().StringVar(&card, "card", "", "file of its identity card")
	c.Flags().StringVar(&fingerprint, "fingerprint", "", "the card's fingerprint as its operator said it")
	c.Flags().BoolVar(&third, "third-party", false, "treat it as a third party, though it is of this indexer's trust domain")
	c.MarkFlagRequired("purpose")
	return c
}

// newConsumerRecord checks what the command line says of a consumer.
func newConsumerRecord(dir, id string, words []string, third bool) (*identity.Consumer, error) {
	name, err := identity.ParseName(id)
	if err != nil {
		return nil, cli.With(cli.Usage, err)
	}
	purposes, err := grants.ParsePurposes(words)
	if err != nil {
		return nil, cli.With(cli.Usage, err)
	}
	local, err := identity.Load(dir, time.Now())
	if err != nil {
		return nil, err
	}
	if name == local.Name() {
		return nil, cli.Errorf(cli.Usage, "%s is this indexer itself; use \"feed\"", name)
	}
	third = third || identity.DomainOf(name) != identity.DomainOf(local.Name())
	return &identity.Consumer{Identity: name, Purposes: purposes.Strings(), ThirdParty: third, AddedAt: time.Now()}, nil
}

func readConsumerCard(path, fingerprint string) (*identity.Card, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > envelope.MaxSize {
		err = fmt.Errorf("%s: %d octets, at most %d", path, info.Size(), envelope.MaxSize)
	}
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	card, err := identity.ParseCard(raw, time.Now())
	if err != nil {
		return nil, cli.With(cli.Refused, fmt.Errorf("%s: %w", path, err))
	}
	if fingerprint != "" && !card.Confirms(fingerprint) {
		return nil, cli.Errorf(cli.Refused, "card of %s: its fingerprint is %s, and another one was said", card.Identity, card.Fingerprint())
	}
	return card, nil
}

// consumerLine is a consumer as list prints it.
type consumerLine struct {
	Identity    envelope.Name `json:"identity"`
	Purposes    []string      `json:"purposes"`         // none of one that was removed
	Former      []string      `json:"former,omitempty"` // those that it had
	ThirdParty  bool          `json:"third_party"`
	Fingerprint string        `json:"fingerprint,omitempty"` // none: an authority vouches for it
	AddedAt     envelope.Time `json:"added_at"`
}

func (a *app) consumerList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List who may read the feed", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			consumers, err := openConsumers(a.dir)
			if err != nil {
				return err
			}
			all, bad := consumers.List()
			for _, r := range all {
				l := consumerLine{Identity: r.Identity, Purposes: r.Purposes, Former: r.Former, ThirdParty: r.ThirdParty, AddedAt: envelope.At(r.AddedAt)}
				if r.Card != nil {
					l.Fingerprint = r.Card.Fingerprint()
				}
				if a.json {
					err = cli.PrintJSON(cmd.OutOrStdout(), l)
				} else {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%s\t%s\n", l.Identity, cmp.Or(strings.Join(l.Purposes, ","), "removed"), party(l.ThirdParty), l.Fingerprint)
				}
				if err != nil {
					return err
				}
			}
			return cli.With(cli.Config, bad)
		}}
}

func party(third bool) string {
	if third {
		return "third party"
	}
	return "own"
}

func (a *app) consumerRemove() *cobra.Command {
	var forget bool
	c := &cobra.Command{Use: "remove ID", Short: "Let an identity read no more; a stream of it ends within about a second", Args: cobra.ExactArgs(1),
		Long: "Let an identity read no more. It stays known by its card for what it had: it is told to drop all of it, and can\n" +
			"still say that it did. With --forget it is let in no more at all, so that \"holders\" shows for ever what it\n" +
			"has not confirmed by then.",
		RunE: func(_ *cobra.Command, args []string) error {
			name, err := identity.ParseName(args[0])
			if err != nil {
				return cli.With(cli.Usage, err)
			}
			consumers, err := openConsumers(a.dir)
			if err != nil {
				return err
			}
			remove := consumers.Remove
			if forget {
				remove = consumers.Forget
			}
			if err := remove(name); errors.Is(err, identity.ErrUnknownPeer) {
				return cli.With(cli.Config, err)
			} else if err != nil {
				return err
			}
			return nil
		}}
	c.Flags().BoolVar(&forget, "forget", false, "let it in no more at all, also not to say what it has purged")
	return c
}

// consumerHolders shows who was handed pages, and has not said to have dropped what
// it was to drop.
func (a *app) consumerHolders() *cobra.Command {
	var page string
	c := &cobra.Command{Use: "holders", Short: "Show who was handed pages of which series, and what of them is to be purged yet", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values := url.Values{"page": {page}}
			all, err := ask(cmd.Context(), a, "/holders?"+values.Encode(), func(x *indexer.Indexer) ([]indexer.Holder, error) { return holders(x, page) })
			if err != nil {
				return err
			}
			for _, h := range all {
				if a.json {
					err = cli.PrintJSON(cmd.OutOrStdout(), h)
				} else {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), describeHolder(&h))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}}
	c.Flags().StringVar(&page, "page", "", "show only who may have been handed the page of this URL, and what became of it")
	return c
}

// holders tells who was handed pages, or the page of one URL.
func holders(x *indexer.Indexer, page string) ([]indexer.Holder, error) {
	if page == "" {
		return x.Holders("", nil)
	}
	h := sha256.Sum256([]byte(page))
	return x.Holders("", h[:])
}

// describeHolder is a holder in words.
func describeHolder(h *indexer.Holder) string {
	state := "may read"
	if !h.Open {
		state = "may read no more"
	}
	purged := "never said that anything was purged"
	if !h.Purged.IsZero() {
		purged = "last said at " + h.Purged.String() + " what was purged"
	}
	if h.Page != "" {
		state += ", the page is " + string(h.Page)
	}
	return fmt.Sprintf("%s (%s) for %s: series %s of %s, handed out from %s to %s; %s; %d deletions not confirmed; %s",
		h.Consumer, party(h.ThirdParty), h.Purpose, h.Series, h.Publisher, h.Since, h.Last, state, h.ToPurge, purged)
}

// serveHolders answers the command on the socket.
func (d *daemon) serveHolders(w http.ResponseWriter, r *http.Request) {
	answer(w, func() ([]indexer.Holder, error) { return holders(d.x, r.URL.Query().Get("page")) })
}
