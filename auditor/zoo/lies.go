package zoo

import (
	"bytes"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Kind is one way to be dishonest.
type Kind struct {
	Name string
	Rule lint.Rule // by which it has to be found
	Lie  Lie
}

// edit changes entry i of the course before it is signed.
func edit(name string, rule lint.Rule, i int, change func(*Draft)) Kind {
	return Kind{name, rule, Lie{Drafts: func(all []Draft) []Draft {
		change(&all[i])
		return all
	}}}
}

// also goes on with the course.
func also(name string, rule lint.Rule, more func(s *Script)) Kind {
	return Kind{name, rule, Lie{Script: more}}
}

// renumber gives each draft the sequence of its place.
func renumber(all []Draft) []Draft {
	for i := range all {
		all[i].Sequence = uint64(i)
	}
	return all
}

// otherIndexer is whose log it is not.
const otherIndexer envelope.Name = "spiffe://other.example/indexer"

// Dishonest are the kinds of dishonest logs. stranger has other keys.
func Dishonest(stranger *identity.Local) []Kind {
	return slices.Concat(oneEntry(stranger), ofTerms(), ofConsent(), ofBatches(), ofPages(), ofTree(), ofCheckpoints())
}

// oneEntry lies in a single entry.
func oneEntry(stranger *identity.Local) []Kind {
	return []Kind{
		{"an entry that is not canonical", lint.Form, Lie{Octets: func(i int, raw []byte) []byte {
			if i == aUpdate {
				return slices.Insert(slices.Clone(raw), 1, ' ')
			}
			return raw
		}}},
		{"octets that are no entry", lint.Form, Lie{Octets: func(i int, raw []byte) []byte {
			if i == aLast {
				return []byte("what nobody can read")
			}
			return raw
		}}},
		{"a signature that does not verify", lint.Signature, Lie{Octets: func(i int, raw []byte) []byte {
			if i != aUpdate {
				return raw
			}
			raw = slices.Clone(raw)
			at := bytes.Index(raw, []byte(`"sig":"`)) + 20
			raw[at] = map[bool]byte{true: 'A', false: 'B'}[raw[at] != 'A']
			return raw
		}}},
		edit("an entry by a key that is not on the card", lint.UnknownKey, aUpdate, func(d *Draft) { d.Signer = stranger.Envelope }),
		edit("a key of another epoch", lint.KeyEpoch, aUpdate, func(d *Draft) { d.Epoch = 0 }),
		edit("an epoch that goes back", lint.KeyEpoch, aUpdate, func(d *Draft) { d.Epoch = 2 }),
		edit("an entry of another indexer", lint.Indexer, aUpdate, func(d *Draft) {
			d.Indexer, d.Signer = otherIndexer, stranger.Envelope
		}),
		edit("a wrong origin", lint.Origin, aUpdate, func(d *Draft) { d.LogOrigin = "log.search.example/9" }),
		edit("another profile", lint.Profile, aUpdate, func(d *Draft) { d.Profile = "uzpif-oi-log/2" }),
		edit("a sequence that is not the index", lint.Sequence, aUpdate, func(d *Draft) { d.Sequence += 7 }),
		edit("a time that goes back", lint.Time, aThird, func(d *Draft) { d.IssuedAt = d.IssuedAt.Add(-life) }),
		edit("a time to come", lint.Future, aLast, func(d *Draft) { d.IssuedAt = d.IssuedAt.Add(life / 2) }),
		edit("a status that the decision does not allow", lint.Status, aUpdate, func(d *Draft) { d.Status = translog.Removed }),
		edit("a set with neither batch_id nor a status that allows it", lint.BatchID, aUpdate, func(d *Draft) { d.BatchID = envelope.Hash{} }),
		edit("a batch_id where nothing was offered", lint.BatchID, aRebound, func(d *Draft) { d.BatchID = Hash("made up") }),
		edit("an acknowledgement of no revocation", lint.RevocationID, bStop, func(d *Draft) { d.RevocationID = envelope.Hash{} }),
		edit("an entry that expires", lint.Form, aUpdate, func(d *Draft) { d.ExpiresAt = d.IssuedAt.Add(life) }),
		edit("an entry that counts later", lint.Form, aUpdate, func(d *Draft) { d.NotBefore = d.IssuedAt.Add(time.Minute) }),
		edit("an empty set with a root", lint.Set, aUpdate, func(d *Draft) { d.Objects.Count = 0 }),
		edit("a full set without a root", lint.Set, aUpdate, func(d *Draft) { d.Objects = Counted(2) }),
		edit("an expiry that claims single pages", lint.Set, cExpired, func(d *Draft) { d.Objects = Named(3) }),
	}
}

// ofTerms changes what was agreed.
func ofTerms() []Kind {
	return []Kind{
		edit("another expiry of the same grant", lint.Terms, aThird, func(d *Draft) { d.GrantExpiresAt = envelope.At(d.GrantExpiresAt.Add(life)) }),
		edit("another policy of the same grant", lint.Terms, aThird, func(d *Draft) { d.PolicyHash = Hash("another") }),
		edit("another scope of the same grant", lint.Terms, aThird, func(d *Draft) { d.ScopeHash = Hash("another") }),
		edit("other purposes of the same grant", lint.Terms, aThird, func(d *Draft) { d.Purposes = []string{"ai.train"} }),
		edit("another subject of the same grant", lint.Terms, aThird, func(d *Draft) { d.Subject += "00" }),
		edit("another collection of the same grant", lint.Terms, aThird, func(d *Draft) { d.CollectionRef = Hash("another") }),
		edit("a deletion of another scope than was revoked", lint.Terms, aPartGone, func(d *Draft) { d.ScopeHash = Hash("another") }),
	}
}

// ofConsent goes on without it.
func ofConsent() []Kind {
	g := grantsOfCourse
	return []Kind{
		also("an include under an expired grant", lint.Expired, func(s *Script) { s.Batch(g.C1, 1, Part{translog.Include, 1}) }),
		also("an update under an expired grant", lint.Expired, func(s *Script) { s.Batch(g.C1, 1, Part{translog.Update, 1}) }),
		also("a rebind to a grant that has ended", lint.Expired, func(s *Script) { s.Rebind(Grant{"c", "c2", 0}, 0, 3) }),
		edit("an include under a grant that was logged as expired", lint.Expired, aRebound, func(d *Draft) {
			d.GrantID, d.PolicyHash, d.ScopeHash = Hash("grant a1"), Hash("policy of a1"), Hash("scope of a1")
			d.Decision, d.Status = translog.Exclude, translog.GrantExpired
		}).and(func(all []Draft) {
			d := &all[aSecond]
			d.GrantID, d.PolicyHash, d.ScopeHash = Hash("grant a1"), Hash("policy of a1"), Hash("scope of a1")
		}),
		also("an entry after revoke-ack", lint.Revoked, func(s *Script) { s.Batch(g.B1, 1, Part{translog.Include, 1}) }),
		also("a refusal after revoke-ack, as if there were consent to refuse", lint.Revoked, func(s *Script) { s.Batch(g.B1, 1, Part{translog.Exclude, 1}) }),
		also("a rebind to a grant all of which was revoked", lint.Revoked, func(s *Script) { s.Rebind(g.B1, 0, 0) }),
		also("a batch under a grant that another took over from", lint.Superseded, func(s *Script) { s.Batch(g.A1, 1, Part{translog.Include, 1}) }),
		also("a batch under a new grant that took nothing over", lint.Rebind, func(s *Script) { s.Batch(Grant{"a", "a4", life}, 1, Part{translog.Include, 1}) }),
		{"entries dated back before a checkpoint without them", lint.Time, dated(-30 * time.Minute)},
		{"a deletion after a revocation that was never acknowledged", lint.Unrevoked, Lie{Drafts: func(all []Draft) []Draft {
			return renumber(slices.Delete(all, bStop, bStop+1))
		}}},
		also("a revocation acknowledged twice", lint.RevokeTwice, func(s *Script) { s.Stop(g.B1, "of all", "", 0) }),
		also("a deletion acknowledged twice", lint.RevokeTwice, func(s *Script) { s.Delete(g.B1, "of all", "", 0) }),
	}
}

// dated has the last three entries, which no checkpoint of the course but the
// newest covers, come long after the one before, and be dated as if they had not.
func dated(by time.Duration) Lie {
	return Lie{
		Publish: func([]uint64) []uint64 { return []uint64{0, 2, 5, 9, 14, eSecond, 25} },
		Checkpoint: func(n uint64, h *envelope.Header, _ *translog.Checkpoint) {
			if n >= eSecond {
				h.IssuedAt = h.IssuedAt.Add(-by)
			}
		},
	}
}

// and makes one more change.
func (k Kind) and(change func([]Draft)) Kind {
	first := k.Lie.Drafts
	k.Lie.Drafts = func(all []Draft) []Draft {
		all = first(all)
		change(all)
		return all
	}
	return k
}

// ofBatches lies about the journal.
func ofBatches() []Kind {
	g := grantsOfCourse
	return []Kind{
		edit("one batch in two commits", lint.Batch, aUpdate, func(*Draft) {}).and(func(all []Draft) { all[aUpdate].BatchID = all[aInclude].BatchID }),
		{"one batch with the entry of another in its middle", lint.Batch, Lie{Drafts: func(all []Draft) []Draft {
			all[aRefused], all[bInclude] = all[bInclude], all[aRefused]
			all[aRefused].IssuedAt, all[bInclude].IssuedAt = all[bInclude].IssuedAt, all[aRefused].IssuedAt
			return renumber(all)
		}}},
		also("one batch in two collections", lint.Batch, func(s *Script) {
			s.Batch(g.D1, 1, Part{translog.Update, 1})
			s.Drafts[len(s.Drafts)-1].BatchID = s.Drafts[aLast].BatchID
		}),
		edit("a batch with two stretches", lint.Batch, aRemoved, func(d *Draft) { d.Through++ }),
		edit("one batch under two grants", lint.Batch, aRemoved, func(d *Draft) {
			d.GrantID, d.PolicyHash, d.ScopeHash = Hash("grant a2"), Hash("policy of a2"), Hash("scope of a2")
		}),
		edit("one batch that leads to two states", lint.Batch, aRemoved, func(d *Draft) { d.State = Hash("another") }),
		edit("a decision twice in one batch", lint.Batch, aRemoved, func(d *Draft) { d.Decision, d.Status = translog.Update, translog.Accepted }),
		edit("a batch of more pages than revisions", lint.Batch, aThird, func(d *Draft) { d.Decision, d.Objects = translog.Include, Named(2) }),
		edit("a batch whose decisions are over more pages than it has revisions", lint.Batch, aRefused, func(d *Draft) { d.Objects = Named(2) }),
		edit("a cursor that jumps", lint.Cursor, aThird, func(d *Draft) { d.From, d.Through = d.From+1, d.Through+1 }),
		edit("a cursor that goes back", lint.Cursor, aThird, func(d *Draft) { d.From-- }),
		edit("a cursor that moves outside batches", lint.Cursor, aRebound, func(d *Draft) { d.From, d.Through = d.From+1, d.Through+1 }),
		edit("revisions that end before they begin", lint.Cursor, aThird, func(d *Draft) { d.Through = d.From - 1 }),
		edit("a new journal epoch from its middle", lint.Cursor, dReconciled, func(d *Draft) { d.From = 1 }),
		edit("an answer that moves the cursor", lint.Request, eSecond, func(d *Draft) { d.From-- }),
		edit("an answer without the number of its request", lint.Request, eSecond, func(d *Draft) { d.Request = 0 }),
		edit("an answer at a revision before the cursor", lint.Cursor, eSecond, func(d *Draft) { d.From, d.Through = d.From-3, d.Through-3 }),
		edit("a request number that goes back", lint.Request, eSecond, func(d *Draft) { d.Request = 1 }),
		edit("a request number that is left out", lint.Request, eSecond, func(d *Draft) { d.Request = 3 }),
		edit("a request number that goes on from another journal epoch", lint.Request, eUnstopped, func(d *Draft) { d.Request = 3 }),
		edit("a push that is said to answer a request", lint.Request, aThird, func(d *Draft) { d.Request = 1 }),
		edit("a revocation that is said to answer a request", lint.Request, eStop, func(d *Draft) { d.Request = 3 }),
		also("an answer in a journal epoch that has ended", lint.Cursor, func(s *Script) {
			s.Journal(g.E1, 111)
			s.Signal(g.E1, 50)
			s.Answer(g.E1, Part{translog.Update, 1})
		}),
		also("a journal epoch that has ended", lint.Cursor, func(s *Script) {
			s.Journal(g.D1, 5)
			s.Batch(g.D1, 1, Part{translog.Update, 1})
		}),
	}
}

// ofPages counts more than there can be.
func ofPages() []Kind {
	g := grantsOfCourse
	return []Kind{
		edit("more deletions than members", lint.Pages, aRemoved, func(d *Draft) { d.Objects = Named(6) }),
		edit("more updates than members", lint.Pages, aUpdate, func(d *Draft) { d.Objects = Named(6) }),
		edit("more pages whose retention ended than members", lint.Pages, cRetention, func(d *Draft) { d.Objects = Named(5) }),
		edit("more pages taken over than were offered", lint.Pages, aRebound, func(d *Draft) { d.Objects = Counted(6) }),
		edit("more pages out of scope than were offered", lint.Pages, aOutside, func(d *Draft) { d.Objects = Counted(8) }),
		edit("more deletions after a revocation than members", lint.Pages, bGone, func(d *Draft) { d.Objects = Named(4) }),
		edit("a revocation that reaches more than members", lint.Pages, bStop, func(d *Draft) { d.Objects = Counted(4) }),
		edit("an expiry of more than members", lint.Pages, cExpired, func(d *Draft) { d.Objects = Counted(4) }),
		also("a deletion of what was deleted before", lint.Pages, func(s *Script) { s.Say(g.B1, translog.DeleteAck, translog.Retention, Named(4)) }),
	}
}
