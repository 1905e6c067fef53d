package evaluate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// matchChecks are step 2 of UZPIF-OI 9.1.4: that all these objects speak of
// one grant, one page and one decision, and were in force when it was made.
func (v *verification) matchChecks() []check {
	given := fmt.Sprintf("The grant is from %s to %s, and was in force with its policy when the entry was signed.", v.publisher, v.indexer)
	checks := []check{
		{Match, RuleGrant, given, v.matchGrant},
		{Match, RuleGrant, "The entry names this grant, this policy, their scope and their purposes.", v.matchTerms},
		{Match, RuleParties, "The entry's subject is the publisher, or the name that hides it.", v.matchSubject},
		{Match, RuleLeaf, "What is claimed is what the entry decided.", v.matchClaim},
	}
	answers := "The acknowledgement answers this revocation, which reaches the grant, and names this very entry."
	if v.ev.Claim != ClaimRevoked {
		answers = "The acknowledgement answers this revocation, which reaches the page, and names this very entry."
		checks = append(checks,
			check{Match, RuleScope, "The page is inside the scope of the grant.", v.matchScope},
			check{Match, RuleLeaf, "The page, with what is disclosed of it, is one of the pages that the entry decided upon.", v.matchLeaf})
	}
	if v.receipt.Object != nil {
		checks = append(checks,
			check{Match, RuleBatch, "The entry answers the batch that the publisher signed.", v.matchManifest},
			check{Match, RuleEntries, "The receipt is for the publisher, speaks of the same grant and batch, and lists this very entry.", v.matchReceipt})
	}
	if v.acknowledgement.Object != nil {
		checks = append(checks, check{Match, RuleRevocation, answers, v.matchRevocation})
	}
	return append(checks, check{Match, RuleSequence, "Entry, checkpoint and receipt are of one log and one commit, none signed before its time.", v.matchCommit})
}

// matchGrant joins grant and policy as of the entry's time. A revocation, a
// deletion after one, or at the end of the retention, may come after the grant's
// end.
func (v *verification) matchGrant() (string, error) {
	pair, err := grants.ReadPair(v.ev.Grant, v.ev.Policy)
	if err != nil {
		return "", fail(Match, RulePolicy, "%w", err)
	}
	at, end := v.entry.IssuedAt, pair.ExpiresAt()
	status := v.entry.body.Status
	if late := status == translog.Revoked || status == translog.Retention || status == translog.Stopped; late && !at.Before(end) {
		at = end.Add(-time.Second)
	}
	v.pair, err = grants.OpenPair(v.ev.Grant, v.ev.Policy, grants.Verifier{
		Keys: v.publisherKeys, Now: at, Publisher: v.publisher, Indexer: v.indexer,
		MaxLifetime: math.MaxInt64, // how long a grant may last is between the two parties
	})
	if err != nil {
		return "", fail(Match, RuleGrant, "%w", err)
	}
	detail := "until " + envelope.At(end).String()
	if !v.o.Now.Before(end) {
		detail += "; it has expired since"
	}
	return detail, nil
}

func (v *verification) matchTerms() (string, error) {
	g, e := v.pair.Grant, &v.entry.body
	want := entryTerms(e)
	want.indexer, want.grant, want.policy, want.scope = v.indexer, g.Object.ID, v.pair.Policy.Object.ID, g.ScopeHash
	want.purposes = g.Body.Purposes.Strings()
	if !e.RevocationID.IsZero() { // it may be of a part of the scope: see matchRevocation
		want.scope = e.ScopeHash
	}
	if err := entryTerms(e).match(envelope.Entry, want); err != nil {
		return "", err
	}
	if !e.GrantExpiresAt.Equal(g.Object.ExpiresAt) {
		return "", fail(Match, RuleGrant, "the entry says that the grant expires at %s, the grant at %s", e.GrantExpiresAt, envelope.At(g.Object.ExpiresAt))
	}
	return strings.Join(want.purposes, ", "), nil
}

// matchSubject opens a blinded subject, and refuses a salt that opens nothing.
func (v *verification) matchSubject() (string, error) {
	want, detail := v.publisher, "named in the public log"
	if v.pair.Grant.Body.Listing != grants.ListingPublic {
		if v.ev.R == (Salt{}) {
			return "", fail(Match, RuleParties, "the grant hides the publisher, and r, which opens its name, is not in the file")
		}
		want, detail = translog.RelationshipName(v.ev.R, v.publisher), "hidden in the public log"
	} else if v.ev.R != (Salt{}) {
		return "", fail(Match, RuleParties, "the grant does not hide the publisher, but r is in the file")
	}
	if v.entry.Subject != want {
		return "", fail(Match, RuleParties, "the entry's subject is %s, want %s", v.entry.Subject, want)
	}
	return detail, nil
}

// matchClaim compares claim, decision, status and operation, and which other
// objects the status asks for.
func (v *verification) matchClaim() (string, error) {
	e := &v.entry.body
	said := fmt.Sprintf("%s/%s", e.Decision, e.Status)
	switch {
	case v.ev.Claim == "" || ClaimOf(e.Decision) != v.ev.Claim:
		return "", fail(Match, RuleLeaf, "the claim is %.40q, the entry decided %s", string(v.ev.Claim), said)
	case v.ev.Claim == ClaimRevoked:
		if e.Objects.Root != translog.SetOf(nil).Root {
			return "", fail(Match, RuleLeaf, "the entry, %s, decided upon pages by name, which no such entry does", said)
		}
	case e.Objects.Count == 0:
		return "", fail(Match, RuleLeaf, "the entry, %s, decided upon no page by name", said)
	case !fits(v.ev.Leaf.Op, e.Decision):
		return "", fail(Match, RuleLeaf, "the entry decided %s, the page's operation is %d", said, v.ev.Leaf.Op)
	}
	switch {
	case !e.BatchID.IsZero() && v.receipt.Object == nil:
		return "", fail(Match, RuleBatch, "the entry answers a batch, and the file holds no receipt for it")
	case e.BatchID.IsZero() && v.receipt.Object != nil:
		return "", fail(Match, RuleBatch, "the entry, %s, answers no batch, but the file holds a receipt", said)
	case !e.RevocationID.IsZero() && v.acknowledgement.Object == nil:
		return "", fail(Match, RuleRevocation, "the entry answers a revocation, and the file does not hold its acknowledgement")
	case e.RevocationID.IsZero() && v.acknowledgement.Object != nil:
		return "", fail(Match, RuleRevocation, "the entry, %s, answers no revocation, but the file holds an acknowledgement", said)
	}
	return said, nil
}

// matchScope does not ask where a page lies that is taken away.
func (v *verification) matchScope() (string, error) {
	if v.ev.Leaf.Op == translog.OpTombstone {
		return "a deletion needs no scope", nil
	}
	if err := v.pair.Grant.Body.Scope.Match(v.ev.URL); err != nil {
		return "", fail(Match, RuleScope, "%w", err)
	}
	return "", nil
}

func (v *verification) matchLeaf() (string, error) {
	e, l := &v.entry.body, v.ev.Leaf
	if err := translog.VerifySetPath(e.Objects, v.ev.Set.Index, l.open(v.ev.URL, v.ev.Digest), translog.Path(v.ev.Set.Path)); err != nil {
		return "", because(err, fail(Match, RuleLeaf, "the path does not lead from this page, as number %d of %d, to the root of the entry's pages",
			v.ev.Set.Index+1, e.Objects.Count))
	}
	if l.Revision == 0 || !e.BatchID.IsZero() && (l.Revision > e.Through || e.From != e.Through && l.Revision <= e.From) {
		return "", fail(Match, RuleBatch, "revision %d is not among those after %d, up to %d", l.Revision, e.From, e.Through)
	}
	return fmt.Sprintf("page %d of %d, revision %d", v.ev.Set.Index+1, e.Objects.Count, l.Revision), nil
}

func (v *verification) matchManifest() (string, error) {
	m, e := v.manifest, &v.entry.body
	switch {
	case m.ID != e.BatchID:
		return "", fail(Match, RuleBatch, "the entry names batch %s, the manifest is %s", e.BatchID, m.ID)
	case m.Audience != v.indexer:
		return "", fail(Match, RuleParties, "the manifest is addressed to %s", m.Audience)
	case m.body.GrantID != e.GrantID || m.body.CollectionRef != e.CollectionRef || m.body.JournalEpoch != e.JournalEpoch ||
		m.body.From != e.From || m.body.Through != e.Through || m.body.Request != e.Request:
		return "", fail(Match, RuleBatch, "manifest and entry differ in grant, collection, revisions or request")
	case m.body.Offered.Count < e.Objects.Count:
		return "", fail(Match, RuleBatch, "%d pages were offered, the entry is over %d", m.body.Offered.Count, e.Objects.Count)
	case v.entry.IssuedAt.Before(m.IssuedAt.Add(-Window)):
		return "", fail(Match, RuleTime, "the entry is of %s, more than %s before the manifest (%s)",
			envelope.At(v.entry.IssuedAt), Window, envelope.At(m.IssuedAt))
	}
	return "", nil
}

func (v *verification) matchReceipt() (string, error) {
	o, body := v.receipt.Object, &v.receipt.body
	switch {
	case o.Audience != v.publisher || body.Publisher != v.publisher:
		return "", fail(Match, RuleParties, "the receipt is for %s (audience %s)", body.Publisher, o.Audience)
	case o.Subject != v.entry.Subject:
		return "", fail(Match, RuleParties, "the receipt's subject is %s, the entry's %s", o.Subject, v.entry.Subject)
	}
	if err := receiptTerms(body).match(o.Type, entryTerms(&v.entry.body)); err != nil {
		return "", err
	}
	i := slices.IndexFunc(body.Entries, func(ref translog.EntryRef) bool { return ref.Index == v.entry.Sequence })
	if i < 0 {
		return "", fail(Match, RuleEntries, "the receipt does not list entry %d", v.entry.Sequence)
	}
	return "", matchRef(body.Entries[i], v.entry)
}

func (v *verification) matchRevocation() (string, error) {
	rev, err := grants.OpenRevocation(v.ev.Revocation, grants.Verifier{
		Keys: v.publisherKeys, Now: v.entry.IssuedAt, Publisher: v.publisher, Indexer: v.indexer,
	})
	if err != nil {
		return "", fail(Match, RuleRevocation, "%w", err)
	}
	o, ack, e := v.acknowledgement.Object, &v.acknowledgement.body, &v.entry.body
	scope, err := rev.ScopeHash(v.pair.Grant)
	if err != nil {
		return "", err
	}
	switch {
	case e.ScopeHash != scope:
		return "", fail(Match, RuleScope, "the entry says that %s of the grant was revoked, the revocation says %s", e.ScopeHash, scope)
	case e.RevocationID != rev.Object.ID || ack.RevocationID != rev.Object.ID:
		return "", fail(Match, RuleRevocation, "entry and acknowledgement name %s and %s, the revocation is %s", e.RevocationID, ack.RevocationID, rev.Object.ID)
	case v.ev.Claim == ClaimRevoked && !rev.Reaches(v.pair.Grant):
		return "", fail(Match, RuleRevocation, "the revocation does not reach this grant")
	case v.ev.Claim != ClaimRevoked && !rev.ReachesPage(v.pair.Grant, v.ev.URL):
		return "", fail(Match, RuleRevocation, "the revocation does not reach this page under this grant")
	case o.Audience != v.publisher || ack.Publisher != v.publisher || o.Subject != v.entry.Subject:
		return "", fail(Match, RuleParties, "the acknowledgement is for %s (audience %s, subject %s)", ack.Publisher, o.Audience, o.Subject)
	case ack.AckType != e.Decision || ack.Entry.Index != v.entry.Sequence || ack.Entry.ObjectID != v.entry.ID || ack.Count != e.Objects.Count:
		return "", fail(Match, RuleEntries, "the acknowledgement is of a %s of %d pages in entry %d, %s", ack.AckType, ack.Count, ack.Entry.Index, ack.Entry.ObjectID)
	case !ack.GrantID.IsZero() && ack.GrantID != e.GrantID || ack.PolicyHash != e.PolicyHash || ack.ScopeHash != e.ScopeHash:
		return "", fail(Match, RuleGrant, "the acknowledgement names another grant, policy or scope than the entry")
	case !ack.CheckpointRef.IsZero() && ack.CheckpointRef != v.checkpoint.ID:
		return "", fail(Match, RuleCheckpoint, "the acknowledgement names checkpoint %s, the file holds %s", ack.CheckpointRef, v.checkpoint.ID)
	case o.Sequence != v.entry.Sequence || o.Epoch != v.entry.Epoch:
		return "", fail(Match, RuleSequence, "the acknowledgement has epoch %d and sequence %d, the entry %d and %d", o.Epoch, o.Sequence, v.entry.Epoch, v.entry.Sequence)
	}
	v.revocation = rev
	what := "a part of the grant's scope"
	if rev.ReachesWhole(v.pair.Grant) {
		what = "the whole grant"
	}
	return fmt.Sprintf("of %s, disposition %s, signed at %s", what, rev.Body.Disposition, envelope.At(rev.Object.IssuedAt)), nil
}

// matchCommit compares log, checkpoint, positions and times.
func (v *verification) matchCommit() (string, error) {
	origin := v.entry.body.LogOrigin
	var err error
	if v.receipt.Object != nil {
		err = matchCheckpoint(v.checkpoint, v.receipt.body.Checkpoint, origin)
	} else {
		err = ownCheckpoint(v.checkpoint, origin)
	}
	if err != nil {
		return "", err
	}
	if err := v.matchOrder(); err != nil {
		return "", err
	}
	for _, o := range []*envelope.Object{v.entry.Object, v.checkpoint.Object, v.receipt.Object, v.acknowledgement.Object} {
		if o != nil && o.IssuedAt.After(v.o.Now.Add(envelope.Skew)) {
			return "", fail(Match, RuleTime, "%s: issued at %s, which is still to come", o.Type, envelope.At(o.IssuedAt))
		}
	}
	return "log " + origin, nil
}
