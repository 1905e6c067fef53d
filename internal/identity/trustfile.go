package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
	AddedAt  envelope.Time  `json:"added_at"`
	Card     jsontext.Value `json:"card"`
	Endpoint string         `json:"endpoint,omitempty"`
	Origins  []Origin       `json:"origins"`
}

// maxTrustFile bounds a trust file, in octets: a card and its origins.
const maxTrustFile = 2 * envelope.MaxSize

func encodePeer(p *Peer) ([]byte, error) {
	return envelope.Canonical(trustFile{
		AddedAt: envelope.At(p.AddedAt), Card: p.Card.Object.Raw, Endpoint: p.Endpoint, Origins: p.Origins,
	})
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
