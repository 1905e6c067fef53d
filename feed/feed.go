package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// An Op is what an Item asks for.
type Op string

// The ops.
const (
	Put    Op = "put"    // keep the page, under its terms
	Delete Op = "delete" // drop the page
	Stop   Op = "stop"   // drop every page of the series
	Reset  Op = "reset"  // drop everything of the purpose
	Head   Op = "head"   // all is told that there is at this moment
)

// An Item is one change. Applying it again changes nothing.
type Item struct {
	Op Op
	// Cursor is to be kept with the effect of the item, not before it. It is empty
	// on what is told ahead of its turn: the cursor from before stays.
	Cursor []byte
	// Publisher and Series are those of a put, delete or stop; URLHash is the
	// SHA-256 of the URL of a put or delete. The three together name a page.
	Publisher, Series string
	URLHash           [32]byte
	// Reason is why something is dropped: "revoked", "expired", "retention", …
	Reason string
	Page   *Page     // of a put
	Time   time.Time // of a head, by the indexer's clock
}

// A Page is a page with what goes with it.
type Page struct {
	URL, Collection string
	Format          uint8 // 1 site, 2 TCT, 3 SCP, …, as the publisher says
	Digest          [32]byte
	Modified        time.Time // zero: unknown
	Terms           Terms
	Evidence        Evidence
	Payload         []byte
}

// Terms bind whoever keeps the page (UZPIF-OI 11.1).
type Terms struct {
	Purposes                                   []string
	AttributionRequired, LinkBack              bool
	Attribution                                string // to be shown; empty: the publisher's name
	Snippets, Summary, Embeddings, Derivatives bool   // which derivatives are permitted; the last is any other
	Redistribution                             bool
	TermsURL                                   string
	// CopyUntil and FeaturesUntil are when copies, and what was extracted, have to be
	// gone; ExpiresAt is when all use ends unless a later item says otherwise. The
	// feed tells of it within seconds; whoever is cut off has to look by himself.
	CopyUntil, FeaturesUntil, ExpiresAt time.Time
}

// Evidence is where the indexer's log says that the page was taken in.
type Evidence struct {
	LogOrigin              string
	Entry                  uint64
	EntryID                [32]byte
	Place                  uint32
	Manifest               [32]byte // the publisher's signed batch manifest
	GrantID, PolicyHash    [32]byte
	JournalEpoch, Revision uint64
}

// A Handler keeps what the feed tells.
type Handler interface {
	// Cursor is that of the last item whose effect is durable; empty for none.
	Cursor(ctx context.Context) ([]byte, error)
	// Apply applies one item. It may put off what it makes durable until the next
	// Head, on which everything before it must be durable when Apply returns.
	Apply(ctx context.Context, it *Item) error
}

// Config says what is read.
type Config struct {
	// Dir holds the consumer's identity and its trust.
	Dir string
	// Indexer is the SPIFFE ID of the indexer, Addr where its feed is, host:port.
	Indexer, Addr string
	Purpose       string
	// MaxPayload is the largest payload that is taken, in octets; 0 means 128 MiB.
	MaxPayload uint64
	// Silence is how long nothing may come before the connection is given up; 0
	// means 42 s. The indexer says something every 10 s.
	Silence time.Duration
	// Log receives a line for each interruption; nil discards.
	Log *slog.Logger
}

// A Refused error ends Run: the indexer's operator lets this identity read no more
// for the purpose, or never did.
type Refused struct{ Reason, Detail string }

func (r *Refused) Error() string {
	return fmt.Sprintf("the indexer refuses the feed (%s): %s", r.Reason, r.Detail)
}

// Backoff between two connections.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 30 * time.Second
)

// nowhere is a cursor that no indexer gives. Who has dropped everything and may read
// again one day has to begin anew, and not behind what it dropped.
var nowhere = []byte{0}

// errHandler marks what the handler could not do.
type errHandler struct{ error }

func (e errHandler) Unwrap() error { return e.error }

// Run reads until ctx ends (nil), the handler fails (its error), or the indexer
// refuses (*Refused, behind a Reset). Whatever else goes wrong is tried again, later
// each time, from the handler's cursor.
func Run(ctx context.Context, c Config, h Handler) error {
	r, err := open(c)
	if err != nil {
		return err
	}
	defer r.close()
	pause, fresh := firstPause, false
	for ctx.Err() == nil {
		before := r.items
		err := r.stream(ctx, h, fresh)
		fresh = false
		var refused *Refused
		var failed errHandler
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &failed):
			return failed.error
		case errors.As(err, &refused) && refused.Reason == "cursor":
			fresh = true
		case errors.As(err, &refused):
			if err := h.Apply(ctx, &Item{Op: Reset, Reason: refused.Reason, Cursor: nowhere}); err != nil {
				return err
			}
			return refused
		}
		if r.items > before+1 { // more than a Reset or Head came
			pause = firstPause
		}
		r.log.Info("feed interrupted", "indexer", c.Indexer, "purpose", c.Purpose, "again_in", pause, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
		pause = min(2*pause, longestPause)
	}
	return nil
}

// Create makes the identity of a consumer in dir, and returns its card: give it to
// the indexer's operator.
func Create(dir, name string) (card []byte, err error) {
	id, err := identity.ParseName(name)
	if err != nil {
		return nil, err
	}
	local, err := identity.Create(dir, identity.Options{Identity: id, Role: identity.Reader, Now: time.Now()})
	if err != nil {
		return nil, err
	}
	return local.Card.Object.Raw, nil
}

// Trust trusts the card of an indexer, and returns its name. Compare fingerprints
// with its operator first.
func Trust(dir string, card []byte) (name string, err error) {
	t, err := identity.OpenTrust(filepath.Join(dir, "trust"), identity.TrustOptions{})
	if err != nil {
		return "", err
	}
	p, err := t.Add(card, identity.AddOptions{Now: time.Now()})
	if err != nil {
		return "", err
	}
	if p.Card.Role != identity.Indexer {
		return "", errors.Join(fmt.Errorf("%s is no indexer", p.Card.Identity), t.Remove(p.Card.Identity))
	}
	return string(p.Card.Identity), nil
}

// trusted opens both sides of a connection.
func trusted(c Config) (*identity.Local, *identity.Trust, envelope.Name, error) {
	name, err := identity.ParseName(c.Indexer)
	if err != nil {
		return nil, nil, "", err
	}
	local, err := identity.Load(c.Dir, time.Now())
	if err != nil {
		return nil, nil, "", err
	}
	if _, err := local.Renew(time.Now(), nil); err != nil {
		return nil, nil, "", fmt.Errorf("certificate: %w", err)
	}
	trust, err := identity.OpenTrust(filepath.Join(c.Dir, "trust"), identity.TrustOptions{})
	return local, trust, name, err
}
