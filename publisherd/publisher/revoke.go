package publisher

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Revocation is withdrawn consent as the publisher keeps it: the signed
// object, whether the indexer has it, and what the indexer acknowledged. It is
// a file revocations/ID.json, readable by its owner only. It counts from the
// moment at which it is written, whatever the indexer says.
type Revocation struct {
	Indexer          envelope.Name
	Signed           *grants.Revocation
	Delivered        envelope.Time     // when the indexer first answered; zero if it did not yet
	Asked            envelope.Time     // when it answered last
	Acknowledgements []Acknowledgement // evaluated
	Disputed         bool              // the last answer did not hold, or acknowledged less than it has to
}

// An Acknowledgement is one that was evaluated (UZPIF-OI 12.6.1), with all that
// it was evaluated by.
type Acknowledgement struct {
	Series     string            `json:"series"`
	Type       translog.Decision `json:"type"` // revoke-ack or delete-ack
	Count      uint64            `json:"count"`
	IssuedAt   envelope.Time     `json:"issued_at"`
	EntryIndex uint64            `json:"entry_index"`
	Linked     bool              `json:"linked"` // proven consistent with the log as it was seen before
	// Unplaced is set if the store did not know the place at which the indexer stopped:
	// it had been lost or put back to an older copy, or the series was being begun anew.
	Unplaced bool `json:"unplaced,omitzero"`

	JournalEpoch uint64        `json:"journal_epoch"`
	Through      uint64        `json:"through"`
	State        envelope.Hash `json:"state"`

	Acknowledgement jsontext.Value  `json:"acknowledgement"`
	Entry           jsontext.Value  `json:"entry"`
	Inclusion       []envelope.Hash `json:"inclusion"`
	Checkpoint      jsontext.Value  `json:"checkpoint"`
	Note            string          `json:"note"`
}

// revocationFile is the file's form.
type revocationFile struct {
	Acknowledgements []Acknowledgement `json:"acknowledgements"`
	Asked            envelope.Time     `json:"asked,omitzero"`
	Delivered        envelope.Time     `json:"delivered,omitzero"`
	Disputed         bool              `json:"disputed,omitzero"`
	Indexer          envelope.Name     `json:"indexer"`
	Revocation       jsontext.Value    `json:"revocation"`
}

// ID names the revocation.
func (v *Revocation) ID() envelope.Hash { return v.Signed.Object.ID }

// acknowledged reports whether an acknowledgement of kind d for a series is
// stored.
func (v *Revocation) acknowledged(series string, d translog.Decision) bool {
	for _, a := range v.Acknowledgements {
		if a.Series == series && a.Type == d {
			return true
		}
	}
	return false
}

// Settled reports whether nothing more is to come: the indexer has answered,
// and where pages are to be deleted, each series that was stopped is.
func (v *Revocation) Settled() bool {
	if v.Delivered.IsZero() || v.Disputed {
		return false
	}
	for _, a := range v.Acknowledgements {
		if v.Signed.Body.Disposition == grants.DispositionDelete && !v.acknowledged(a.Series, translog.DeleteAck) {
			return false
		}
	}
	return true
}

// Pages that may stay until the end of their retention are asked after once a
// day, until the indexer says that they are gone, for as long as a year.
const (
	askAgain = 24 * time.Hour
	askUntil = 366 * 24 * time.Hour
)

// due reports whether the indexer is to be asked at now.
func (v *Revocation) due(now time.Time) bool {
	if !v.Settled() {
		return true
	}
	if v.Signed.Body.Disposition != grants.DispositionRetention || now.Before(v.Asked.Add(askAgain)) || now.After(v.Delivered.Add(askUntil)) {
		return false
	}
	return v.open()
}

func revocationPath(dir string, id envelope.Hash) string {
	return filepath.Join(dir, "revocations", hex.EncodeToString(id[:])+".json")
}

func (v *Revocation) write(dir string) error {
	f := revocationFile{
		Acknowledgements: v.Acknowledgements, Asked: v.Asked, Delivered: v.Delivered, Disputed: v.Disputed, Indexer: v.Indexer, Revocation: v.Signed.Object.Raw,
	}
	if f.Acknowledgements == nil {
		f.Acknowledgements = []Acknowledgement{}
	}
	b, err := json.Marshal(f, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.WriteFile(revocationPath(dir, v.ID()), append(b, '\n'), 0o600)
}

func readRevocation(path string) (*Revocation, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f revocationFile
	if err := json.Unmarshal(b, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// Indented within the file; signed in canonical form.
	objects := []*jsontext.Value{&f.Revocation}
	for i := range f.Acknowledgements {
		a := &f.Acknowledgements[i]
		objects = append(objects, &a.Acknowledgement, &a.Entry, &a.Checkpoint)
	}
	for _, o := range objects {
		if err := o.Canonicalize(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	v := &Revocation{
		Indexer: f.Indexer, Signed: new(grants.Revocation), Asked: f.Asked, Delivered: f.Delivered, Disputed: f.Disputed, Acknowledgements: f.Acknowledgements,
	}
	v.Signed.Object, err = envelope.Parse(f.Revocation)
	if err == nil {
		err = v.Signed.Object.DecodeBody(&v.Signed.Body)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if filepath.Base(path) != filepath.Base(revocationPath("", v.ID())) {
		return nil, fmt.Errorf("%s: the file holds revocation %s", path, v.ID())
	}
	return v, nil
}

// Revocations lists all revocations, oldest first.
func Revocations(dir string) ([]*Revocation, error) {
	files, err := filepath.Glob(filepath.Join(dir, "revocations", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*Revocation
	for _, f := range files {
		v, err := readRevocation(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i].Signed.Object, all[j].Signed.Object
		if !a.IssuedAt.Equal(b.IssuedAt) {
			return a.IssuedAt.Before(b.IssuedAt)
		}
		return a.Sequence < b.Sequence
	})
	return all, nil
}

// A RevokeRequest is what `publisherd grant revoke` is told. Grant names one
// series or grant; empty means the whole relationship with Indexer, or with
// every indexer that has a grant if that is empty too.
type RevokeRequest struct {
	Grant       string
	Indexer     envelope.Name
	Scope       *grants.Scope // only these pages of Grant
	Disposition grants.Disposition
}

// Revoke signs revocations and stores them. From then on nothing is pushed
// under what they reach; DeliverRevocations brings them to the indexers. What
// was revoked in the same words before is not signed again. It needs no store.
// The sequence of a revocation is its time in milliseconds: the order of a
// publisher's own, which binds nobody.
func Revoke(dir string, q RevokeRequest, now time.Time) ([]*Revocation, error) {
	local, err := identity.Load(dir, now)
	if err != nil {
		return nil, err
	}
	bodies, err := q.bodies(dir, local.Name())
	if err != nil {
		return nil, err
	}
	before, err := Revocations(dir)
	if err != nil {
		return nil, err
	}
	var all []*Revocation
	for _, b := range bodies {
		v, err := sameRevocation(before, b)
		if err != nil {
			return nil, err
		}
		if v == nil {
			v = &Revocation{Indexer: b.indexer}
			v.Signed, err = grants.SignRevocation(b.body, grants.Stamp{
				Indexer: b.indexer, Epoch: local.Epoch(envelope.UseEnvelope), Sequence: uint64(now.UnixMilli()), At: now,
			}, local.Envelope)
			if err != nil {
				return nil, err
			}
			if err := v.write(dir); err != nil {
				return nil, err
			}
		}
		all = append(all, v)
	}
	return all, nil
}

// addressed is a revocation before it is signed.
type addressed struct {
	indexer envelope.Name
	body    grants.RevocationBody
}

// bodies are what has to be signed.
func (q *RevokeRequest) bodies(dir string, publisher envelope.Name) ([]addressed, error) {
	if q.Grant != "" {
		r, err := FindGrant(dir, q.Grant)
		if err != nil {
			return nil, err
		}
		if q.Indexer != "" && q.Indexer != r.Indexer {
			return nil, fmt.Errorf("%w: %.80q is not for %s", ErrNoGrant, q.Grant, q.Indexer)
		}
		b := r.Pair.Grant.Revoke(q.Disposition)
		if q.Scope != nil {
			b = r.Pair.Grant.RevokeScope(*q.Scope, q.Disposition)
		}
		return []addressed{{r.Indexer, b}}, nil
	}
	rels, err := Relationships(dir)
	if err != nil {
		return nil, err
	}
	var all []addressed
	seen := make(map[envelope.Name]bool)
	for _, r := range rels {
		if seen[r.Indexer] || q.Indexer != "" && q.Indexer != r.Indexer {
			continue
		}
		seen[r.Indexer] = true
		all = append(all, addressed{r.Indexer, grants.RevokeAll(publisher, q.Disposition)})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w for any such indexer", ErrNoGrant)
	}
	return all, nil
}

// sameRevocation finds one that says the same to the same indexer.
func sameRevocation(all []*Revocation, b addressed) (*Revocation, error) {
	want, err := envelope.Canonical(&b.body)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		got, err := envelope.Canonical(&v.Signed.Body)
		if err != nil {
			return nil, err
		}
		if v.Indexer == b.indexer && string(got) == string(want) {
			return v, nil
		}
	}
	return nil, nil
}

// ErrPending is returned while a revocation has not reached its indexer.
var ErrPending = errors.New("the revocation is signed and kept, and is delivered as soon as the indexer can be reached")

// Revocation reads one revocation as it stands now.
func (p *Publisher) Revocation(id envelope.Hash) (*Revocation, error) {
	return readRevocation(revocationPath(p.dir, id))
}
