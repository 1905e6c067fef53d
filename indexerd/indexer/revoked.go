package indexer

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A storedRevocation is a revocation that was taken in. It is kept for good:
// it also stops grants that arrive later, if it reaches them. The members
// beside the object spare reading one that has nothing to do with a grant.
type storedRevocation struct {
	Object []byte        `json:"object"`
	Series string        `json:"series,omitempty"`
	Grant  envelope.Hash `json:"grant,omitzero"`
	At     envelope.Time `json:"at"`
}

func revocationsKey(publisher envelope.Name) []byte {
	return append(append([]byte{'V'}, publisher...), 0)
}

func revocationKey(publisher envelope.Name, id envelope.Hash) []byte {
	return append(revocationsKey(publisher), id[:]...)
}

// concerns reports whether the revocation could reach the grant.
func (s *storedRevocation) concerns(g *grants.Grant) bool {
	return s.Series == "" || s.Series == g.Body.Series || s.Grant == g.Object.ID
}

// open reads the revocation back.
func (s *storedRevocation) open() (*grants.Revocation, error) {
	rev := new(grants.Revocation)
	var err error
	if rev.Object, err = envelope.Parse(s.Object); err == nil {
		err = rev.Object.DecodeBody(&rev.Body)
	}
	if err != nil {
		return nil, fmt.Errorf("stored revocation: %w", err)
	}
	return rev, nil
}

// revocationsOf gives the revocations that reach any of gs, which are grants of
// one publisher.
func revocationsOf(r durable.Reader, gs ...*grants.Grant) ([]*grants.Revocation, error) {
	var all []*grants.Revocation
	lo := revocationsKey(gs[0].Body.Issuer)
	for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return nil, err
		}
		var s storedRevocation
		if err := json.Unmarshal(kv.Value, &s); err != nil {
			return nil, fmt.Errorf("row %q: %w", kv.Key, err)
		}
		for _, g := range gs {
			if !s.concerns(g) {
				continue
			}
			rev, err := s.open()
			if err != nil {
				return nil, err
			}
			if rev.Reaches(g) {
				all = append(all, rev)
				break
			}
		}
	}
	return all, nil
}

// errRevokedWhole refuses a grant of which a revocation leaves nothing.
func errRevokedWhole(g *grants.Grant, revs []*grants.Revocation) error {
	for _, rev := range revs {
		if rev.ReachesWhole(g) {
			return refuse(grants.ErrRevoked, "grant %s, by revocation %s", g.Object.ID, rev.Object.ID)
		}
	}
	return nil
}

// errRevokedPage refuses a page that a revocation reaches under g.
func errRevokedPage(g *grants.Grant, revs []*grants.Revocation, url string) error {
	for _, rev := range revs {
		if rev.ReachesPage(g, url) {
			return refuse(grants.ErrRevoked, "%s, by revocation %s", url, rev.Object.ID)
		}
	}
	return nil
}

// inForce refuses a grant that is revoked whole or not in force at now.
func inForce(r durable.Reader, p grants.Pair, now time.Time) error {
	revs, err := revocationsOf(r, p.Grant)
	if err != nil {
		return err
	}
	return errors.Join(errRevokedWhole(p.Grant, revs), p.Fresh(now))
}

// pairs gives the newest grant of a series and the one under which its state
// is held: the same, unless a renewal has not taken the state over yet.
func (r *seriesRecord) pairs(rd durable.Reader) (newest, bound grants.Pair, err error) {
	if newest, err = readPair(rd, r); err != nil {
		return newest, bound, err
	}
	if r.Bound.IsZero() || r.Bound == r.Grant.ID {
		return newest, newest, nil
	}
	bound, err = pairOf(rd, r.Bound)
	return newest, bound, err
}
