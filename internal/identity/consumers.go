package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// Consumers are the identities that an indexer's operator lets read its feed: a
// folder with one file for each. Nothing is remembered between two look-ups, so
// that a change counts at the next one, whoever makes it; and a file that is bad
// lets nobody in.
type Consumers struct {
	dir   string
	trust *Trust // whose authorities vouch for consumers without a TLS key in a card
}

// A Consumer is one of them.
type Consumer struct {
	Identity envelope.Name
	// Purposes are those for which it may read, ascending. There are none of one that
	// was removed.
	Purposes []string
	// Former are those for which it could read once and may no more, ascending: it is
	// let in to be told that, and to say that what it had is gone.
	Former []string
	// ThirdParty is set for a consumer that is not the indexer's own: it may read
	// only what may be passed on.
	ThirdParty bool
	// Card lists the keys of its connections; nil: the authority of its trust
	// domain vouches for them.
	Card    *Card
	AddedAt time.Time
}

// maxConsumerPurposes bounds the purposes of one consumer, and those that it had.
const maxConsumerPurposes = 32

// consumerFile is a Consumer as written, in canonical order.
type consumerFile struct {
	AddedAt    envelope.Time  `json:"added_at"`
	Card       jsontext.Value `json:"card,omitzero"`
	Former     []string       `json:"former,omitempty"`
	Identity   envelope.Name  `json:"identity"`
	Purposes   []string       `json:"purposes"`
	ThirdParty bool           `json:"third_party"`
}

// OpenConsumers reads the folder dir, which it makes if there is none. trust
// holds the authorities.
func OpenConsumers(dir string, trust *Trust) (*Consumers, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Consumers{dir: dir, trust: trust}, nil
}

// Lookup finds a consumer. The error is ErrUnknownPeer, or what is wrong with
// its file.
func (c *Consumers) Lookup(name envelope.Name) (*Consumer, error) {
	raw, err := readFile(filepath.Join(c.dir, fileName(name)), 2*envelope.MaxSize, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrUnknownPeer)
	}
	if err != nil {
		return nil, err
	}
	r, err := decodeConsumer(raw)
	if err == nil && r.Identity != name {
		err = fmt.Errorf("it is that of %s", r.Identity)
	}
	if err != nil {
		return nil, fmt.Errorf("the file of consumer %s: %w", name, err)
	}
	return r, nil
}

func encodeConsumer(r *Consumer) ([]byte, error) {
	f := consumerFile{AddedAt: envelope.At(r.AddedAt), Former: r.Former, Identity: r.Identity, Purposes: r.Purposes, ThirdParty: r.ThirdParty}
	if f.Purposes == nil {
		f.Purposes = []string{}
	}
	if r.Card != nil {
		f.Card = r.Card.Object.Raw
	}
	return envelope.Canonical(f)
}

// decodeConsumer accepts only what encodeConsumer writes.
func decodeConsumer(raw []byte) (*Consumer, error) {
	var f consumerFile
	if err := json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	r := &Consumer{Identity: f.Identity, Purposes: f.Purposes, Former: f.Former, ThirdParty: f.ThirdParty, AddedAt: f.AddedAt.Time}
	if len(f.Card) > 0 {
		card, err := AuthenticateCard(f.Card)
		if err != nil {
			return nil, fmt.Errorf("card: %w", err)
		}
		r.Card = card
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if again, err := encodeConsumer(r); err != nil || !bytes.Equal(again, raw) {
		return nil, errors.Join(errors.New("not in canonical form"), err)
	}
	return r, nil
}

func (r *Consumer) check() error {
	if _, err := ParseName(string(r.Identity)); err != nil {
		return err
	}
	for _, list := range [][]string{r.Purposes, r.Former} {
		if n := len(list); n > maxConsumerPurposes || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != n {
			return fmt.Errorf("%d purposes, want at most %d, ascending", n, maxConsumerPurposes)
		}
	}
	if len(r.Purposes)+len(r.Former) == 0 {
		return errors.New("no purpose, and none that it had")
	}
	if slices.ContainsFunc(r.Former, func(p string) bool { return slices.Contains(r.Purposes, p) }) {
		return errors.New("a purpose both that it has and that it had")
	}
	switch {
	case r.Card == nil:
		return nil
	case r.Card.Identity != r.Identity:
		return fmt.Errorf("the card is that of %s", r.Card.Identity)
	case r.Card.Role != Reader:
		return fmt.Errorf("the card is that of a %s: %w", r.Card.Role, ErrRole)
	}
	return nil
}

// Add lets a consumer read, and returns after that is durable. One that is there
// keeps its card if r has none, when it was added, and, as former ones, the purposes
// that it loses; one that was removed is added anew. A card in the place of another
// has to supersede it (see Card.Supersede).
func (c *Consumers) Add(r *Consumer) (err error) {
	unlock, err := lockDir(c.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	old, err := c.Lookup(r.Identity)
	switch {
	case err == nil:
		if err := r.succeed(old); err != nil {
			return err
		}
	case !errors.Is(err, ErrUnknownPeer):
		return err
	}
	if len(r.Purposes) == 0 {
		return fmt.Errorf("%s: no purposes", r.Identity)
	}
	if r.Card == nil {
		if _, ok := c.trust.LookupAuthority(DomainOf(r.Identity)); !ok {
			return fmt.Errorf("%s has no card, and no authority vouches for its connections: %w", r.Identity, ErrUnknownAuthority)
		}
	}
	return c.write(r)
}

// succeed takes over what stays of an older record.
func (r *Consumer) succeed(old *Consumer) error {
	if len(old.Purposes) > 0 {
		r.AddedAt = old.AddedAt
	}
	r.Former = slices.DeleteFunc(had(old), func(p string) bool { return slices.Contains(r.Purposes, p) })
	if r.Card == nil {
		r.Card = old.Card
	} else if old.Card != nil {
		if _, err := r.Card.Supersede(old.Card); err != nil {
			return err
		}
	}
	return nil
}

// had are all purposes for which a consumer could ever read, ascending.
func had(r *Consumer) []string {
	all := slices.Concat(r.Purposes, r.Former)
	slices.Sort(all)
	return slices.Compact(all)
}

// write makes a record durable.
func (c *Consumers) write(r *Consumer) error {
	if err := r.check(); err != nil {
		return err
	}
	raw, err := encodeConsumer(r)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(c.dir, fileName(r.Identity)), raw, 0o600)
}

// Remove ends what a consumer may read, and returns after that is durable. It stays
// known for what it had, so that it can say that this is gone.
func (c *Consumers) Remove(name envelope.Name) (err error) {
	unlock, err := lockDir(c.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r, err := c.Lookup(name)
	if err != nil {
		return err
	}
	r.Former, r.Purposes = had(r), nil
	return c.write(r)
}

// Forget removes all that is known of a consumer, and returns after that is durable: it
// is let in no more, and can say nothing. It works on a file that is bad too.
func (c *Consumers) Forget(name envelope.Name) error {
	err := os.Remove(filepath.Join(c.dir, fileName(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, ErrUnknownPeer)
	}
	if err != nil {
		return err
	}
	return syncDir(c.dir)
}

// List gives the consumers in the order of their names. Bad files are the error;
// the others are given all the same.
func (c *Consumers) List() ([]*Consumer, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	var all []*Consumer
	var bad []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), trustSuffix) {
			continue
		}
		raw, err := readFile(filepath.Join(c.dir, e.Name()), 2*envelope.MaxSize, 0)
		var r *Consumer
		if err == nil {
			r, err = decodeConsumer(raw)
		}
		if err == nil && fileName(r.Identity) != e.Name() {
			err = fmt.Errorf("the file of %s is named %s", r.Identity, fileName(r.Identity))
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", e.Name(), err))
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Consumer) int { return strings.Compare(string(a.Identity), string(b.Identity)) })
	return all, errors.Join(bad...)
}

// ServerConfig is the TLS of an endpoint that accepts consumers and nobody else,
// on the terms of ServerConfig for peers.
func (c *Consumers) ServerConfig(certificate func() *tls.Certificate, now func() time.Time) *tls.Config {
	t := baseConfig(certificate, now)
	t.ClientAuth = tls.RequireAnyClientCert // judged in VerifyConnection
	t.VerifyConnection = func(cs tls.ConnectionState) error {
		if _, _, err := c.Verify(cs, now()); err != nil {
			return err
		}
		return checkUsage(cs.PeerCertificates[0], x509.ExtKeyUsageClientAuth)
	}
	return t
}

// Verify is VerifyPeer for consumers: it decides which one is at the other end,
// and until when the connection may be used at the latest.
func (c *Consumers) Verify(cs tls.ConnectionState, now time.Time) (r *Consumer, until time.Time, err error) {
	name, chain, err := leafOf(cs)
	if err != nil {
		return nil, time.Time{}, err
	}
	if r, err = c.Lookup(name); err != nil {
		return nil, time.Time{}, err
	}
	a, _ := c.trust.LookupAuthority(DomainOf(name))
	if until, err = judge(chain, r.Card, a, Reader, now); err != nil {
		return nil, time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return r, until, nil
}
