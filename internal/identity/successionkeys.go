package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// MaxOverlap bounds how long a TLS key may wait for its turn.
const MaxOverlap = 90 * 24 * time.Hour

// graceTLS is for how long the old TLS key still counts after the new one is
// shown: the daemon looks every hour whether to change over.
const graceTLS = 24 * time.Hour

// ErrKeyChange: the keys cannot be changed as asked, and nothing was.
var ErrKeyChange = errors.New("the keys are not changed")

// KeyOptions says which keys of an identity are to be replaced.
type KeyOptions struct {
	// Uses are one or more of envelope, tls and card. A log keeps its key.
	Uses []envelope.Use
	// Lost says that the keys are gone or may be in other hands: they sign
	// nothing more, not even the card that replaces them.
	Lost bool
	// Overlap is how long peers have to take the new card before the new TLS key
	// is shown; at most MaxOverlap. The other keys change at once: nothing that
	// they sign is verified before the card that lists them is there.
	Overlap time.Duration
	Now     time.Time
	Rand    io.Reader // nil: crypto/rand
}

func (o *KeyOptions) check() error {
	if len(o.Uses) == 0 {
		return errors.New("no key is named")
	}
	for i, use := range o.Uses {
		switch {
		case use == envelope.UseLog:
			return errors.New("a log keeps its key for life; end it with log rotate")
		case use != envelope.UseEnvelope && use != envelope.UseTLS && use != envelope.UseCard:
			return fmt.Errorf("use %.20q, want envelope, tls or card", string(use))
		case slices.Contains(o.Uses[:i], use):
			return fmt.Errorf("the %s key is named twice", use)
		}
	}
	if o.Overlap < 0 || o.Overlap > MaxOverlap {
		return fmt.Errorf("an overlap of %s, at most %s", o.Overlap, MaxOverlap)
	}
	return nil
}

// ChangeKeys replaces keys of the identity in dir and signs the card that says
// so. Nobody else may use the identity: a daemon would go on with the old keys.
// It returns what is in force then. Each step is durable before the next:
//
//	succession/   new keys, certificate and card, made whole and renamed
//	cards/        the old card is kept
//	keys/         each new key takes the place of the old one, then the certificate
//	the card      last
//
// From the first step on the change is decided: one that was cut short is
// finished by the next Load. An indexer that has no card key gets one when that
// is named. What cannot be done is ErrKeyChange.
func ChangeKeys(dir string, o KeyOptions) (*Local, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyChange, err)
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	unlock, err := lockIdentity(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if r, err := PendingRotation(dir); r != nil || err != nil {
		return nil, errors.Join(err, fmt.Errorf("%w: a rotation of the log is not finished; start the daemon once, which finishes it", ErrKeyChange))
	}
	var without []envelope.Use
	if o.Lost {
		without = o.Uses // their files may be gone
	}
	l, err := load(dir, o.Now, without)
	if err != nil {
		return nil, err
	}
	s, err := l.succeed(o)
	if err != nil {
		return nil, fmt.Errorf("%w: new card of %s: %w", ErrKeyChange, l.Name(), err)
	}
	if err := s.write(dir); err != nil {
		return nil, err
	}
	if err := installSuccession(dir); err != nil {
		return nil, err
	}
	return load(dir, o.Now, nil)
}

// A succession is what ChangeKeys puts in the place of what was.
type succession struct {
	card *envelope.Object
	keys map[string]ed25519.PrivateKey // by file name
	// certificate is of the new TLS key, PEM; certificateFile its name.
	certificate     []byte
	certificateFile string
}

// succeed draws the new keys and signs the card that lists them.
func (l *Local) succeed(o KeyOptions) (*succession, error) {
	old := l.Card
	tls := slices.Contains(o.Uses, envelope.UseTLS)
	if tls && !old.listsTLS() {
		return nil, errors.New("it lists no tls key: the authority of the trust domain issues the certificates, and a card has no part in their renewal")
	}
	if tls && l.next != nil && !o.Lost {
		return nil, fmt.Errorf("the tls key is being rotated already; the next one is shown from %s on", envelope.At(l.next.from))
	}
	card := &Card{Endpoint: old.Endpoint, Identity: old.Identity, Log: old.Log, Origins: old.Origins, Previous: old.Object.ID, Role: old.Role}
	epoch := old.Object.Epoch
	if o.Lost || !slices.Equal(o.Uses, []envelope.Use{envelope.UseTLS}) {
		epoch++
	}
	for _, k := range old.Keys {
		if k, ok := o.keep(k, old.Object.Epoch); ok {
			card.Keys = append(card.Keys, k)
		}
	}
	s := &succession{keys: make(map[string]ed25519.PrivateKey)}
	fresh := make(map[envelope.Use]*envelope.Signer)
	for _, use := range o.Uses {
		key, err := s.draw(l.Name(), use, o)
		if err != nil {
			return nil, err
		}
		if fresh[use], err = envelope.NewSigner(key); err != nil {
			return nil, err
		}
		card.Keys = append(card.Keys, o.record(use, fresh[use].Public(), epoch))
	}
	card.makeRoom(epoch)
	if err := card.Validate(); err != nil {
		return nil, err
	}
	signers, err := l.cardSigners(fresh, o)
	if err != nil {
		return nil, err
	}
	s.card, err = envelope.Sign(envelope.Header{
		Type: envelope.IdentityCard, Authority: old.Object.Authority, Subject: old.Identity,
		Epoch: epoch, Sequence: old.Object.Sequence + 1, IssuedAt: o.Now,
		NotBefore: old.Object.NotBefore, ExpiresAt: old.Object.ExpiresAt,
	}, card, signers...)
	if err != nil {
		return nil, err
	}
	return s, checkSuccession(s.card.Raw, old, o.Now)
}

// draw makes the key of one use, and the certificate of a TLS key.
func (s *succession) draw(name envelope.Name, use envelope.Use, o KeyOptions) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(o.Rand, seed); err != nil {
		return nil, fmt.Errorf("%s key: %w", use, err)
	}
	key, file := ed25519.NewKeyFromSeed(seed), keyFile(use)
	if use == envelope.UseTLS {
		der, err := newCertificate(name, key, o.Now, o.Rand)
		if err != nil {
			return nil, err
		}
		s.certificate, s.certificateFile = encodePEM("CERTIFICATE", der), certificateFile
		if !o.Lost && o.Overlap > 0 {
			file, s.certificateFile = nextKeyFile, nextCertificateFile
		}
	}
	s.keys[file] = key
	return key, nil
}

// keep is what the new card says of a key of the old one, whose epoch was
// before; false for what nothing needs any more: a TLS or card key that ended
// earlier. A key that signs objects stays, with its end.
func (o *KeyOptions) keep(k Key, before uint64) (Key, bool) {
	end := k.Validity.NotAfter
	ended := k.Epochs.Last != 0 || (!end.IsZero() && !o.Now.Before(end.Time))
	if ended || !slices.Contains(o.Uses, k.Use) {
		return k, !ended || k.Use == envelope.UseEnvelope
	}
	stop := o.Now
	switch {
	case k.Use != envelope.UseTLS:
		// What was signed last may bear a time ahead of this clock.
		stop, k.Epochs.Last = o.Now.Add(envelope.Skew), before
	case o.Lost:
		k.Epochs.Last = before
	default:
		stop = o.Now.Add(o.Overlap + graceTLS)
	}
	if first := k.Validity.NotBefore.Add(time.Second); stop.Before(first) {
		stop = first
	}
	if end.IsZero() || stop.Before(end.Time) {
		k.Validity.NotAfter = envelope.At(stop)
	}
	k.Lost = o.Lost
	return k, true
}

// record is that of a new key.
func (o *KeyOptions) record(use envelope.Use, public envelope.PublicKey, epoch uint64) Key {
	from := o.Now
	if use == envelope.UseTLS && !o.Lost {
		from = from.Add(o.Overlap)
	}
	return Key{Alg: envelope.Ed25519, Epochs: Epochs{First: epoch}, PublicKey: public, Use: use, Validity: Validity{NotBefore: envelope.At(from)}}
}

// makeRoom drops keys where there are more than a card may list: first TLS keys
// replaced more than once, which sign nothing that lasts, then the keys of
// objects that ended first. What those signed is then verified by a card that
// was replaced.
func (c *Card) makeRoom(epoch uint64) {
	for len(c.Keys) > maxKeys {
		i := c.spareTLS()
		if i < 0 {
			i = c.firstEnded(epoch)
		}
		if i < 0 {
			return // Validate says it
		}
		c.Keys = slices.Delete(c.Keys, i, i+1)
	}
}

// spareTLS is the oldest TLS key that two others follow; -1 if there is none.
func (c *Card) spareTLS() int {
	oldest, others := -1, 0
	for i, k := range c.Keys {
		if k.Use != envelope.UseTLS {
			continue
		}
		others++
		if oldest < 0 || k.Epochs.First < c.Keys[oldest].Epochs.First {
			oldest = i
		}
	}
	if others <= 2 {
		return -1
	}
	return oldest
}

// firstEnded is the key whose last epoch is the lowest, before the one that
// epoch follows; -1 if there is none.
func (c *Card) firstEnded(epoch uint64) int {
	oldest := -1
	for i, k := range c.Keys {
		if k.Epochs.Last != 0 && k.Epochs.Last+1 < epoch && (oldest < 0 || k.Epochs.Last < c.Keys[oldest].Epochs.Last) {
			oldest = i
		}
	}
	return oldest
}

// cardSigners are the keys that sign the new card: the one by which peers know
// the old card, unless it is lost, and the one by which they will know this.
func (l *Local) cardSigners(fresh map[envelope.Use]*envelope.Signer, o KeyOptions) ([]*envelope.Signer, error) {
	was, is := l.Card.signingUse(), l.Card.signingUse()
	if slices.Contains(o.Uses, envelope.UseCard) {
		is = envelope.UseCard
	}
	var signers []*envelope.Signer
	if l.CardSigner != nil && !(o.Lost && slices.Contains(o.Uses, was)) {
		signers = append(signers, l.CardSigner)
	}
	if s := fresh[is]; s != nil {
		signers = append(signers, s)
	}
	if len(signers) == 0 {
		return nil, fmt.Errorf("no %s key signs it", is)
	}
	return signers, nil
}

// checkSuccession opens a new card as peers will.
func checkSuccession(raw []byte, old *Card, now time.Time) error {
	c, err := ParseCard(raw, now)
	if err != nil {
		return err
	}
	newer, err := c.Supersede(old)
	if err != nil && !errors.Is(err, ErrByHand) {
		return err
	}
	if err == nil && !newer {
		return errors.New("it is not newer than the one before")
	}
	if lost := slices.ContainsFunc(c.Keys, func(k Key) bool { return k.Lost }); err != nil && !lost {
		return err // a card that reports no loss has to be vouched for
	}
	return nil
}
