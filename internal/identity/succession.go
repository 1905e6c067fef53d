package identity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// ErrByHand: a card that may take the place of another one only if the operator
// says its fingerprint, since the card before it does not vouch for it: no key of
// that one has signed it, or it says that a key is in other hands, and then the
// thief may have all of them.
var ErrByHand = errors.New("to be taken by its fingerprint only")

// Supersede decides whether c may take the place of old, a trusted card of
// the same identity. It reports whether c is newer; the same card again is
// not, and no error. A newer card has a higher (epoch, sequence), is signed
// by the key with which old says that its successor is signed as well as by its
// own, keeps the role, gives no key another use and no log another key, and
// opens no record that had ended. An older card is envelope.ErrStale, and another
// one at the same position envelope.ErrEquivocates. ErrByHand comes last: all
// else is in order.
func (c *Card) Supersede(old *Card) (newer bool, err error) {
	if c.Identity != old.Identity {
		return false, fmt.Errorf("a card of %s cannot supersede one of %s", c.Identity, old.Identity)
	}
	newer, err = old.Object.Position().Advance(c.Object.Position())
	if err != nil || !newer {
		return false, err
	}
	if c.Role != old.Role {
		return false, fmt.Errorf("card of %s: %w: %s before, %s now", c.Identity, ErrRole, old.Role, c.Role)
	}
	if c.Log != nil && c.Log.Origin == old.Log.Origin && c.Log.VKey != old.Log.VKey {
		return false, fmt.Errorf("card of %s: the log %s changed its key; a new key needs a new origin", c.Identity, c.Log.Origin)
	}
	if err := c.keepsRecords(old); err != nil {
		return false, fmt.Errorf("card of %s: %w", c.Identity, err)
	}
	v := envelope.Verifier{Keys: old.Vouching(), Type: envelope.IdentityCard, Threshold: 1}
	_, err = envelope.Authenticate(c.Object.Raw, new(Card), v)
	switch {
	case errors.Is(err, envelope.ErrThreshold):
		return false, fmt.Errorf("card of %s by the keys of the card before it: %w: %w", c.Identity, ErrByHand, err)
	case err != nil:
		return false, fmt.Errorf("card of %s by the keys of the card before it: %w", c.Identity, err)
	}
	for _, k := range c.Keys {
		if before, ok := old.key(k.PublicKey); k.Lost && (!ok || !before.Lost) {
			return false, fmt.Errorf("card of %s: %w: it says that its %s key %s may be in other hands", c.Identity, ErrByHand, k.Use, k.PublicKey.ID())
		}
	}
	return true, nil
}

// key finds what the card says of a public key.
func (c *Card) key(public envelope.PublicKey) (Key, bool) {
	for _, k := range c.Keys {
		if k.PublicKey == public {
			return k, true
		}
	}
	return Key{}, false
}

// keepsRecords refuses a card that says of a key what contradicts old: another
// use or beginning, a later end, or that it was never lost. A new key that signs
// objects begins at an epoch that old has not seen, so that an epoch names one
// key.
func (c *Card) keepsRecords(old *Card) error {
	for _, k := range c.Keys {
		before, ok := old.key(k.PublicKey)
		id, end := k.PublicKey.ID(), before.Validity.NotAfter
		switch {
		case !ok && (k.Use == envelope.UseEnvelope || k.Use == envelope.UseCard) && k.Epochs.First <= old.Object.Epoch:
			return fmt.Errorf("the new %s key %s begins at epoch %d, which has another key already", k.Use, id, k.Epochs.First)
		case !ok:
		case before.Use != k.Use:
			return fmt.Errorf("key %s was for %s and is now for %s", id, before.Use, k.Use)
		case before.Epochs.First != k.Epochs.First, before.Epochs.Last != 0 && before.Epochs.Last != k.Epochs.Last,
			!end.IsZero() && (k.Validity.NotAfter.IsZero() || k.Validity.NotAfter.After(end.Time)), before.Lost && !k.Lost:
			return fmt.Errorf("the record of key %s, which had an end, is changed", id)
		}
	}
	return nil
}

// Vouching is the keys by which a card's successor is signed: its card key, or
// its envelope key where it has no card key. So whoever steals the envelope key
// of an identity that keeps its card key elsewhere cannot replace its card. An
// epoch is what the successor begins, so a key without an end has none here.
func (c *Card) Vouching() envelope.KeySource { return vouching{c} }

type vouching struct{ card *Card }

func (v vouching) LookupKey(id envelope.Hash) (envelope.KeyRecord, bool) {
	r, ok := v.card.LookupKey(id)
	if !ok || r.Lost || (v.card.has(envelope.UseCard) && r.Use != envelope.UseCard) {
		return envelope.KeyRecord{}, false
	}
	if k, _ := v.card.key(r.Key); k.Epochs.Last == 0 {
		r.LastEpoch = 0
	}
	return r, true
}

// Confirms reports whether an operator's words are the card's Fingerprint, in
// whatever groups he typed it.
func (c *Card) Confirms(words string) bool {
	return strings.Join(strings.Fields(words), "") == strings.ReplaceAll(c.Fingerprint(), " ", "")
}

// Changes says in words, a sentence each, what c changes of the card that it
// takes the place of.
func (c *Card) Changes(old *Card) []string {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	for _, k := range c.Keys {
		before, ok := old.key(k.PublicKey)
		id := k.PublicKey.ID()
		switch {
		case k.Lost && !before.Lost:
			say("LOST: the %s key %s may be in other hands. Nothing new by it is accepted from now on. What is held here and was signed by it still verifies, but who has the key can set its time back.", k.Use, id)
		case !ok && k.Use == envelope.UseTLS:
			say("The tls key %s is new; it is shown from %s on.", id, k.Validity.NotBefore)
		case !ok:
			say("The %s key %s is new; it signs from epoch %d on.", k.Use, id, k.Epochs.First)
		case k.Use == envelope.UseTLS && k.Validity.NotAfter != before.Validity.NotAfter:
			say("The tls key %s ends at %s.", id, k.Validity.NotAfter)
		case k.Epochs.Last != before.Epochs.Last:
			say("The %s key %s ended with epoch %d; what it signed still verifies.", k.Use, id, k.Epochs.Last)
		}
	}
	for _, k := range old.Keys {
		if _, ok := c.key(k.PublicKey); !ok {
			say("The %s key %s is not listed any more.", k.Use, k.PublicKey.ID())
		}
	}
	if c.Log != nil && *c.Log != *old.Log {
		say("The log is %s at %s, and was %s at %s.", c.Log.Origin, c.Log.URL, old.Log.Origin, old.Log.URL)
	}
	if c.Endpoint != old.Endpoint {
		say("It is reached at %s, and was at %s.", c.Endpoint, old.Endpoint)
	}
	return said
}
