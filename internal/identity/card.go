package identity

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Role is what an identity does in a session.
type Role string

// The two roles of UZPIF-OI 3.
const (
	Publisher Role = "publisher" // dials out, owns pages, signs grants
	Indexer   Role = "indexer"   // listens, keeps the log, signs receipts
	Reader    Role = "consumer"  // dials an indexer, reads its feed
)

// maxKeys bounds the keys of one card: room for each use, its successor, and
// a few that are retired.
const maxKeys = 16

// A Card is the body of an identity-card: an identity's keys and where it is
// met, signed by itself. It says nothing about whether to trust it. A Card is
// not changed once it is parsed. Fields stand in canonical order.
type Card struct {
	Endpoint string        `json:"endpoint,omitempty"` // host:port of sessions; indexers only
	Identity envelope.Name `json:"identity"`
	Keys     []Key         `json:"keys"`
	Log      *Log          `json:"log,omitempty"`     // indexers only
	Origins  []Origin      `json:"origins"`           // claims; only the operator's own list counts
	Previous envelope.Hash `json:"previous,omitzero"` // object_id of the card before
	Role     Role          `json:"role"`

	// Object is the envelope that the card came in.
	Object *envelope.Object `json:"-"`
}

// A Key is one public key of a card: what it signs, and for how long that counts.
// A key that was replaced stays listed, with an end, so that the newest card
// verifies what it signed.
type Key struct {
	Alg       string             `json:"alg"`
	Epochs    Epochs             `json:"epochs"`
	Lost      bool               `json:"lost,omitzero"` // may be in other hands: speaks for nothing new
	PublicKey envelope.PublicKey `json:"public_key"`
	Use       envelope.Use       `json:"use"`
	Validity  Validity           `json:"validity"`
}

// Epochs is the range of envelope epochs that a key signs, both ends included.
type Epochs struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last,omitzero"` // absent: no end
}

// Validity is the time in which a key counts; NotAfter itself is too late.
type Validity struct {
	NotAfter  envelope.Time `json:"not_after,omitzero"` // absent: no end
	NotBefore envelope.Time `json:"not_before"`
}

// Log is where an indexer's transparency log is read and how its checkpoint
// notes are verified. VKey is a C2SP verifier key of type 0x01 whose name is
// Origin.
type Log struct {
	Origin string `json:"origin"`
	URL    string `json:"url"`
	VKey   string `json:"vkey"`
}

// ParseCard opens a card at the time now: its form, what its role needs, a
// signature by an envelope or card key that the card itself lists, and its
// own validity. Errors are those of package envelope.
func ParseCard(raw []byte, now time.Time) (*Card, error) {
	c, err := AuthenticateCard(raw)
	if err != nil {
		return nil, err
	}
	if err := c.Object.Fresh(now); err != nil {
		return nil, err
	}
	return c, nil
}

// AuthenticateCard is ParseCard without the check of time, for cards that are
// judged as of another instant than now.
func AuthenticateCard(raw []byte) (*Card, error) {
	o, err := envelope.Parse(raw)
	if err != nil {
		return nil, err
	}
	if o.Type != envelope.IdentityCard {
		return nil, &envelope.Error{Kind: envelope.ErrType, Member: "object_type", Detail: string(o.Type)}
	}
	c := new(Card)
	if err := o.DecodeBody(c); err != nil {
		return nil, err
	}
	c.Object = o
	if err := c.checkEnvelope(); err != nil {
		return nil, err
	}
	// The card is its own key source: this shows who holds the keys, not who
	// they are.
	v := envelope.Verifier{Keys: c, Type: envelope.IdentityCard, Threshold: 1}
	if _, err := envelope.Authenticate(o.Raw, new(Card), v); err != nil {
		return nil, err
	}
	return c, nil
}

// Validate makes the checks that the schema leaves open.
func (c *Card) Validate() error {
	if _, err := ParseName(string(c.Identity)); err != nil {
		return err
	}
	if err := c.checkKeys(); err != nil {
		return err
	}
	if err := checkOrigins(c.Origins); err != nil {
		return err
	}
	switch c.Role {
	case Publisher:
		if c.Endpoint != "" || c.Log != nil {
			return errors.New("a publisher has neither endpoint nor log")
		}
		return nil
	case Reader:
		if c.Endpoint != "" || c.Log != nil || len(c.Origins) > 0 {
			return errors.New("a consumer has neither endpoint, log nor origins")
		}
		return nil
	case Indexer:
		if c.Log == nil {
			return errors.New("an indexer has a log")
		}
		if err := checkEndpoint(c.Endpoint); err != nil {
			return err
		}
		return c.checkLog()
	}
	return fmt.Errorf("role %.40q", string(c.Role))
}

// checkKeys refuses a public key that stands twice, in one use or in two.
func (c *Card) checkKeys() error {
	if len(c.Keys) == 0 || len(c.Keys) > maxKeys {
		return fmt.Errorf("%d keys, want 1 to %d", len(c.Keys), maxKeys)
	}
	seen := make(map[envelope.Hash]bool, len(c.Keys))
	for i, k := range c.Keys {
		switch {
		case k.Alg != envelope.Ed25519:
			return fmt.Errorf("key %d: alg %.20q", i, k.Alg)
		case k.PublicKey.IsZero():
			return fmt.Errorf("key %d: no public_key", i)
		case !mayHave(c.Role, k.Use):
			return fmt.Errorf("key %d: use %.20q of %.20q", i, string(k.Use), string(c.Role))
		case seen[k.PublicKey.ID()]:
			return fmt.Errorf("key %d: the same public key stands twice", i)
		case k.Epochs.First == 0 || k.Epochs.First > envelope.MaxInteger ||
			(k.Epochs.Last != 0 && k.Epochs.Last < k.Epochs.First) || k.Epochs.Last > envelope.MaxInteger:
			return fmt.Errorf("key %d: epochs %d to %d", i, k.Epochs.First, k.Epochs.Last)
		case k.Lost && (k.Epochs.Last == 0 || k.Validity.NotAfter.IsZero()):
			return fmt.Errorf("key %d: lost, and without an end", i)
		case !k.Validity.NotAfter.IsZero() && !k.Validity.NotBefore.Before(k.Validity.NotAfter.Time):
			return fmt.Errorf("key %d: not_after is not after not_before", i)
		}
		seen[k.PublicKey.ID()] = true
	}
	return nil
}

// mayHave reports whether a card of role r may list a key of use u.
func mayHave(r Role, u envelope.Use) bool {
	switch u {
	case envelope.UseEnvelope, envelope.UseTLS, envelope.UseCard:
		return true
	case envelope.UseLog:
		return r == Indexer
	}
	return false
}

// needs lists the uses for which a card of role r must list a key that counts
// at the card's own epoch; of a TLS key, see listsTLS. An indexer may have a card
// key beside them.
func needs(r Role) []envelope.Use {
	if r == Indexer {
		return []envelope.Use{envelope.UseEnvelope, envelope.UseLog, envelope.UseTLS}
	}
	return []envelope.Use{envelope.UseEnvelope, envelope.UseCard, envelope.UseTLS}
}

// checkLog requires exactly one log key, and a verifier key made of it and of
// the log's origin: name, key and spelling are compared in one.
func (c *Card) checkLog() error {
	if err := checkLogOrigin(c.Log.Origin); err != nil {
		return err
	}
	if err := checkLogURL(c.Log.URL); err != nil {
		return err
	}
	var keys []envelope.PublicKey
	for _, k := range c.Keys {
		if k.Use == envelope.UseLog {
			keys = append(keys, k.PublicKey)
		}
	}
	if len(keys) != 1 {
		return fmt.Errorf("%d log keys, want 1", len(keys))
	}
	vkey, err := note.NewEd25519VerifierKey(c.Log.Origin, keys[0].Bytes())
	if err != nil {
		return err
	}
	if c.Log.VKey != vkey {
		return errors.New("log.vkey is not that of the listed log key under log.origin")
	}
	return nil
}

// checkEnvelope compares the body with the envelope around it.
func (c *Card) checkEnvelope() error {
	if c.Object.Subject != c.Identity {
		return &envelope.Error{Kind: envelope.ErrSchema, Member: "subject", Detail: "not the card's identity"}
	}
	if c.Object.Authority != c.Identity.Authority() {
		return &envelope.Error{Kind: envelope.ErrSchema, Member: "issuer_authority", Detail: "not the trust domain of the card's identity"}
	}
	for _, use := range needs(c.Role) {
		if !c.has(use) && (use != envelope.UseTLS || c.listsTLS()) {
			return &envelope.Error{Kind: envelope.ErrSchema, Member: "body.keys", Detail: fmt.Sprintf("no %s key for epoch %d", use, c.Object.Epoch)}
		}
	}
	return nil
}

func (c *Card) has(use envelope.Use) bool {
	for _, k := range c.Keys {
		if k.Use == use && k.Epochs.include(c.Object.Epoch) {
			return true
		}
	}
	return false
}

func (e Epochs) include(epoch uint64) bool {
	return epoch >= e.First && (e.Last == 0 || epoch <= e.Last)
}

// LookupKey finds a key that the card lists. It makes a card the key source
// for what its own identity signed.
func (c *Card) LookupKey(id envelope.Hash) (envelope.KeyRecord, bool) {
	for _, k := range c.Keys {
		if k.PublicKey.ID() == id {
			return c.record(k), true
		}
	}
	return envelope.KeyRecord{}, false
}

// record is what a verifier who trusts c knows of k. A key counts no longer
// than the card does, and for no epoch above the card's own: nobody was told of
// those yet.
func (c *Card) record(k Key) envelope.KeyRecord {
	end := k.Validity.NotAfter.Time
	if x := c.Object.ExpiresAt; !x.IsZero() && (end.IsZero() || x.Before(end)) {
		end = x
	}
	last := c.Object.Epoch
	if k.Epochs.Last != 0 && k.Epochs.Last < last {
		last = k.Epochs.Last
	}
	return envelope.KeyRecord{
		Key: k.PublicKey, Identity: c.Identity, Authority: c.Identity.Authority(), Use: k.Use,
		FirstEpoch: k.Epochs.First, LastEpoch: last,
		NotBefore: k.Validity.NotBefore.Time, NotAfter: end, Lost: k.Lost,
	}
}

// Fingerprint is what two operators read to one another when a card is first
// imported: the 64 hex digits of the card's object_id in groups of four. It
// covers every octet of the card but its signatures, and changes with each
// new card.
func (c *Card) Fingerprint() string {
	digits := hex.EncodeToString(c.Object.ID[:])
	var b strings.Builder
	for i := 0; i < len(digits); i += 4 {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(digits[i : i+4])
	}
	return b.String()
}
