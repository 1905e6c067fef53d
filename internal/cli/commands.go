package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// ParseOrigins reads origins from the command line.
func ParseOrigins(words []string) ([]identity.Origin, error) {
	origins := make([]identity.Origin, 0, len(words))
	for _, w := range words {
		o, err := identity.ParseOrigin(w)
		if err != nil {
			return nil, With(Usage, err)
		}
		origins = append(origins, o)
	}
	return origins, nil
}

// CardCommand prints the identity card of the folder dir: the exact octets on
// standard output, the fingerprint for people on standard error.
func CardCommand(dir *string) *cobra.Command {
	return &cobra.Command{Use: "card", Short: "Print my identity card", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			local, err := identity.Load(*dir, time.Now())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "fingerprint %s\n", local.Card.Fingerprint())
			_, err = cmd.OutOrStdout().Write(local.Card.Object.Raw)
			return err
		}}
}

// A TrustConfig makes the trust commands of one program.
type TrustConfig struct {
	Dir  *string
	JSON *bool
	// Role is that of the peers that can be trusted here.
	Role identity.Role
	// Endpoint and Origins say which of the two flags there are.
	Endpoint, Origins bool
	Open              func(dir string) (*identity.Trust, error)
}

// TrustCommand makes trust add, list and remove.
func TrustCommand(c TrustConfig) *cobra.Command {
	root := &cobra.Command{Use: "trust", Short: "Add, list or remove the identities that are trusted", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	root.AddCommand(c.add(), c.list(), c.remove(), c.authority())
	return root
}

// maxCard bounds a card file, in octets.
const maxCard = envelope.MaxSize

func (c TrustConfig) add() *cobra.Command {
	var origins []string
	var endpoint, fingerprint string
	add := &cobra.Command{
		Use:   "add CARD.json",
		Short: "Trust the identity of a card; compare its fingerprint with the other operator first",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := readLimited(args[0], maxCard)
			if err != nil {
				return err
			}
			o := identity.AddOptions{Endpoint: endpoint, Fingerprint: fingerprint, Now: time.Now()}
			if len(origins) > 0 {
				if o.Origins, err = ParseOrigins(origins); err != nil {
					return err
				}
			}
			card, err := identity.ParseCard(raw, o.Now)
			if err != nil {
				return With(Refused, fmt.Errorf("%s: %w", args[0], err))
			}
			if card.Role != c.Role {
				return Errorf(Refused, "%s is the card of an identity with the role %q; want %q", args[0], card.Role, c.Role)
			}
			trust, err := c.Open(*c.Dir)
			if err != nil {
				return err
			}
			var before *identity.Card
			if held, ok := trust.Lookup(card.Identity); ok {
				before = held.Card
			}
			p, err := trust.Add(raw, o)
			if err != nil {
				return refusedCard(cmd.ErrOrStderr(), *c.Dir, args[0], card, before, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "trusted: %s\nfingerprint %s\n", p.Card.Identity, p.Card.Fingerprint())
			if err := printChanges(cmd.OutOrStdout(), p.Card, before); err != nil {
				return err
			}
			if c.Origins && len(p.Origins) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "no origin is named for it: it can publish nothing; its card claims %q\n", p.Card.Origins)
			}
			if d := p.Delegated(); d != "" {
				if _, ok := trust.LookupAuthority(d); !ok {
					fmt.Fprintf(cmd.ErrOrStderr(), "its card lists no TLS key, and no authority vouches for its connections: add that of %s with \"trust ca add\"\n", d)
				}
			}
			return nil
		},
	}
	add.Flags().StringVar(&fingerprint, "fingerprint", "", "the card's fingerprint as its operator said it; required where the card held before does not vouch for the new one")
	if c.Origins {
		add.Flags().StringArrayVar(&origins, "origin", nil, "origin that this identity may speak for; may be repeated")
	}
	if c.Endpoint {
		add.Flags().StringVar(&endpoint, "endpoint", "", "HOST:PORT to dial in place of the card's")
	}
	return add
}

// trustLine is a trusted identity as list prints it.
type trustLine struct {
	Identity    envelope.Name     `json:"identity"`
	Fingerprint string            `json:"fingerprint"`
	Origins     []identity.Origin `json:"origins"`
	Endpoint    string            `json:"endpoint,omitempty"`
	AddedAt     envelope.Time     `json:"added_at"`
	Authority   identity.Domain   `json:"authority,omitempty"` // vouches for its connections; else its card does
}

func (c TrustConfig) list() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the trusted identities", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			trust, err := c.Open(*c.Dir)
			if err != nil {
				return err
			}
			for _, p := range trust.List() {
				l := trustLine{p.Card.Identity, p.Card.Fingerprint(), p.Origins, p.Address(), envelope.At(p.AddedAt), p.Delegated()}
				if l.Origins == nil {
					l.Origins = []identity.Origin{}
				}
				if *c.JSON {
					if err := PrintJSON(cmd.OutOrStdout(), l); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\t%v\t%s\n", l.Identity, l.Endpoint, l.Origins, l.Fingerprint)
			}
			return nil
		}}
}

func (c TrustConfig) remove() *cobra.Command {
	return &cobra.Command{Use: "remove ID", Short: "End the trust in an identity", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name, err := identity.ParseName(args[0])
			if err != nil {
				return With(Usage, err)
			}
			trust, err := c.Open(*c.Dir)
			if err != nil {
				return err
			}
			err = trust.Remove(name)
			if errors.Is(err, identity.ErrUnknownPeer) {
				return With(Config, err)
			}
			return err
		}}
}

// readLimited reads a file of at most limit octets.
func readLimited(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: %d octets, at most %d", path, info.Size(), limit)
	}
	return os.ReadFile(path)
}
