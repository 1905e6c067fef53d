package indexer

import (
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// ChangeKeys replaces keys of the indexer in dir, see identity.ChangeKeys. It
// holds the store's lock meanwhile: a daemon signs with the keys that it began
// with, and so has to be stopped first (durable.ErrLocked). The log goes on: its
// own key stays, and its entries are signed under the new epoch from then on.
func ChangeKeys(dir string, o identity.KeyOptions) (_ *identity.Local, err error) {
	store, err := Config{Dir: dir}.withDefaults().openStore()
	if err != nil {
		return nil, fmt.Errorf("change keys in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return identity.ChangeKeys(dir, o)
}
