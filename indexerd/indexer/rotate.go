package indexer

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// RotateOptions says in what log an indexer goes on.
type RotateOptions struct {
	Origin string // never used before
	// LogURL is where others reach the new log. Empty: below the address of the
	// first log, where the public side serves it by itself (see Public).
	LogURL string
}

// A Rotated is what became of a rotation.
type Rotated struct {
	Origin      string             `json:"origin"`
	VKey        string             `json:"vkey"`
	URL         string             `json:"url"`
	Continues   translog.Continues `json:"continues"`
	Fingerprint string             `json:"fingerprint"` // of the new card
}

// ErrRotation is returned when a log cannot go on in the one that was named.
var ErrRotation = errors.New("the log is not rotated")

// Rotate ends the log of the indexer in c.Dir and begins the next one, whose key
// is drawn here. No Indexer may be open: sessions, receipts and checkpoints name
// the log, and to change it under them would take a second way of starting, for
// what happens once in years. The steps, each durable before the next:
//
//	rotation/      the new card and the new log key are put aside
//	the store      see translog.Rotate: from here on the old log has ended
//	cards/         the old card is kept
//	keys/, card    the new key takes the place of the old one, then the card
//
// A rotation that was cut short is finished by the next Open, or by Rotate.
func Rotate(c Config, o RotateOptions) (Rotated, error) {
	c = c.withDefaults()
	pending, err := identity.PendingRotation(c.Dir)
	switch {
	case err != nil:
		return Rotated{}, err
	case pending != nil && pending.Card.Log.Origin != o.Origin:
		return Rotated{}, fmt.Errorf("%w: a rotation to %s was begun and not finished; finish it first, with that origin", ErrRotation, pending.Card.Log.Origin)
	}
	store, err := c.openStore()
	if err != nil {
		return Rotated{}, err
	}
	defer store.Close()
	begun := pending == nil
	if begun {
		if pending, err = begin(c, o); err != nil {
			return Rotated{}, err
		}
	}
	end, err := finish(c, store, pending)
	if err != nil {
		if begun && store.Err() == nil && !holds(store, pending.Card.Log.VKey) {
			err = errors.Join(err, pending.Abandon()) // refused: nothing has come of it
		}
		return Rotated{}, err
	}
	log := pending.Card.Log
	return Rotated{Origin: log.Origin, VKey: log.VKey, URL: log.URL, Continues: end, Fingerprint: pending.Card.Fingerprint()}, nil
}

// begin puts card and key of the new log aside.
func begin(c Config, o RotateOptions) (*identity.Rotation, error) {
	local, err := identity.Load(c.Dir, c.Now())
	if err != nil {
		return nil, err
	}
	past, err := local.PastCards()
	if err != nil {
		return nil, err
	}
	first := local.Card
	for _, c := range append([]*identity.Card{local.Card}, past...) {
		if first = c; c.Log.Origin == o.Origin {
			return nil, fmt.Errorf("%w: the origin %s was used before; a new log has a new origin", ErrRotation, o.Origin)
		}
	}
	return local.BeginRotation(c.Dir, identity.RotationOptions{
		Origin: o.Origin, Now: c.Now(),
		URL: func(vkey string) string {
			if o.LogURL != "" {
				return o.LogURL
			}
			return strings.TrimRight(first.Log.URL, "/") + logPath(vkey)
		},
	})
}

// finish makes the steps that follow, or those of them that are left.
func finish(c Config, store *durable.Store, r *identity.Rotation) (translog.Continues, error) {
	frozen, err := ReadFrozen(c.Dir)
	if err != nil {
		return translog.Continues{}, err
	}
	old := translog.Config{Store: store, Dir: c.Dir, Now: c.Now}
	// With the new key in its place and the old card still there nothing loads,
	// and nothing is needed: the store is past its step.
	if local, err := identity.Load(c.Dir, c.Now()); err == nil {
		old = logConfig(c, store, local)
	}
	old.ReadOnly, old.Logger = frozen != nil, c.Log
	end, err := translog.Rotate(old, translog.Successor{Origin: r.Card.Log.Origin, NoteKey: r.LogKey})
	if err != nil {
		return end, err
	}
	// What froze the old log says nothing against the new one.
	for _, name := range []string{frozenNote, frozenWord} {
		kept := filepath.Join(c.Dir, shortHash(end.Origin)+"-"+name)
		if err := os.Rename(filepath.Join(c.Dir, name), kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return end, err
		}
	}
	return end, r.Install()
}

// holds reports whether the store has begun the log of vkey, or may have.
func holds(store *durable.Store, vkey string) bool {
	all, err := translog.Identities(store)
	return err != nil || slices.ContainsFunc(all, func(id translog.Identity) bool { return id.VKey == vkey })
}

// resumeRotation finishes a rotation that was cut short.
func resumeRotation(c Config) (err error) {
	r, err := identity.PendingRotation(c.Dir)
	if err != nil || r == nil {
		return err
	}
	store, err := c.openStore()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	end, err := finish(c, store, r)
	if err != nil {
		return fmt.Errorf("finish the rotation to %s: %w", r.Card.Log.Origin, err)
	}
	c.Log.Warn("a rotation that was cut short is finished", "from", end.Origin, "to", r.Card.Log.Origin)
	return nil
}

// logConfig is that of the log that the card of local names.
func logConfig(c Config, store *durable.Store, local *identity.Local) translog.Config {
	return translog.Config{
		Store: store, Dir: c.Dir, Origin: local.Card.Log.Origin,
		Indexer: local.Name(), Authority: local.Name().Authority(), Epoch: local.Epoch(envelope.UseEnvelope),
		Signer: local.Envelope, NoteKey: local.LogKey, Now: c.Now, Publish: c.Publish,
		Witnesses: c.Witnesses, FailClosed: c.FailClosed, TrustStore: c.TrustStore,
	}
}

// openStore opens the store of the indexer in c.Dir.
func (c Config) openStore() (*durable.Store, error) {
	return durable.Open(filepath.Join(c.Dir, "store"), durable.Options{Logger: c.Log, Room: c.Room, Stall: c.Stall, FS: c.FS})
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if c.Publish == 0 {
		c.Publish = time.Second
	}
	c.Requests = c.Requests.withDefaults()
	return c
}
