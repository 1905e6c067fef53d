package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/equivocation"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// printChanges says what a card changes of the one that it took the place of.
func printChanges(w io.Writer, card, old *identity.Card) error {
	if old == nil || old.Object.ID == card.Object.ID {
		return nil
	}
	fmt.Fprintf(w, "It takes the place of the card %s.\n", old.Object.ID)
	for _, line := range card.Changes(old) {
		if _, err := fmt.Fprintf(w, "  %s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// refusedCard makes of a card that was not taken what the operator has to know.
// Two cards of one place are kept.
func refusedCard(w io.Writer, dir, path string, card, old *identity.Card, err error) error {
	switch {
	case errors.Is(err, identity.ErrByHand):
		if err := printChanges(w, card, old); err != nil {
			return err
		}
		fmt.Fprintf(w, "The card held before does not vouch for it. Ask the other operator, over a channel that no key of theirs protects, whether they made it,\n"+
			"and compare its fingerprint:\n  %s\nIf it is theirs: trust add %s --fingerprint \"…\". If not, somebody is taking their place: trust nothing new of theirs.\n", card.Fingerprint(), path)
	case errors.Is(err, envelope.ErrEquivocates) && old != nil:
		kept, kerr := equivocation.In(dir).Keep(old.Object, card.Object)
		if kept != nil {
			fmt.Fprintf(w, "%s signed two cards for epoch %d, sequence %d; both are kept in %s\n", kept.Signer, kept.Epoch, kept.Sequence, kept.Path)
		}
		err = errors.Join(err, kerr)
	}
	return With(Refused, fmt.Errorf("%s: %w", path, err))
}

// EquivocationsCommand lists what somebody signed twice for one place, and hands
// out the files.
func EquivocationsCommand(dir *string, asJSON *bool) *cobra.Command {
	root := &cobra.Command{
		Use: "equivocations", Short: "List what somebody signed twice for one place", Args: cobra.NoArgs,
		Long: "Equivocations lists the pairs of signed objects that cannot both be: two grants of one series with the\n" +
			"same epoch and sequence, two cards, two entries at one index of a log. \"show\" prints one as a file, which\n" +
			"\"auditor verify FILE --key CARD\" checks.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := equivocation.In(*dir).List()
			for _, k := range all {
				if *asJSON {
					if err := PrintJSON(cmd.OutOrStdout(), k); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s by %s, %s and %s, in %s\n", k.ID, k.Type, k.Signer, k.Objects[0], k.Objects[1], k.Path)
			}
			return err
		},
	}
	root.AddCommand(&cobra.Command{
		Use: "show ID", Short: "Print one as the file that auditor verifies", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := equivocation.In(*dir).List()
			for _, k := range all {
				if k.ID.String() != args[0] {
					continue
				}
				raw, err := readLimited(k.Path, equivocation.MaxFile)
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(raw)
				return err
			}
			return errors.Join(Errorf(Config, "no equivocation %.80q is kept here", args[0]), err)
		},
	})
	return root
}
