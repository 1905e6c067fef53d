package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

func newCheckConfig(a *app) *cobra.Command {
	return cli.CheckConfigCommand(&a.dir, &a.json, "Check configuration, keys, certificates, sources, trust, grants, address and disk without changing anything",
		func(u *cli.Checkup) string {
			c, err := loadConfig(a.dir)
			if u.Fault("", err); c == (config{}) {
				return "" // there is no file, or it cannot be read
			}
			now := time.Now()
			l := u.Identity(c.certificate(a.dir), now)
			if l != nil && l.Role() != identity.Publisher {
				u.Fault("identity", fmt.Errorf("%s is an %s, want a publisher", l.Name(), l.Role()))
			}
			u.Fault("proxy_credentials_file", publisher.CheckCredentials(a.dir, c.ProxyCredentials))
			sources := checkSources(u)
			trusted, grants := checkGrants(u, now)
			u.Addresses(socketFile, cli.Address{Key: "admin", Addr: c.Admin})
			u.Disk(c.room())
			if l == nil {
				return ""
			}
			return fmt.Sprintf("%s, %d sources, %d trusted indexers, %d grants", l.Name(), sources, trusted, grants)
		})
}

// checkSources looks at each source by itself, so that one that is wrong hides no
// other.
func checkSources(u *cli.Checkup) int {
	names, err := publisher.SourceNames(u.Dir)
	u.Fault("sources", err)
	for _, name := range names {
		s, err := publisher.ReadSource(u.Dir, name)
		if err == nil {
			err = s.Check(u.Dir)
		}
		u.Fault("", err)
	}
	return len(names)
}

// checkGrants reads trust and grants, and whether they go together.
func checkGrants(u *cli.Checkup, now time.Time) (trusted, granted int) {
	known := func(*publisher.Relationship) bool { return false }
	if _, err := os.Stat(filepath.Join(u.Dir, "trust")); err == nil {
		trust, err := publisher.OpenTrust(u.Dir)
		if err != nil {
			u.Fault("trust", err)
			return 0, 0
		}
		u.Fault("trust", trust.Err())
		trusted = len(trust.List())
		known = func(r *publisher.Relationship) bool { _, ok := trust.Lookup(r.Indexer); return ok }
	}
	rels, err := publisher.Relationships(u.Dir)
	u.Fault("grants", err)
	for _, r := range rels {
		if !known(r) {
			u.Warn("grants: %s is for %s, which is not trusted", r.Series, r.Indexer)
		}
		if !now.Before(r.Pair.Grant.Object.ExpiresAt) {
			u.Warn("grants: %s is over since %s", r.Series, r.Pair.Grant.Object.ExpiresAt.UTC().Format(time.RFC3339))
		}
		if _, err := publisher.ReadSource(u.Dir, r.Collection); err != nil {
			u.Warn("grants: %s is for collection %s: %s", r.Series, r.Collection, err)
		}
	}
	return trusted, len(rels)
}
