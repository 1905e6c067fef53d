package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A KeyConfig makes the key commands of one program.
type KeyConfig struct {
	Dir  *string
	JSON *bool
	// Check refuses a folder whose keys of these uses cannot be changed; it reads
	// only.
	Check func(dir string, uses []envelope.Use) error
	// Change makes the change while no daemon of the folder runs.
	Change func(dir string, o identity.KeyOptions) (*identity.Local, error)
	// Next says what is left to do here after envelope keys changed.
	Next string
}

// defaultOverlap is how long peers have to take a card that lists a new TLS key.
const defaultOverlap = 7 * 24 * time.Hour

// KeyCommand makes key list, rotate and lost.
func KeyCommand(c KeyConfig) *cobra.Command {
	root := &cobra.Command{Use: "key", Short: "List, rotate or replace the keys of this identity", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	rotate := c.change("rotate --use tls|envelope|card", "Replace keys that only this program had", false)
	rotate.Long = "Rotate draws new keys and signs the card that lists them, by the keys of before. The old private key is\n" +
		"written over. What it signed stays verifiable by the new card; it signs nothing more. The daemon must be\n" +
		"stopped. Give the new card to every peer: they take it with \"trust add\". A new TLS key is shown when the\n" +
		"overlap has passed, the others at once. Use lost if anybody else may have the key."
	lost := c.change("lost --use tls|envelope|card", "Replace keys that are gone, or may be in other hands", true)
	lost.Long = "Lost begins a new epoch with new keys. The new card says that the old keys speak for nothing new, and is\n" +
		"signed by none of them, so every peer has to take it by its fingerprint: \"trust add CARD --fingerprint\".\n" +
		"What the old keys signed and peers hold stays verifiable. The daemon must be stopped. Name every key that\n" +
		"may be affected, with --use again: if the disk was copied, all of them."
	root.AddCommand(c.list(), rotate, lost)
	return root
}

func (c KeyConfig) change(use, short string, lost bool) *cobra.Command {
	var uses []string
	var overlap time.Duration
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := identity.KeyOptions{Lost: lost, Overlap: overlap, Now: time.Now()}
			for _, u := range uses {
				if u == string(envelope.UseLog) {
					return Errorf(Usage, "a log keeps its key for life; a new key takes a new log: log rotate")
				}
				if u != string(envelope.UseTLS) && u != string(envelope.UseEnvelope) && u != string(envelope.UseCard) {
					return Errorf(Usage, "--use %.20q: want tls, envelope or card", u)
				}
				o.Uses = append(o.Uses, envelope.Use(u))
			}
			if overlap < 0 || overlap > identity.MaxOverlap {
				return Errorf(Usage, "--overlap %s: want 0 to %s", overlap, identity.MaxOverlap)
			}
			if err := c.Check(*c.Dir, o.Uses); err != nil {
				return err
			}
			local, err := c.Change(*c.Dir, o)
			if errors.Is(err, durable.ErrLocked) {
				return Errorf(Temporary, "%w: stop the daemon, change the keys, and start it again", err)
			}
			if errors.Is(err, identity.ErrKeyChange) {
				return With(Config, err)
			}
			if err != nil {
				return err
			}
			return c.tell(cmd, local, o)
		}}
	cmd.Flags().StringArrayVar(&uses, "use", nil, "tls, envelope or card; may be repeated")
	cmd.MarkFlagRequired("use")
	if !lost {
		cmd.Flags().DurationVar(&overlap, "overlap", defaultOverlap, "how long peers have to take the new card before a new TLS key is shown")
	}
	return cmd
}

// changed is what was changed, as rotate and lost print it.
type changed struct {
	Identity    envelope.Name `json:"identity"`
	Card        envelope.Hash `json:"card"`
	Previous    envelope.Hash `json:"previous"`
	Epoch       uint64        `json:"epoch"` // of the card
	Fingerprint string        `json:"fingerprint"`
}

func (c KeyConfig) tell(cmd *cobra.Command, l *identity.Local, o identity.KeyOptions) error {
	card := l.Card
	r := changed{card.Identity, card.Object.ID, card.Previous, card.Object.Epoch, card.Fingerprint()}
	if *c.JSON {
		if err := PrintJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: new card of epoch %d\nfingerprint %s\n", r.Identity, r.Epoch, r.Fingerprint)
	}
	w := cmd.ErrOrStderr()
	if o.Lost {
		fmt.Fprintln(w, "Next: tell the operator of every peer, over a channel that no key of this identity protects, what happened and the fingerprint;\n"+
			"give them the card (\"card\"), for trust add --fingerprint. Until then they refuse what the new keys sign, and the thief is believed.")
	} else {
		fmt.Fprintln(w, "Next: give the new card (\"card\") to every peer, for trust add, and start the daemon.")
	}
	for _, use := range o.Uses {
		if use == envelope.UseEnvelope && c.Next != "" {
			fmt.Fprintln(w, c.Next)
		}
	}
	return nil
}

// keyLine is one key of the card as list prints it.
type keyLine struct {
	Use       envelope.Use  `json:"use"`
	KeyID     envelope.Hash `json:"key_id"`
	First     uint64        `json:"first_epoch"`
	Last      uint64        `json:"last_epoch,omitzero"`
	NotBefore envelope.Time `json:"not_before"`
	NotAfter  envelope.Time `json:"not_after,omitzero"`
	Lost      bool          `json:"lost,omitzero"`
}

func (c KeyConfig) list() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the keys of my card, with their epochs and validity", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			local, err := identity.Load(*c.Dir, time.Now())
			if err != nil {
				return err
			}
			for _, k := range local.Card.Keys {
				l := keyLine{k.Use, k.PublicKey.ID(), k.Epochs.First, k.Epochs.Last, k.Validity.NotBefore, k.Validity.NotAfter, k.Lost}
				if *c.JSON {
					if err := PrintJSON(cmd.OutOrStdout(), l); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\tepochs %s\t%s\n", l.Use, l.KeyID, l.epochs(), l.validity())
			}
			return nil
		}}
}

func (l keyLine) epochs() string {
	if l.Last == 0 {
		return fmt.Sprintf("%d on", l.First)
	}
	return fmt.Sprintf("%d to %d", l.First, l.Last)
}

func (l keyLine) validity() string {
	s := "from " + l.NotBefore.String()
	if !l.NotAfter.IsZero() {
		s += " until " + l.NotAfter.String()
	}
	if l.Lost {
		s += ", LOST"
	}
	return s
}
