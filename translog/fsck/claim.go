package fsck

import (
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A claim is what somebody says of the tree as it was at a size: a signed
// checkpoint, or the high-water mark.
type claim struct {
	key  string
	size uint64   // that the row or file is named by
	root [32]byte // known once it is accepted, or that of the mark
	kind Kind     // Checkpoint or Mark

	issued time.Time // of a checkpoint, once it was read

	raw   []byte // the artefact
	note  []byte // the same as a note, if there is one
	place place
	// probe, if it is set, only asks for the root: it is said nowhere.
	probe func(root [32]byte)
}

// A place is where a checkpoint stands, and so what its previous_hash is.
type place int

const (
	first     place = iota // the first one published at its size: chained
	refreshed              // published last: that of the first one at its size
	committed              // of a commit: none
	held                   // waits for witnesses: chained behind the last one
	ahead                  // published since the tree was pinned: it is only read
)

// A judge decides about claims, which come in ascending order of their sizes.
type judge struct {
	o         *Options
	vkey      string
	continues *translog.Continues
	anyLog    bool // continues is not known, and may be anything
	chained   bool // this source has every checkpoint that was published
	tail      bool // but for those before some size

	last    *firsts          // the one published first at the last size
	newest  *envelope.Object // the one published last
	refresh *pendingRefresh
	head    bool // whether the root of the newest tree was compared
}

type firsts struct {
	size         uint64
	id, previous envelope.Hash
	issued       time.Time
}

// pendingRefresh is the previous_hash of the checkpoint published last.
type pendingRefresh struct {
	key      string
	size     uint64
	previous envelope.Hash
}

// accept checks what a claim says by itself. It is false for one that says
// nothing about a size of this tree; unless it is ahead, the report has it then.
func (j *judge) accept(r *Report, c *claim, tree translog.Tree) bool {
	if c.kind == Checkpoint && c.probe == nil {
		r.Checkpoints++
		if err := j.open(c, tree.Origin); err != nil {
			r.Add(Finding{Kind: Checkpoint, Index: c.size, Key: c.key, Detail: err.Error(), Rule: ruleOf(err)})
			return false
		}
	}
	if c.place == ahead {
		return false
	}
	if c.size > tree.Size {
		kind := c.kind
		if c.place == first && kind == Checkpoint {
			kind = Stray
		}
		r.addf(kind, c.size, c.key, "it is about a tree of %d entries, this one has %d", c.size, tree.Size)
		return false
	}
	return true
}

// open reads a checkpoint, and checks it but for root and chain.
func (j *judge) open(c *claim, origin string) error {
	o, body, err := translog.ParseCheckpoint(c.raw)
	if err != nil {
		return &Flaw{"checkpoint-form", err}
	}
	if j.o.Keys != nil {
		v := envelope.Verifier{Keys: j.o.Keys, Type: envelope.Checkpoint, Threshold: 1}
		if _, err := envelope.Authenticate(c.raw, new(translog.Checkpoint), v); err != nil {
			return &Flaw{"checkpoint-key", err}
		}
	}
	c.issued = o.IssuedAt
	switch {
	case !o.NotBefore.IsZero() || !o.ExpiresAt.IsZero():
		return Flawf("checkpoint-form", "it counts for some time only")
	case body.TreeSize != c.size || o.Sequence != c.size:
		return Flawf("checkpoint-size", "it says that it is of size %d, sequence %d, and stands at %d", body.TreeSize, o.Sequence, c.size)
	case body.LogOrigin != origin:
		return Flawf("checkpoint-origin", "it is of the log %.80q", body.LogOrigin)
	case j.o.Indexer != "" && (body.Indexer != j.o.Indexer || o.Subject != j.o.Indexer):
		return Flawf("checkpoint-indexer", "it is of the indexer %.80q", string(body.Indexer))
	case !j.anyLog && !sameEnd(body.Continues, j.continues):
		return Flawf("checkpoint-continues", "it names another log than the one that this one continues")
	}
	if j.anyLog { // what the first one says counts for all
		j.anyLog, j.continues = false, body.Continues
	}
	c.root = body.Root
	if c.note != nil {
		t, err := translog.OpenNote(c.note, j.vkey)
		if err != nil {
			return &Flaw{"checkpoint-note", err}
		}
		if t != (translog.Tree{Origin: origin, Size: c.size, Root: c.root}) {
			return Flawf("checkpoint-note", "artefact and note differ")
		}
	}
	return j.chain(c, o, body.PreviousHash)
}

func sameEnd(a, b *translog.Continues) bool { return a == b || a != nil && b != nil && *a == *b }

// chain checks previous_hash by what came before. A broken link is told once.
func (j *judge) chain(c *claim, o *envelope.Object, previous envelope.Hash) error {
	id := o.ID
	switch c.place {
	case committed:
		if !previous.IsZero() {
			return Flawf("checkpoint-chain", "it has a previous_hash, and was not published")
		}
	case held:
		if j.last != nil && previous != j.last.id {
			return Flawf("checkpoint-chain", "its previous_hash is not that of the checkpoint published before")
		}
	case refreshed:
		j.refresh, j.newest = &pendingRefresh{c.key, c.size, previous}, o
		if j.last != nil && o.IssuedAt.Before(j.last.issued) {
			return Flawf("checkpoint-time", "it was issued at %s, before one that it comes after (%s)", envelope.At(o.IssuedAt), envelope.At(j.last.issued))
		}
	case first:
		was := j.last
		j.last = &firsts{c.size, id, previous, o.IssuedAt}
		switch {
		case was != nil && was.size == c.size && was.id != id:
			return Flawf("checkpoint-fork", "it is another one than was published first at that size")
		case was != nil && was.size == c.size:
			return nil
		case was != nil && o.IssuedAt.Before(was.issued):
			return Flawf("checkpoint-time", "it was issued at %s, before the one of size %d", envelope.At(o.IssuedAt), was.size)
		case !j.chained:
			return nil
		case was == nil && !j.tail && (c.size != 0 || !previous.IsZero()):
			return Flawf("checkpoint-chain", "nothing is there that was published before it")
		case was != nil && previous != was.id:
			return Flawf("checkpoint-chain", "its previous_hash is not the object_id of the checkpoint of size %d, which stands before it", was.size)
		}
	}
	return nil
}

// root compares what a claim says with the tree.
func (j *judge) root(r *Report, c *claim, root [32]byte) {
	if c.probe != nil {
		c.probe(root)
		return
	}
	kind := c.kind
	if c.place == committed && kind == Checkpoint {
		kind, j.head = Root, true
	}
	if c.root != root {
		rule := ""
		if c.kind == Checkpoint {
			rule = "checkpoint-root"
		}
		r.Add(Finding{Kind: kind, Index: c.size, Key: c.key, Rule: rule, Detail: fmt.Sprintf("it says that the root at size %d is %x, and it is %x", c.size, c.root, root)})
	}
}

// end checks what can be told when every claim is known.
func (j *judge) end(r *Report) {
	p := j.refresh
	j.refresh = nil
	switch {
	case p == nil:
	case j.last == nil || j.last.size != p.size:
		r.addf(Missing, p.size, fmt.Sprintf("checkpoint of size %d", p.size), "the first one published at that size is not there, or not the last")
	case j.last.previous != p.previous:
		r.Add(Finding{Kind: Checkpoint, Index: p.size, Key: p.key, Rule: "checkpoint-chain",
			Detail: fmt.Sprintf("its previous_hash is not that of the first one published at size %d", p.size)})
	}
}
