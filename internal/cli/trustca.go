package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// maxBundle bounds a file of authorities on the command line, in octets.
const maxBundle = 256 << 10

// authority makes trust ca add, list and remove.
func (c TrustConfig) authority() *cobra.Command {
	root := &cobra.Command{
		Use: "ca", Short: "Add, list or remove the authority that vouches for the connections of one trust domain",
		Long: "An authority vouches for the connections of identities of its own trust domain whose card lists\n" +
			"no TLS key, and for nothing else: what they sign counts by their card alone.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(c.authorityAdd(), c.authorityList(), c.authorityRemove())
	return root
}

func (c TrustConfig) authorityAdd() *cobra.Command {
	var domain string
	add := &cobra.Command{
		Use:   "add BUNDLE.pem --domain example.com",
		Short: "Trust the authorities of a bundle for one trust domain, in place of those it had",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := identity.ParseDomain(domain)
			if err != nil {
				return With(Usage, err)
			}
			bundle, err := readLimited(args[0], maxBundle)
			if err != nil {
				return err
			}
			trust, err := c.Open(*c.Dir)
			if err != nil {
				return err
			}
			a, err := trust.AddAuthority(d, bundle, time.Now())
			if err != nil {
				return With(Refused, fmt.Errorf("%s: %w", args[0], err))
			}
			for _, anchor := range a.Anchors {
				fmt.Fprintf(cmd.OutOrStdout(), "trusted for connections of %s: %s\nfingerprint %s\n", d, nameOf(anchor), identity.Fingerprint(anchor))
			}
			return nil
		},
	}
	add.Flags().StringVar(&domain, "domain", "", "the trust domain: what stands behind spiffe:// in its names")
	add.MarkFlagRequired("domain")
	return add
}

// nameOf is what people know an authority by.
func nameOf(anchor *x509.Certificate) string {
	if s := anchor.Subject.String(); s != "" {
		return s
	}
	return "an authority without a name"
}

// authorityLine is one anchor as list prints it.
type authorityLine struct {
	Domain      identity.Domain `json:"domain"`
	Subject     string          `json:"subject"`
	Fingerprint string          `json:"fingerprint"` // SHA-256 of the certificate
	NotAfter    envelope.Time   `json:"not_after"`
}

func (c TrustConfig) authorityList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the trusted authorities", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			trust, err := c.Open(*c.Dir)
			if err != nil {
				return err
			}
			for _, a := range trust.Authorities() {
				for _, anchor := range a.Anchors {
					l := authorityLine{a.Domain, anchor.Subject.String(), identity.Fingerprint(anchor), envelope.At(anchor.NotAfter)}
					if *c.JSON {
						if err := PrintJSON(cmd.OutOrStdout(), l); err != nil {
							return err
						}
						continue
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s\tuntil %s\t%s\n", l.Domain, nameOf(anchor), l.NotAfter, l.Fingerprint)
				}
			}
			return nil
		}}
}

func (c TrustConfig) authorityRemove() *cobra.Command {
	return &cobra.Command{Use: "remove DOMAIN", Short: "End the trust in the authority of a trust domain", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := identity.ParseDomain(args[0])
			if err != nil {
				return With(Usage, err)
			}
			trust, err := c.Open(*c.Dir)
			if err != nil {
				return err
			}
			err = trust.RemoveAuthority(d)
			if errors.Is(err, identity.ErrUnknownAuthority) {
				return With(Config, err)
			}
			return err
		}}
}
