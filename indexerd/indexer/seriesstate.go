package indexer

import (
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// whole refuses a record that lost what every record has: where its streams
// stand would be taken for the beginning, and an old grant for a new one.
func (r *seriesRecord) whole() error {
	if r.SID == 0 || r.Publisher == "" || r.Series == "" || r.Grant.ID.IsZero() || r.Policy.ID.IsZero() {
		return fmt.Errorf("%w: the record of series %q of %s is not whole; put the newest backup of the store back (doc/backup.md)",
			envelope.ErrState, r.Series, r.Publisher)
	}
	return nil
}

// neverHeld refuses to begin a series anew with a grant that is held: its record
// is lost, and with it where its streams stand.
func neverHeld(r durable.Reader, g *grants.Grant) error {
	_, err := r.Get(objectKey(g.Object.ID))
	if errors.Is(err, durable.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the record of series %q of %s is missing, and its grant %s is held; put the newest backup of the store back (doc/backup.md)",
		envelope.ErrState, g.Body.Series, g.Body.Issuer, g.Object.ID)
}
