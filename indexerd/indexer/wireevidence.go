package indexer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// ErrNoEvidence: nothing that is kept answers the question.
var ErrNoEvidence = errors.New("no evidence")

// A Question is what evidence is asked for: a page, or a revocation.
type Question struct {
	URL       string
	Publisher envelope.Name // of the page, if several offered it
	Deletion  bool          // that the page was deleted, also if it came again since

	Revocation envelope.Hash // of a revocation, and no page
	Series     string        // if it reached several
}

// Evidence makes the offline bundle about what was decided last about a page, or
// about a revocation. It discloses that page and no other. Of a page that was
// deleted only the hash of its URL is kept, so that whoever asks has to name it.
// Errors: ErrNoEvidence.
func (x *Indexer) Evidence(q Question) (raw []byte, err error) {
	r, done, err := x.released()
	if err != nil {
		return nil, err
	}
	defer done()
	m := &evidenceMaker{x: x, r: r}
	if !q.Revocation.IsZero() {
		return m.revocation(q)
	}
	if err := content.IsCanonical(q.URL); err != nil {
		return nil, err
	}
	recs, err := seriesOf(r, q.Publisher)
	if err != nil {
		return nil, err
	}
	var found []*seriesRecord
	var made [][]byte
	for _, rec := range recs {
		raw, err := m.page(rec, q)
		if errors.Is(err, errUnreleased) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if raw != nil {
			found, made = append(found, rec), append(made, raw)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w about %s", ErrNoEvidence, q.URL)
	case 1:
		return made[0], nil
	}
	// One page is held under one agreement; another may have deleted it before.
	names := make([]string, len(found))
	for i, rec := range found {
		names[i] = fmt.Sprintf("%s, series %s", rec.Publisher, rec.Series)
	}
	return nil, fmt.Errorf("%s is known under %d agreements (%q); name its publisher with --publisher, and its series with --series", q.URL, len(found), names)
}

// An evidenceMaker puts evidence together from one state of the rows.
type evidenceMaker struct {
	x *Indexer
	r durable.Reader
}

// A trace is where an entry stands, and what was signed with it.
type trace struct {
	log                              *translog.Log
	index, size                      uint64
	checkpoint, note                 []byte
	receipt, manifest                []byte // of a batch
	revocation, acknowledgementOfRev []byte // of a revocation
}

// page is nil if the series does not know the page.
func (m *evidenceMaker) page(rec *seriesRecord, q Question) ([]byte, error) {
	if q.Series != "" && q.Series != rec.Series {
		return nil, nil
	}
	h := sha256.Sum256([]byte(q.URL))
	var row catalogueRow
	ok, err := readRow(m.r, sidKey('C', rec.SID, h[:]...), &row)
	if err != nil {
		return nil, err
	}
	if ok && row.URL == q.URL && !q.Deletion {
		op := translog.OpPut
		return m.inBatch(rec, row.Log, row.Entry, row.Place, func(ev *evaluate.Evidence) {
			ev.Disclose(rec.leafKey(), op, row.JournalEpoch, row.Revision, q.URL, row.Digest)
		})
	}
	if ok && row.URL == q.URL && row.Purged != nil {
		return m.purged(rec, &row)
	}
	var gone deletedRow
	if ok, err = durable.ReadJSON(m.r, sidKey('D', rec.SID, h[:]...), &gone); err != nil || !ok {
		return nil, err
	}
	disclose := func(ev *evaluate.Evidence) {
		ev.Disclose(rec.leafKey(), translog.OpTombstone, gone.JournalEpoch, gone.Revision, q.URL, envelope.Hash{})
	}
	switch {
	case gone.Revocation.IsZero():
		return m.inBatch(rec, gone.Log, gone.Entry, gone.Place, disclose)
	case gone.Unheld:
		return nil, fmt.Errorf("%w: the payload of %s was not held when revocation %s came, so no deletion of it was signed", ErrNoEvidence, q.URL, gone.Revocation)
	}
	return m.revoked(rec, &gone, h, disclose)
}

// inBatch is about a leaf of an entry that answered a batch.
func (m *evidenceMaker) inBatch(rec *seriesRecord, number uint32, entry uint64, place int, disclose func(*evaluate.Evidence)) ([]byte, error) {
	logs := m.x.logs()
	if int(number) >= len(logs) {
		return nil, fmt.Errorf("log %d is none of this indexer", number)
	}
	t := &trace{log: logs[number], index: entry}
	_, e, err := t.entry()
	if err != nil {
		return nil, err
	}
	key, err := m.r.Get(sidKey('b', rec.SID, e.BatchID[:]...))
	if errors.Is(err, durable.ErrNotFound) {
		return nil, fmt.Errorf("%w: the receipt of batch %s is not kept any more", ErrNoEvidence, e.BatchID)
	}
	if err != nil {
		return nil, err
	}
	var answered answeredBatch
	var w oiv1.Committed
	ok, err := durable.ReadJSON(m.r, key, &answered)
	if err == nil && ok {
		err = proto.Unmarshal(answered.Committed, &w)
	}
	if err != nil || !ok {
		return nil, fmt.Errorf("the answer to batch %s cannot be read: %w", e.BatchID, err)
	}
	t.size, t.checkpoint, t.note, t.receipt, t.manifest = answered.TreeSize, w.Checkpoint, w.Note, w.Receipt, answered.Manifest
	return m.seal(rec, t, place, disclose)
}

// purged is about a page whose payload went at the end of its retention. Its
// entry answered nobody, and is shown under what is published now.
func (m *evidenceMaker) purged(rec *seriesRecord, row *catalogueRow) ([]byte, error) {
	var done donePurge
	ok, err := durable.ReadJSON(m.r, donePurgeKey(rec.SID, row.Purged.Step), &done)
	if err != nil || !ok {
		return nil, err
	}
	logs := m.x.logs()
	if int(done.Log) >= len(logs) {
		return nil, fmt.Errorf("log %d is none of this indexer", done.Log)
	}
	t := &trace{log: logs[done.Log], index: done.Entry}
	now := t.log.Published()
	if now.Tree.Size <= t.index {
		return nil, errUnreleased
	}
	t.size, t.checkpoint, t.note = now.Tree.Size, now.Checkpoint.Raw, now.Note
	return m.seal(rec, t, row.Purged.Place, func(ev *evaluate.Evidence) {
		ev.Disclose(rec.leafKey(), translog.OpTombstone, row.JournalEpoch, row.Revision, row.URL, envelope.Hash{})
	})
}

// revoked is about a page that was deleted after a revocation: its place is that
// of its hash among the rows of the same revocation.
func (m *evidenceMaker) revoked(rec *seriesRecord, gone *deletedRow, h [32]byte, disclose func(*evaluate.Evidence)) ([]byte, error) {
	t, err := m.acknowledged(rec, gone.Revocation, translog.DeleteAck)
	if err != nil {
		return nil, err
	}
	leaves, err := t.log.Released().SetLeaves(t.index)
	if err != nil {
		return nil, err
	}
	place := slices.Index(leaves, gone.Leaf)
	if place < 0 {
		return nil, fmt.Errorf("the leaf of the page with the hash %x is not in the set of entry %d", h, t.index)
	}
	return m.seal(rec, t, place, disclose)
}

// revocation is about the acknowledgement of a revocation, and no page.
func (m *evidenceMaker) revocation(q Question) ([]byte, error) {
	recs, err := seriesOf(m.r, q.Publisher)
	if err != nil {
		return nil, err
	}
	var found []*seriesRecord
	for _, rec := range recs {
		if q.Series != "" && q.Series != rec.Series {
			continue
		}
		ok, err := durable.ReadJSON(m.r, acknowledgementKey(q.Revocation, rec.SID, translog.RevokeAck), new(acknowledgement))
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, rec)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w of revocation %s", ErrNoEvidence, q.Revocation)
	case 1:
		t, err := m.acknowledged(found[0], q.Revocation, translog.RevokeAck)
		if err != nil {
			return nil, err
		}
		return m.seal(found[0], t, -1, nil)
	}
	names := make([]string, len(found))
	for i, rec := range found {
		names[i] = rec.Series
	}
	return nil, fmt.Errorf("revocation %s was acknowledged for %d series (%q); name one with --series", q.Revocation, len(found), names)
}

// acknowledged reads what was acknowledged of a revocation.
func (m *evidenceMaker) acknowledged(rec *seriesRecord, revocation envelope.Hash, kind translog.Decision) (*trace, error) {
	var a acknowledgement
	ok, err := durable.ReadJSON(m.r, acknowledgementKey(revocation, rec.SID, kind), &a)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: the %s of revocation %s has not come yet", ErrNoEvidence, kind, revocation)
	}
	var stored storedRevocation
	if ok, err = durable.ReadJSON(m.r, revocationKey(rec.Publisher, revocation), &stored); err != nil || !ok {
		return nil, fmt.Errorf("revocation %s cannot be read: %w", revocation, err)
	}
	log, err := m.x.logOf(a.Note)
	if err != nil {
		return nil, err
	}
	return &trace{
		log: log, index: a.Index, size: a.TreeSize, checkpoint: a.Checkpoint, note: a.Note, revocation: stored.Object, acknowledgementOfRev: a.Object,
	}, nil
}

// entry reads the entry itself.
func (t *trace) entry() (*envelope.Object, *translog.Entry, error) {
	raw, err := t.log.Released().Entry(t.index)
	if errors.Is(err, translog.ErrNotCovered) {
		return nil, nil, errUnreleased
	}
	if err != nil {
		return nil, nil, err
	}
	e := new(translog.Entry)
	o, err := envelope.Parse(raw)
	if err == nil {
		err = o.DecodeBody(e)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("entry %d: %w", t.index, err)
	}
	return o, e, nil
}

// seal adds the proofs, and what both sides agreed on. A place below 0 is that of
// no page.
func (m *evidenceMaker) seal(rec *seriesRecord, t *trace, place int, disclose func(*evaluate.Evidence)) ([]byte, error) {
	o, e, err := t.entry()
	if err != nil {
		return nil, err
	}
	pair, err := pairOf(m.r, e.GrantID)
	if err != nil {
		return nil, err
	}
	ev := &evaluate.Evidence{
		Acknowledgement: t.acknowledgementOfRev, Checkpoint: t.checkpoint, Claim: evaluate.ClaimOf(e.Decision), Entry: o.Raw,
		Grant: pair.Grant.Object.Raw, Policy: pair.Policy.Object.Raw, Manifest: t.manifest, Receipt: t.receipt, Revocation: t.revocation,
	}
	view := t.log.Released()
	if place >= 0 {
		leaves, err := view.SetLeaves(t.index)
		if err != nil {
			return nil, err
		}
		path, err := translog.SetPath(leaves, place)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", t.index, err)
		}
		ev.Set = evaluate.SetPlace{Index: uint64(place), Path: translog.Hashes(path)}
		disclose(ev)
	}
	path, err := view.InclusionAt(t.index, t.size)
	if err != nil {
		return nil, err
	}
	ev.Inclusion = translog.InclusionProof{Hashes: translog.Hashes(path), Index: t.index, Size: t.size}
	if err := t.publish(ev); err != nil {
		return nil, err
	}
	if pair.Grant.Body.Listing != grants.ListingPublic {
		ev.R = rec.Relation
	}
	if ev.Cards, err = m.cards(rec.Publisher, []byte(ev.Note)); err != nil {
		return nil, err
	}
	return evaluate.Seal(ev)
}

// publish gives the file the note that is published now, with its cosignatures,
// if that covers the entry's own checkpoint, and that checkpoint's otherwise.
func (t *trace) publish(ev *evaluate.Evidence) error {
	ev.Note = string(t.note)
	ev.Consistency = translog.ConsistencyProof{From: t.size, Hashes: []envelope.Hash{}, To: t.size}
	now := t.log.Published()
	if now.Tree.Size < t.size {
		return nil
	}
	path, err := now.Consistency(t.size)
	if err != nil {
		return err
	}
	ev.Note = string(now.Note)
	ev.Consistency = translog.ConsistencyProof{From: t.size, Hashes: translog.Hashes(path), To: now.Tree.Size}
	return nil
}

// cards are those of both sides, and those that lead from the indexer's present
// one back to the log of note.
func (m *evidenceMaker) cards(publisher envelope.Name, note []byte) ([]jsontext.Value, error) {
	peer, ok := m.x.trust.Lookup(publisher)
	if !ok {
		return nil, fmt.Errorf("%s is not trusted any more: its card is part of the evidence; import it again with trust add", publisher)
	}
	all := []jsontext.Value{peer.Card.Object.Raw, m.x.local.Card.Object.Raw}
	if m.x.local.Card.Log.Origin == translog.OriginOf(note) {
		return all, nil
	}
	past, err := m.x.local.PastCards()
	if err != nil {
		return nil, err
	}
	back := slices.IndexFunc(past, func(c *identity.Card) bool { return c.Log != nil && c.Log.Origin == translog.OriginOf(note) })
	for _, c := range past[:back+1] {
		all = append(all, c.Object.Raw)
	}
	return all, nil
}
