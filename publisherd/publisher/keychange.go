package publisher

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// ChangeKeys replaces keys of the publisher in dir, see identity.ChangeKeys. It
// holds the store's lock meanwhile: a daemon signs with the keys that it began
// with, and so has to be stopped first (durable.ErrLocked).
func ChangeKeys(dir string, o identity.KeyOptions) (_ *identity.Local, err error) {
	store, err := durable.Open(filepath.Join(dir, "store"), durable.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("change keys in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return identity.ChangeKeys(dir, o)
}

// keysFor are the keys that may have signed an answer. What is first asked in
// this session, at sent, is signed by a key that is not lost. What was asked
// before may have been answered then, and its times are compared with those of
// the question.
func (p *Publisher) keysFor(sent time.Time) envelope.KeySource {
	if sent.IsZero() {
		return p.trust.Known()
	}
	return p.trust
}
