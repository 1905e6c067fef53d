package indexer

import (
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A LogStatus is what `indexerd log status --json` prints.
type LogStatus struct {
	Origin    string              `json:"origin"`
	VKey      string              `json:"vkey"`
	URL       string              `json:"url"`
	Size      uint64              `json:"size"`
	Root      envelope.Hash       `json:"root"`
	Published PublishedStatus     `json:"published"`
	Continues *translog.Continues `json:"continues,omitempty"` // the log before, if there was one
	Frozen    *Frozen             `json:"frozen,omitempty"`
	Ended     []EndedStatus       `json:"ended"` // the logs before, the first one first
}

// A PublishedStatus is the checkpoint that the public side shows.
type PublishedStatus struct {
	Size     uint64        `json:"size"`
	Root     envelope.Hash `json:"root"`
	IssuedAt envelope.Time `json:"issued_at"`
}

// An EndedStatus is a log that signs nothing more, and stays served.
type EndedStatus struct {
	Origin string        `json:"origin"`
	VKey   string        `json:"vkey"`
	URL    string        `json:"url"`
	Size   uint64        `json:"size"`
	Root   envelope.Hash `json:"root"`
}

// LogStatus reads where the log stands, and what came before it.
func (x *Indexer) LogStatus() (LogStatus, error) {
	urls := x.logURLs()
	tree, published := x.tlog.Released().Tree, x.tlog.Published()
	s := LogStatus{
		Origin: x.tlog.Origin(), VKey: x.tlog.VerifierKey(), URL: urls[x.tlog.Origin()], Size: tree.Size, Root: tree.Root,
		Published: PublishedStatus{published.Tree.Size, published.Tree.Root, envelope.At(published.Checkpoint.IssuedAt)},
		Continues: x.tlog.Continues(), Frozen: x.frozen, Ended: []EndedStatus{},
	}
	for _, l := range x.ended {
		tree := l.Released().Tree
		s.Ended = append(s.Ended, EndedStatus{l.Origin(), l.VerifierKey(), urls[l.Origin()], tree.Size, tree.Root})
	}
	return s, x.store.Err()
}
