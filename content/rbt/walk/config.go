package walk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/gitroot"
)

// Limits bound a walk. Zero stands for the default; the first five are those
// that 15.3 recommends.
type Limits struct {
	Depth     int           // of documents below the manifest (100)
	Entries   int           // in all (1,000,000)
	Request   time.Duration // for one answer's header, and again for its body (30 s)
	Documents int           // that are read (100,000)
	Resource  int64         // octets of one entry (100 MiB)
	Octets    int64         // of all entries together (10 GiB)
	Time      time.Duration // from Items to its end (6 h)
}

func (l *Limits) complete() error {
	if l.Depth < 0 || l.Entries < 0 || l.Documents < 0 || l.Resource < 0 || l.Octets < 0 || l.Request < 0 || l.Time < 0 {
		return errors.New("a limit is negative")
	}
	setDefault(&l.Depth, 100)
	setDefault(&l.Entries, 1_000_000)
	setDefault(&l.Documents, 100_000)
	setDefault(&l.Resource, 100<<20)
	setDefault(&l.Octets, 10<<30)
	setDefault(&l.Request, 30*time.Second)
	setDefault(&l.Time, 6*time.Hour)
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Preference is in which order roots are tried (5.3). Roots of one kind are
// tried as they are listed.
type Preference uint8

// The preferences.
const (
	GitFirst Preference = iota
	HTTPSFirst
	AsListed
)

// A Start says where to find a burrow: exactly one of Roots, URL and Local.
type Start struct {
	// Roots are as a registry or an operator names them.
	Roots []rbt.Root
	// URL is that of a manifest, of the folder that holds it, which ends with a
	// slash, or of an origin, whose well-known document may lead on (4.2).
	URL string
	// Local is a repository of this machine.
	Local *Local

	// RID is the one that the manifest must have; zero: any. With it, the
	// manifest itself may come from Mirrors.
	RID     rbt.RID
	Mirrors []rbt.Root
}

// Local is a folder of a repository of this machine, at a ref.
type Local struct {
	Dir  string
	Ref  rbt.Ref // gitroot.Head for HEAD
	Path string  // as rbt.ParsePath returns it; empty stands for "."
}

// Config is what a walk is made from.
type Config struct {
	Start Start

	// Client is for HTTPS roots; see Polite. Git is for Git roots; without it,
	// these are passed over.
	Client *fetch.Client
	Git    *gitroot.Client
	// State is a folder of its own, for repositories and manifests. It is a
	// cache. Without it, nothing is kept, and no Git root but a local one read.
	State string

	Options rbt.Options
	Limits  Limits

	Prefer     Preference
	DepthFirst bool

	// KeepIgnored visits as well what agents.ignore says may be passed over.
	KeepIgnored bool
	// Product is the name that robots.txt calls us by; IgnoreRobots passes it
	// over, for sites of our own operator.
	Product      string
	IgnoreRobots bool
	// OnlyHosts, if there are any, are those that are asked, and NoHosts those
	// that are not: by name, which stands for all names below it as well.
	OnlyHosts, NoHosts []string

	// Known reports whether the caller holds the octets of a SHA-256. They are
	// then not asked for again, wherever they are listed (8.5.2). Nil: none.
	Known func(sum [32]byte) bool
	// Wants reports whether the caller wants the octets of an entry. Nil: of all.
	Wants func(e *rbt.Entry) bool

	Log   *slog.Logger // nil: nothing is logged
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Polite bounds the manners of a client to what 8.6 and 15.3 ask for: ten
// requests at once and 100 ms between them, for each host, and 30 s.
func Polite(c fetch.Config) fetch.Config {
	if c.Rate == 0 || c.Rate > 10 {
		c.Rate = 10
	}
	if c.Concurrency == 0 || c.Concurrency > 10 {
		c.Concurrency = 10
	}
	if c.Retries == 0 {
		c.Retries = 3
	}
	setDefault(&c.HopTimeout, 30*time.Second)
	setDefault(&c.StallTimeout, 30*time.Second)
	return c
}

func (c *Config) complete() error {
	if err := c.Limits.complete(); err != nil {
		return err
	}
	ways := 0
	for _, is := range []bool{len(c.Start.Roots) > 0, c.Start.URL != "", c.Start.Local != nil} {
		if is {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("a walk starts at roots, at a URL or at a local repository: at one of these")
	case c.Start.URL != "" && c.Client == nil:
		return errors.New("a walk that starts at a URL needs a client")
	case c.Prefer > AsListed:
		return fmt.Errorf("preference %d is none", c.Prefer)
	}
	setDefault(&c.Product, "uzpif-oi")
	if c.Known == nil {
		c.Known = func([32]byte) bool { return false }
	}
	if c.Wants == nil {
		c.Wants = func(*rbt.Entry) bool { return true }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
