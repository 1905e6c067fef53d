package publisher

import (
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// alertDays are the days before the end of a grant at which an alert is logged;
// those that are not shorter than the grant's life are passed over.
var alertDays = [...]int{14, 7, 1, 0}

// An alerted row is the last alert about a grant: each comes once, whatever is
// restarted (TestEachAlertComesOnce).
type alerted struct {
	GrantID envelope.Hash `json:"grant_id"`
	Days    int           `json:"days"`
}

func alertKey(series string) []byte { return rowKey('A', series, 'x') }

// dueAlert is the most urgent alert whose time has come; ok is false if none has.
func (r *Relationship) dueAlert(now time.Time) (days int, ok bool) {
	if r.Revoked() {
		return 0, false
	}
	for _, d := range alertDays {
		if before := time.Duration(d) * 24 * time.Hour; before < r.life() && !now.Before(r.Pair.ExpiresAt().Add(-before)) {
			days, ok = d, true
		}
	}
	return days, ok
}

// alert logs what is due of a series and was not logged before.
func (p *Publisher) alert(r *Relationship, now time.Time) error {
	days, ok := r.dueAlert(now)
	if !ok {
		return nil
	}
	id := r.Pair.Grant.Object.ID
	var last alerted
	known, err := durable.ReadJSON(p.store, alertKey(r.Series), &last)
	if err != nil || known && last.GrantID == id && last.Days <= days {
		return err
	}
	// Durable first: an alert may be lost in a crash, and is not repeated.
	b := p.store.NewBatch()
	defer b.Close()
	if err := durable.WriteJSON(b, alertKey(r.Series), alerted{id, days}); err != nil {
		return err
	}
	if err := b.Commit(); err != nil {
		return err
	}
	say, text := p.log.Warn, "grant expires soon"
	switch at, renews := r.renewsAt(); {
	case days == 0:
		say, text = p.log.Error, "grant expired"
	case renews && now.Before(at):
		say = p.log.Info
	}
	say(text, "series", r.Series, "indexer", r.Indexer, "collection", r.Collection, "expires_at", envelope.At(r.Pair.ExpiresAt()), "state", r.Expiry(now))
	return nil
}

// keepGrants renews what is to be renewed by itself and logs what is about to
// end. It returns how long there is nothing more of that to do, at most most.
func (p *Publisher) keepGrants(most time.Duration) (time.Duration, error) {
	rels, err := Relationships(p.dir)
	if err != nil {
		return most, err
	}
	now := p.now()
	next := now.Add(most)
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	var first error
	for _, r := range rels {
		renewed, err := p.renewIfDue(r, now)
		if !renewed {
			err = errors.Join(err, p.alert(r, now))
		}
		if err != nil && first == nil {
			first = fmt.Errorf("grant %s: %w", r.Series, err)
		}
		for _, d := range alertDays {
			sooner(r.Pair.ExpiresAt().AddDate(0, 0, -d))
		}
		if at, ok := r.renewsAt(); ok {
			sooner(at)
		}
	}
	return max(next.Sub(now), time.Second), first
}

// Alert reports whether somebody should look after the grant: it has expired, or
// will soon, and nothing is to renew it before; or its renewal by itself stopped.
func (r *Relationship) Alert(now time.Time) bool {
	if r.Renewal != nil && r.Renewal.Stopped != "" && !r.Revoked() {
		return true
	}
	days, due := r.dueAlert(now)
	at, renews := r.renewsAt()
	return due && (days == 0 || !renews || !now.Before(at))
}

// Expiry says to a person when the grant ends, and what happens before.
func (r *Relationship) Expiry(now time.Time) string {
	end := r.Pair.ExpiresAt()
	switch {
	case r.Revoked():
		return "is revoked"
	case !now.Before(end):
		return "expired " + about(now.Sub(end)) + " ago; renew it with grant renew"
	}
	said := "expires in " + about(end.Sub(now))
	at, renews := r.renewsAt()
	switch w := r.Renewal; {
	case w == nil:
		return said + "; nothing renews it by itself"
	case w.Stopped != "":
		return said + "; it does not renew itself any more: " + w.Stopped
	case !renews || !now.Before(w.Until.Time):
		return said + "; it renews itself no more, since that was to end at " + w.Until.String()
	default:
		return fmt.Sprintf("%s; the daemon renews it at %s, and goes on until %s", said, envelope.At(at), w.Until)
	}
}

// about is a duration in its greatest unit, rounded down.
func about(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		switch n := d / u.size; {
		case n == 1:
			return "1 " + u.name
		case n > 1:
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return "less than a second"
}
