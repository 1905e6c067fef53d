package gitroot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// Limits bound what a repository may make us hold. Zero stands for the default.
type Limits struct {
	// Pack is the greatest size of one fetch, in octets as they come (1 GiB),
	// and State that of the folder, beyond which it is begun anew (4 GiB).
	Pack, State int64
	// Objects is how many objects one fetch may bring (1,000,000).
	Objects int
	// Object is the greatest size of an object, in octets (100 MiB), and
	// Inflated of all objects of a fetch together (8 GiB).
	Object, Inflated int64
	// Files is how many files and folders a tree may hold (1,000,000), and
	// Depth how deep they may lie (100).
	Files, Depth int
	// Time is how long one fetch may take, from dial to disk (10 min).
	Time time.Duration
}

func (l *Limits) complete() error {
	if l.Pack < 0 || l.State < 0 || l.Objects < 0 || l.Object < 0 || l.Inflated < 0 || l.Files < 0 || l.Depth < 0 || l.Time < 0 {
		return errors.New("a limit is negative")
	}
	setDefault(&l.Pack, 1<<30)
	setDefault(&l.State, 4<<30)
	setDefault(&l.Objects, 1_000_000)
	setDefault(&l.Object, 100<<20)
	setDefault(&l.Inflated, 8<<30)
	setDefault(&l.Files, 1_000_000)
	setDefault(&l.Depth, 100)
	setDefault(&l.Time, 10*time.Minute)
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Config is what a client is made from.
type Config struct {
	// Fetch is for https: the user agent, allowed origins, credentials (a
	// token goes as Basic with any user name), authorities. Its Resolver and
	// its StallTimeout hold for ssh too. HopTimeout and StallTimeout are 2 min
	// here if they are zero: a server counts and packs in silence, and what is
	// in front of it may hold back its signs of life. MaxBody and Timeout are
	// taken from Limits.
	Fetch fetch.Config

	SSH    SSH
	Limits Limits
}

// SSH is how the client shows itself to SSH servers, and they to it.
type SSH struct {
	// KeyFile holds the private key, readable by its owner alone; empty: there
	// is none, and only servers that ask for none let us in. If it is encrypted,
	// the first line of PassphraseFile, which has to be as private, opens it.
	KeyFile        string
	PassphraseFile string

	// KnownHosts is a file as of ssh. A server that is not in it is refused.
	// With AcceptUnknown it is accepted, at the risk of talking to another; one
	// whose key has changed is refused all the same.
	KnownHosts    string
	AcceptUnknown bool

	// Allowed are the servers, as ssh://host:port, that may lie at any address.
	// It is the operator's own list.
	Allowed []string
}

// A Client fetches repositories. It may be used by several goroutines.
type Client struct {
	limits  Limits
	ssh     SSH
	allowed map[string]bool // origins that may lie anywhere, of http and ssh
	web     *fetch.Client
	stall   time.Duration
}

// patience is how long a server may be silent: while it makes a pack of a large
// repository, nothing may come for more than the 15 s that a page is given.
const patience = 2 * time.Minute

// New makes a client.
func New(c Config) (*Client, error) {
	if err := c.Limits.complete(); err != nil {
		return nil, err
	}
	allowed := make(map[string]bool)
	for _, origin := range slices.Concat(c.SSH.Allowed, c.Fetch.Allowed) {
		allowed[origin] = true
	}
	for _, origin := range c.SSH.Allowed {
		if r, err := rbt.ParseRemote(origin+"/x", rbt.Options{}); err != nil || Origin(r) != origin || r.Scheme != "ssh" {
			return nil, fmt.Errorf("allowed server %.200q: write it as ssh://host:port", origin)
		}
	}
	c.Fetch.MaxBody, c.Fetch.Timeout = c.Limits.Pack+maxAdvertisement, c.Limits.Time
	c.Fetch.Allowed, c.Fetch.Credentials = slices.Clone(c.Fetch.Allowed), maps.Clone(c.Fetch.Credentials)
	setDefault(&c.Fetch.HopTimeout, patience)
	setDefault(&c.Fetch.StallTimeout, patience)
	web, err := fetch.New(c.Fetch)
	if err != nil {
		return nil, err
	}
	return &Client{limits: c.Limits, ssh: c.SSH, allowed: allowed, web: web, stall: c.Fetch.StallTimeout}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.web.Close() }
