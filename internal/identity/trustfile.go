package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Peer is an identity that the operator trusts to be who its card says. It
// is read-only: a change of trust makes a new Peer.
type Peer struct {
	Card *Card
	// Endpoint is where the operator said to dial, host:port; empty if he did
	// not say.
	Endpoint string
	// Origins are those that the operator named for this identity. The
	// card's own list is a claim and grants nothing.
	Origins []Origin
	// AddedAt is when the identity was first trusted, in whole seconds.
	AddedAt time.Time
	// Past are the cards of an indexer that Card has replaced, the newest first.
	// What was signed in other logs than Card's is verified by them; they open no
	// connection, and none of their keys counts. At most maxPast are kept.
	Past []*Card
}

// maxPast is how many replaced cards are kept: one a year for longer than
// evidence is kept by default, and as many as evidence holds beside the newest.
const maxPast = 12

// LogOf is the log of that origin, if the peer's card names it, or one that the
// card has replaced.
func (p *Peer) LogOf(origin string) (*Log, bool) {
	for _, c := range append([]*Card{p.Card}, p.Past...) {
		if c.Log != nil && c.Log.Origin == origin {
			return c.Log, true
		}
	}
	return nil, false
}

// keepPast takes over what is known of the cards before, and the replaced one
// itself: it may name another log, and leads back to those before it. Where that
// is too many, those go first that are of one log with the card after them.
func (p *Peer) keepPast(old *Peer) {
	p.Past = old.Past
	if p.Card.Log == nil || p.Card.Object.ID == old.Card.Object.ID {
		return
	}
	p.Past = append([]*Card{old.Card}, old.Past...)
	for len(p.Past) > maxPast {
		drop := len(p.Past) - 1
		for i := drop; i > 0; i-- {
			if p.Past[i].Log.Origin == p.Past[i-1].Log.Origin {
				drop = i
				break
			}
		}
		p.Past = slices.Delete(p.Past, drop, drop+1)
	}
}

// Delegated is the trust domain whose authority has to vouch for the peer's
// connections, because its card lists no TLS key; empty if the card does.
func (p *Peer) Delegated() Domain {
	if p.Card.listsTLS() {
		return ""
	}
	return DomainOf(p.Card.Identity)
}

// Address is where to dial the peer: the operator's word, else its card's.
// Publishers have none.
func (p *Peer) Address() string {
	if p.Endpoint != "" {
		return p.Endpoint
	}
	return p.Card.Endpoint
}

// trustFile is a Peer as written: one canonical JSON object with the card's
// own octets inside. Fields stand in canonical order.
type trustFile struct {
	AddedAt  envelope.Time    `json:"added_at"`
	Card     jsontext.Value   `json:"card"`
	Endpoint string           `json:"endpoint,omitempty"`
	Origins  []Origin         `json:"origins"`
	Past     []jsontext.Value `json:"past,omitempty"`
}

// maxTrustFile bounds a trust file, in octets: its cards and origins.
const maxTrustFile = (2 + maxPast) * envelope.MaxSize

func encodePeer(p *Peer) ([]byte, error) {
	f := trustFile{AddedAt: envelope.At(p.AddedAt), Card: p.Card.Object.Raw, Endpoint: p.Endpoint, Origins: p.Origins}
	for _, c := range p.Past {
		f.Past = append(f.Past, c.Object.Raw)
	}
	return envelope.Canonical(f)
}

// decodePeer reads a trust file and opens its card, whose time is judged when
// it is used: a card that expires must not keep a daemon from starting.
func decodePeer(raw []byte) (*Peer, error) {
	if len(raw) > maxTrustFile {
		return nil, fmt.Errorf("%d octets, at most %d", len(raw), maxTrustFile)
	}
	var f trustFile
	if err := json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	card, err := AuthenticateCard(f.Card)
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	p := &Peer{Card: card, Endpoint: f.Endpoint, Origins: f.Origins, AddedAt: f.AddedAt.Time}
	if p.Past, err = decodePast(f.Past, card); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	again, err := encodePeer(p)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, raw) {
		return nil, errors.New("not in canonical form")
	}
	return p, nil
}

// decodePast opens the cards that card has replaced.
func decodePast(all []jsontext.Value, card *Card) ([]*Card, error) {
	if len(all) > maxPast {
		return nil, fmt.Errorf("%d past cards, at most %d", len(all), maxPast)
	}
	var past []*Card
	for i, raw := range all {
		c, err := AuthenticateCard(raw)
		if err != nil {
			return nil, fmt.Errorf("past card %d: %w", i, err)
		}
		if c.Log == nil || c.Identity != card.Identity || c.Object.Position().Compare(card.Object.Position()) >= 0 {
			return nil, fmt.Errorf("past card %d is none that the card of %s has replaced", i, card.Identity)
		}
		past, card = append(past, c), c
	}
	return past, nil
}

func (p *Peer) check() error {
	if p.Endpoint != "" {
		if p.Card.Role != Indexer {
			return fmt.Errorf("an endpoint for %s, which is dialled by nobody", p.Card.Identity)
		}
		if err := checkEndpoint(p.Endpoint); err != nil {
			return err
		}
	}
	return checkOrigins(p.Origins)
}

// fileName is the one name under which an identity's trust file is found: a
// readable part for people, and a hash that keeps identities apart.
func fileName(name envelope.Name) string {
	readable := strings.NewReplacer("/", "_", ":", "_").Replace(strings.TrimPrefix(string(name), spiffeScheme))
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%.100s-%s%s", readable, hex.EncodeToString(sum[:8]), trustSuffix)
}

const trustSuffix = ".json"
