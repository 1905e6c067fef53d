package publisher

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// An indexer that rotates its log says so in a new card, which the operator has
// to trust first. From then on the session goes on in the new log, once that is
// proven to continue the old one; what stands in the old log is verified by the
// card that was replaced, and lies under the tree with which that log ended.
// What is held of a series is compared by revision and state root, which no
// rotation touches, so nothing is sent again.

// logOf is the log in which an answer stands, by the note that came with it: the
// one that the indexer's card names, or one before a rotation.
func logOf(peer *identity.Peer, note []byte) (*identity.Log, error) {
	origin := translog.OriginOf(note)
	if log, ok := peer.LogOf(origin); ok {
		return log, nil
	}
	return nil, &Refused{Reason: grants.ErrUnknownPeer, Detail: fmt.Sprintf(
		"%s answers from the log %.80q, and the card of it that is trusted here names %q; get its new card, compare the fingerprint with its operator, and import it with trust add",
		peer.Card.Identity, origin, peer.Card.Log.Origin)}
}

// continueLog verifies that the log of Welcome goes on from the one in which the
// session's tree was seen, and keeps the end of that one with the new note.
func (s *session) continueLog(c evaluate.Continuation) error {
	log := s.peer.Card.Log
	tree, end, err := evaluate.Continue(s.tree, c, log.VKey, log.Origin, s.p.trust.Known(), s.name())
	if err != nil {
		return s.violation("its log does not continue the one that was seen before: %v", err)
	}
	b := s.p.store.NewBatch()
	defer b.Close()
	if err := durable.WriteJSON(b, endKey(s.name(), end.Origin), logEnd{end.Size, end.Root}); err != nil {
		return err
	}
	if err := b.Set(treeKey(s.name()), c.Note); err != nil {
		return err
	}
	if err := b.Commit(); err != nil {
		return err
	}
	s.p.log.Info("log rotated", "indexer", s.name(), "from", end.Origin, "entries", end.Size, "to", tree.Origin)
	s.tree, s.note = tree, c.Note
	return nil
}

// logEnd is the tree with which a log ended.
type logEnd struct {
	Size uint64        `json:"size"`
	Root envelope.Hash `json:"root"`
}

// seenOf is the tree that an answer in log has to be proven consistent with: the
// session's, or the end of a log that was rotated.
func (s *session) seenOf(log *identity.Log) (translog.Tree, error) {
	if log.Origin == s.tree.Origin {
		return s.tree, nil
	}
	var end logEnd
	ok, err := durable.ReadJSON(s.p.store, endKey(s.name(), log.Origin), &end)
	if err == nil && !ok {
		err = s.violation("an answer from the log %.80q, whose end is not known here", log.Origin)
	}
	return translog.Tree{Origin: log.Origin, Size: end.Size, Root: end.Root}, err
}

// grown is the tree and the note to go on with after an answer was accepted. An
// answer from a log that has ended moves neither.
func (s *session) grown(accepted *evaluate.Accepted, note []byte) (translog.Tree, []byte) {
	switch {
	case accepted.Own.Origin != s.tree.Origin:
		return s.tree, s.note
	case accepted.Own == accepted.Tree:
		return accepted.Tree, note
	}
	return accepted.Tree, s.note
}

// cards are the identity cards of both sides, and those that lead from the
// indexer's present one back to the log of note.
func (p *Publisher) cards(rel *Relationship, note []byte) ([]jsontext.Value, error) {
	peer, ok := p.trust.Lookup(rel.Indexer)
	if !ok {
		return nil, fmt.Errorf("%s is not trusted any more: its card is part of the evidence; import it again with trust add", rel.Indexer)
	}
	all := []jsontext.Value{p.local.Card.Object.Raw, peer.Card.Object.Raw}
	back := slices.IndexFunc(peer.Past, func(c *identity.Card) bool { return c.Log.Origin == translog.OriginOf(note) })
	for _, c := range peer.Past[:back+1] {
		all = append(all, c.Object.Raw)
	}
	return all, nil
}
