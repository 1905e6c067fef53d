package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Trust is the identities that an operator trusts: a folder with one file
// for each, and one for each trust domain whose authority vouches for
// connections. It is safe for use by several goroutines, and several processes
// may change the folder at once. It looks at the folder again before it
// answers, at most every 200 ms, so that every process sees a change soon.
//
// It is an envelope.KeySource over the keys of all its peers. Each key's
// record names its identity, and no key has two.
type Trust struct {
	dir    string
	now    func() time.Time
	report func(error)

	// mu guards what follows.
	mu       sync.Mutex
	look     time.Time // when the folder was last read
	pause    time.Duration
	files    map[string]*file
	view     *view
	version  uint64 // counts the views
	refusals error  // of files, when view was made
	err      error  // of the last look: refusals, or that the folder cannot be read
}

// lookEvery is how long an answer may lag behind the folder. A folder that is
// slow to read is looked at less often, so that looking takes at most a
// twentieth of the time.
const lookEvery = 200 * time.Millisecond

// TrustOptions are the surroundings of a Trust.
type TrustOptions struct {
	// Now is the clock that paces looking at the folder. Nil: time.Now.
	Now func() time.Time
	// Report is told, once for each change for the worse, why a file was not
	// taken up. Nil: nobody is told, and Err still says.
	Report func(error)
}

// OpenTrust reads the trust in dir, which it makes if there is none. Unlike a
// later look, opening is refused if any file is bad, or if two identities
// claim one public key or one origin.
func OpenTrust(dir string, o TrustOptions) (*Trust, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	t := &Trust{dir: dir, now: o.Now, report: o.Report, view: newView()}
	t.refresh(t.now())
	if t.err != nil {
		return nil, fmt.Errorf("trust store %s: %w", dir, t.err)
	}
	return t, nil
}

// current answers from the folder, or from what was read of it within the pause.
func (t *Trust) current() *view {
	t.mu.Lock()
	now := t.now()
	var news error
	if since := now.Sub(t.look); since < 0 || since >= t.pause {
		news = t.refresh(now)
	}
	v := t.view
	t.mu.Unlock()
	if news != nil {
		t.report(news)
	}
	return v
}

// Refresh looks at the folder now.
func (t *Trust) Refresh() {
	t.mu.Lock()
	news := t.refresh(t.now())
	t.mu.Unlock()
	if news != nil {
		t.report(news)
	}
}

// Version is a number that is another one whenever the trust has changed.
// Whoever judged a peer by one version need not judge it again by the same.
func (t *Trust) Version() uint64 {
	t.current()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

// A TrustStatus says how many are trusted, and what is wrong.
type TrustStatus struct {
	Identities  int    `json:"identities"`
	Authorities int    `json:"authorities"`
	Problem     string `json:"problem"` // of the folder; what was read before is in force
}

// Status is how the folder stands at this moment.
func (t *Trust) Status() TrustStatus {
	v := t.current()
	s := TrustStatus{Identities: len(v.peers), Authorities: len(v.authorities)}
	if err := t.Err(); err != nil {
		s.Problem = err.Error()
	}
	return s
}

// Lookup finds a trusted identity.
func (t *Trust) Lookup(name envelope.Name) (*Peer, bool) {
	p, ok := t.current().peers[name]
	return p, ok
}

// LookupKey finds a key of any trusted identity by which something new may be
// signed: not one that is lost.
func (t *Trust) LookupKey(id envelope.Hash) (envelope.KeyRecord, bool) {
	r, ok := t.current().keys[id]
	if r.Lost {
		return envelope.KeyRecord{}, false
	}
	return r, ok
}

// Known finds the lost keys as well: for what is held already, and for what bears
// a time that somebody else vouches for.
func (t *Trust) Known() envelope.KeySource { return known{t} }

type known struct{ trust *Trust }

func (k known) LookupKey(id envelope.Hash) (envelope.KeyRecord, bool) {
	r, ok := k.trust.current().keys[id]
	return r, ok
}

// KeysOf is the keys of one identity alone. It stays in step with the store:
// once the identity is removed it finds nothing.
func (t *Trust) KeysOf(name envelope.Name) envelope.KeySource { return keysOf{t, name} }

type keysOf struct {
	trust *Trust
	name  envelope.Name
}

func (k keysOf) LookupKey(id envelope.Hash) (envelope.KeyRecord, bool) {
	r, ok := k.trust.LookupKey(id)
	if !ok || r.Identity != k.name {
		return envelope.KeyRecord{}, false
	}
	return r, true
}

// OwnerOf finds the identity for which the operator named an origin.
func (t *Trust) OwnerOf(o Origin) (envelope.Name, bool) {
	n, ok := t.current().owners[o]
	return n, ok
}

// List gives the trusted identities in the order of their names.
func (t *Trust) List() []*Peer {
	v := t.current()
	list := make([]*Peer, 0, len(v.peers))
	for _, p := range v.peers {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *Peer) int {
		return strings.Compare(string(a.Card.Identity), string(b.Card.Identity))
	})
	return list
}

// Err says what is wrong with the folder at this moment, or nil.
func (t *Trust) Err() error {
	t.current()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// AddOptions is what the operator says beside a card.
type AddOptions struct {
	// Origins are those that this identity may speak for. Nil keeps those of
	// an identity that is trusted already; empty takes them away.
	Origins []Origin
	// Endpoint is where to dial, host:port, in place of the card's. Empty
	// keeps what an identity that is trusted already has.
	Endpoint string
	// Fingerprint is that of the card, as the other operator said it. It need not
	// be given, except for a card that Card.Supersede takes by hand only; whenever
	// it is, it has to be the card's.
	Fingerprint string
	// Now is the time at which the card must be valid.
	Now time.Time
}

// Add trusts the identity of a card, and returns after that is durable. A card
// of an identity that is trusted already has to supersede the one held (see
// Card.Supersede); the same card again changes nothing but what o says. A
// public key or an origin of another identity is ErrConflict. Operators
// compare the card's Fingerprint before they first add it, and must say it of a
// card that nothing vouches for: ErrByHand.
func (t *Trust) Add(raw []byte, o AddOptions) (*Peer, error) {
	card, err := ParseCard(raw, o.Now)
	if err != nil {
		return nil, err
	}
	confirmed := o.Fingerprint != ""
	if confirmed && !card.Confirms(o.Fingerprint) {
		return nil, fmt.Errorf("card of %s: its fingerprint is %s, and another one was said; do not trust it before the two operators have compared them", card.Identity, card.Fingerprint())
	}
	p := &Peer{Card: card, Endpoint: o.Endpoint, Origins: slices.Clone(o.Origins), AddedAt: envelope.At(o.Now).Time}
	err = t.change(func(v *view) error {
		old, held := v.peers[card.Identity]
		if held {
			newer, err := card.Supersede(old.Card)
			if errors.Is(err, ErrByHand) && confirmed {
				newer, err = true, nil
			}
			if err != nil {
				return err
			}
			if !newer {
				p.Card = old.Card
			}
			p.keepPast(old)
			p.AddedAt = old.AddedAt
			if o.Origins == nil {
				p.Origins = old.Origins
			}
			if o.Endpoint == "" {
				p.Endpoint = old.Endpoint
			}
		}
		if err := p.check(); err != nil {
			return err
		}
		if held && p.equal(old) {
			return nil
		}
		if err := p.into(v.without(card.Identity)); err != nil {
			return err
		}
		data, err := encodePeer(p)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(t.dir, fileName(card.Identity)), data, 0o600)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Remove ends the trust in an identity, and returns after that is durable.
// Connections that live are the caller's to end.
func (t *Trust) Remove(name envelope.Name) error {
	return t.change(func(v *view) error {
		if _, ok := v.peers[name]; !ok {
			return fmt.Errorf("%s: %w", name, ErrUnknownPeer)
		}
		if err := os.Remove(filepath.Join(t.dir, fileName(name))); err != nil {
			return err
		}
		return syncDir(t.dir)
	})
}

// change runs f on the folder's present state while no other process changes
// it, and then takes up what f wrote.
func (t *Trust) change(f func(*view) error) error {
	t.mu.Lock()
	news, err := t.changeLocked(f)
	t.mu.Unlock()
	if news != nil {
		t.report(news)
	}
	return err
}

func (t *Trust) changeLocked(f func(*view) error) (news, err error) {
	unlock, err := lockDir(t.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	news = t.refresh(t.now())
	if err := f(t.view); err != nil {
		return news, err
	}
	if later := t.refresh(t.now()); later != nil {
		news = later
	}
	return news, nil
}
