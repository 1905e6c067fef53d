package lint

import (
	"cmp"
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/fsck"
)

// An opener judges entries one by one. It is safe for concurrent use.
type opener struct {
	card   *identity.Card
	origin string
	now    time.Time
}

// open reads the entry at index. With an error, a *fsck.Flaw, the entry is
// returned all the same if its members can be read: what it claims is judged
// further, and so one lie is not found as many.
func (p *opener) open(raw []byte, index uint64) (*envelope.Object, *translog.Entry, error) {
	e := new(translog.Entry)
	o, err := envelope.AuthenticateInPlace(raw, e, envelope.Verifier{Keys: p.card, Type: envelope.Entry, Threshold: 1})
	if err != nil {
		return p.reopen(raw, index, err)
	}
	return o, e, flaw(p.place(o, e, index))
}

// flaw keeps a nil *fsck.Flaw from becoming an error.
func flaw(f *fsck.Flaw) error {
	if f == nil {
		return nil
	}
	return f
}

// lenient is an entry that is decoded whatever it claims.
type lenient translog.Entry

// reopen finds out which rule an entry breaks that was refused for why.
func (p *opener) reopen(raw []byte, index uint64, why error) (*envelope.Object, *translog.Entry, error) {
	o, err := envelope.Parse(raw)
	if err != nil || o.Type != envelope.Entry {
		return nil, nil, &fsck.Flaw{Rule: string(Form), Err: why}
	}
	var l lenient
	if err := o.DecodeBody(&l); err != nil {
		return nil, nil, &fsck.Flaw{Rule: string(Form), Err: why}
	}
	e := (*translog.Entry)(&l)
	if f := members(e); f != nil {
		return o, e, f
	}
	return o, e, &fsck.Flaw{Rule: string(p.keyRule(o, why)), Err: why}
}

// keyRule is the rule of a signature that was refused.
func (p *opener) keyRule(o *envelope.Object, why error) Rule {
	switch {
	case errors.Is(why, envelope.ErrSignature):
		return Signature
	case !errors.Is(why, envelope.ErrThreshold):
		return Form
	case o.Signer != p.card.Identity:
		return Indexer
	}
	for _, s := range o.Signatures {
		if _, known := p.card.LookupKey(s.KeyID); known {
			return KeyEpoch // it is known, and does not count here
		}
	}
	return UnknownKey
}

// members are the checks of Entry.Validate, each by the name of its rule.
func members(e *translog.Entry) *fsck.Flaw {
	batch, ok := e.Status.Allowed(e.Decision)
	switch {
	case !ok:
		return broken(Status, "status %.40q stands beside decision %.40q", string(e.Status), string(e.Decision))
	case batch && e.BatchID.IsZero():
		return broken(BatchID, "%s/%s without the batch_id of what was offered", e.Decision, e.Status)
	case !batch && !e.BatchID.IsZero():
		return broken(BatchID, "%s/%s with a batch_id, though nothing was offered", e.Decision, e.Status)
	case (e.Status == translog.Stopped || e.Status == translog.Revoked) == e.RevocationID.IsZero():
		return broken(RevocationID, "revocation_id and status %q contradict one another", string(e.Status))
	case e.Profile != translog.Profile:
		return broken(Profile, "profile %.40q", e.Profile)
	case e.From > e.Through || !batch && e.From != e.Through:
		return broken(Cursor, "revisions %d to %d of %s/%s", e.From, e.Through, e.Decision, e.Status)
	case batch && (e.Request != 0) != (e.From == e.Through) || !batch && e.Request != 0:
		return broken(Request, "request %d beside revisions %d to %d of %s/%s", e.Request, e.From, e.Through, e.Decision, e.Status)
	}
	return nil
}

// lasting refuses an entry that counts for some time only: what a log decided
// stays decided.
func lasting(o *envelope.Object) *fsck.Flaw {
	if o.NotBefore.IsZero() && o.ExpiresAt.IsZero() {
		return nil
	}
	return broken(Form, "it begins to count, or ceases to, at a time of its own")
}

// place judges what an authentic entry says of itself.
func (p *opener) place(o *envelope.Object, e *translog.Entry, index uint64) *fsck.Flaw {
	if f := cmp.Or(members(e), lasting(o)); f != nil {
		return f
	}
	switch {
	case o.Sequence != index:
		return broken(Sequence, "it says that it is entry %d", o.Sequence)
	case e.LogOrigin != p.origin:
		return broken(Origin, "it is of the log %.80q", e.LogOrigin)
	case e.Indexer != p.card.Identity || o.Signer != p.card.Identity:
		return broken(Indexer, "it is of %.80q, signed by %.80q", string(e.Indexer), string(o.Signer))
	case o.IssuedAt.After(p.now.Add(envelope.Skew)):
		return broken(Future, "it was issued at %s, and it is %s", envelope.At(o.IssuedAt), envelope.At(p.now))
	}
	return set(e)
}

// noPages is the root of a set that names no page.
var noPages = translog.SetOf(nil).Root

// set compares count and root of the pages with what the status promises.
func set(e *translog.Entry) *fsck.Flaw {
	n, named := e.Objects.Count, e.Objects.Root != noPages
	switch e.Status {
	case translog.Accepted, translog.Removed, translog.Refused, translog.Retention:
		if n == 0 || !named {
			return broken(Set, "%s/%s over %d pages under %s", e.Decision, e.Status, n, e.Objects.Root)
		}
	case translog.Revoked:
		if (n > 0) != named {
			return broken(Set, "%s/%s over %d pages under %s", e.Decision, e.Status, n, e.Objects.Root)
		}
	default:
		if named || e.Status == translog.Reconciled && n > 0 {
			return broken(Set, "%s/%s claims %d pages singly, under %s", e.Decision, e.Status, n, e.Objects.Root)
		}
	}
	return nil
}

func broken(rule Rule, format string, args ...any) *fsck.Flaw {
	return fsck.Flawf(string(rule), format, args...)
}
