package zoo

import (
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Grant is what entries say of one.
type Grant struct {
	Series string // whose collection and subject it is of
	Name   string
	Life   time.Duration // from the first entry on
}

// A Script writes the entries of an honest indexer.
type Script struct {
	Drafts []Draft
	Now    time.Time // of the next entry

	indexer *identity.Local
	began   time.Time
	every   time.Duration // between two commits
	at      map[string]*standing
}

// standing is where a series stands.
type standing struct{ epoch, revision, asked uint64 }

// NewScript begins a script at some time.
func NewScript(indexer *identity.Local, began time.Time) *Script {
	return &Script{Now: began, indexer: indexer, began: began, every: time.Minute, at: make(map[string]*standing)}
}

// Hash stands for anything that a test names.
func Hash(name string) envelope.Hash { return envelope.TaggedHash("zoo", []byte(name)) }

// entry is an entry about the series of g as it stands.
func (s *Script) entry(g Grant, d translog.Decision, status translog.Status, pages translog.Set) Draft {
	at := s.at[g.Series]
	if at == nil {
		at = new(standing)
		s.at[g.Series] = at
	}
	return Draft{
		Header: envelope.Header{
			Type: envelope.Entry, Authority: s.indexer.Name().Authority(),
			Subject: envelope.Name(fmt.Sprintf("urn:uzpif-oi:rel:%x", Hash("subject of "+g.Series))), Epoch: 1,
			Sequence: uint64(len(s.Drafts)), IssuedAt: s.Now,
		},
		Entry: translog.Entry{
			CollectionRef: Hash("collection of " + g.Series), Decision: d, From: at.revision, GrantExpiresAt: envelope.At(s.began.Add(g.Life)),
			GrantID: Hash("grant " + g.Name), Indexer: s.indexer.Name(), JournalEpoch: at.epoch, LogOrigin: s.indexer.Card.Log.Origin,
			Objects: pages, PolicyHash: Hash("policy of " + g.Name), Profile: translog.Profile, Purposes: []string{"search.index"},
			ScopeHash: Hash("scope of " + g.Name), State: Hash(fmt.Sprint("state", at.epoch, at.revision)), Status: status, Through: at.revision,
		},
	}
}

func (s *Script) add(d Draft) {
	s.Drafts = append(s.Drafts, d)
	s.Now = s.Now.Add(s.every)
}

// Named is a set of n pages.
func Named(n int) translog.Set {
	leaves := make([][32]byte, n)
	for i := range leaves {
		leaves[i] = Hash(fmt.Sprint("page ", i))
	}
	return translog.SetOf(leaves)
}

// Counted is a set that claims no page singly.
func Counted(n uint64) translog.Set { return translog.Set{Count: n, Root: translog.SetOf(nil).Root} }

// A Part is one decision of a batch.
type Part struct {
	Decision translog.Decision
	Pages    int
}

// Batch commits a batch of so many revisions. One without parts moves the cursor
// alone.
func (s *Script) Batch(g Grant, revisions uint64, parts ...Part) { s.batch(g, revisions, 0, parts) }

// Answer commits the answer to the next request of a series: the cursor stays
// where it is.
func (s *Script) Answer(g Grant, parts ...Part) {
	at := s.at[g.Series]
	at.asked++
	s.batch(g, 0, at.asked, parts)
}

// Signal moves the cursor of a series as signals do: by no entry.
func (s *Script) Signal(g Grant, revisions uint64) { s.at[g.Series].revision += revisions }

func (s *Script) batch(g Grant, revisions, request uint64, parts []Part) {
	from := s.entry(g, "", "", translog.Set{})
	at := s.at[g.Series]
	at.revision += revisions
	id := Hash(fmt.Sprint("batch of ", g.Series, at.epoch, from.From, at.revision, len(s.Drafts)))
	if len(parts) == 0 {
		parts = []Part{{translog.Update, 0}}
	}
	now := s.Now
	for _, p := range parts {
		status := translog.Accepted
		switch {
		case p.Pages == 0:
			status = translog.Reconciled
		case p.Decision == translog.DeleteAck:
			status = translog.Removed
		case p.Decision == translog.Exclude:
			status = translog.Refused
		}
		d := s.entry(g, p.Decision, status, Named(p.Pages))
		d.IssuedAt, d.BatchID, d.From, d.Request = now, id, from.From, request // one commit has one time
		s.add(d)
	}
}

// Journal begins a new journal epoch of a series.
func (s *Script) Journal(g Grant, epoch uint64) { s.at[g.Series] = &standing{epoch: epoch} }

// Say adds an entry outside batches.
func (s *Script) Say(g Grant, d translog.Decision, status translog.Status, pages translog.Set) *Draft {
	s.add(s.entry(g, d, status, pages))
	return &s.Drafts[len(s.Drafts)-1]
}

// Rebind has g take its series over; left pages are outside its scope.
func (s *Script) Rebind(g Grant, left, pages uint64) {
	if left > 0 {
		s.Say(g, translog.Exclude, translog.OutOfScope, Counted(left))
	}
	s.Say(g, translog.Update, translog.Rebound, Counted(pages))
}

// Stop acknowledges a revocation; part, if it is set, names its scope.
func (s *Script) Stop(g Grant, revocation, part string, pages uint64) {
	s.revoked(s.Say(g, translog.RevokeAck, translog.Stopped, Counted(pages)), revocation, part)
}

// Delete acknowledges the deletion after it.
func (s *Script) Delete(g Grant, revocation, part string, pages int) {
	s.revoked(s.Say(g, translog.DeleteAck, translog.Revoked, Named(pages)), revocation, part)
}

func (s *Script) revoked(d *Draft, revocation, part string) {
	d.RevocationID = Hash("revocation " + revocation)
	if part != "" {
		d.ScopeHash = Hash("scope " + part)
	}
}
