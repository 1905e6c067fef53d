package main

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

func newCheckConfig(a *app) *cobra.Command {
	return cli.CheckConfigCommand(&a.dir, &a.json, "Check configuration, keys, certificates, trust, witnesses, addresses and disk without changing anything",
		func(u *cli.Checkup) string {
			c, err := loadConfig(a.dir)
			if u.Fault("", err); c == (config{}) {
				return "" // there is no file, or it cannot be read
			}
			now := time.Now()
			l := u.Identity(c.certificate(a.dir), now)
			if l != nil && l.Role() != identity.Indexer {
				u.Fault("identity", fmt.Errorf("%s is a %s, want an indexer", l.Name(), l.Role()))
			}
			trusted := checkTrust(u)
			c.checkFiles(u)
			u.Addresses(socketFile, cli.Address{Key: "listen", Addr: c.Listen}, cli.Address{Key: "public", Addr: c.Public},
				cli.Address{Key: "admin", Addr: c.Admin}, cli.Address{Key: "feed", Addr: c.Feed}, cli.Address{Key: "gateway", Addr: c.Gateway})
			u.Disk(c.room())
			if frozen, err := indexer.ReadFrozen(a.dir); err != nil {
				u.Fault("log", err)
			} else if frozen != nil {
				u.Warn("log: it is frozen; run --frozen serves it to be read (doc/rotation.md)")
			}
			if l == nil {
				return ""
			}
			return fmt.Sprintf("%s, %d trusted publishers", l.Name(), trusted)
		})
}

// checkTrust reads publishers, authorities and consumers.
func checkTrust(u *cli.Checkup) (publishers int) {
	trust, err := openTrust(u.Dir)
	if err != nil {
		u.Fault("trust", err)
		return 0
	}
	u.Fault("trust", trust.Err())
	for _, p := range trust.List() {
		if len(p.Origins) == 0 {
			u.Warn("trust: no origin is named for %s: it can publish nothing", p.Card.Identity)
		}
		if d := p.Delegated(); d != "" {
			if _, ok := trust.LookupAuthority(d); !ok {
				u.Warn("trust: nobody vouches for connections of %s: its card lists no TLS key, and no authority of %s is trusted", p.Card.Identity, d)
			}
		}
	}
	consumers, err := identity.OpenConsumers(filepath.Join(u.Dir, "consumers"), trust)
	if err == nil {
		_, err = consumers.List()
	}
	u.Fault("consumers", err)
	return len(trust.List())
}

// checkFiles reads the files that the configuration names.
func (c *config) checkFiles(u *cli.Checkup) {
	witnesses, err := c.openWitnesses(u.Dir)
	if witnesses != nil {
		witnesses.Close()
	}
	u.Fault("", err)
	if c.Gateway != "off" && c.GatewayCertificate != "" && c.GatewayKey != "" {
		_, err := tls.LoadX509KeyPair(gatewayFile(u.Dir, c.GatewayCertificate), gatewayFile(u.Dir, c.GatewayKey))
		u.Fault("gateway_certificate", err)
	}
}
