package zoo

import (
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// serve changes what lies at paths that begin in one way; nil is not there.
func serve(name string, rule lint.Rule, prefix string, change func([]byte) []byte) Kind {
	return Kind{name, rule, Lie{Serve: func(path string, body []byte) []byte {
		if strings.HasPrefix(path, prefix) {
			return change(slices.Clone(body))
		}
		return body
	}}}
}

func gone([]byte) []byte { return nil }

func flip(b []byte) []byte {
	b[len(b)/2] ^= 1
	return b
}

// ofTree changes what was published.
func ofTree() []Kind {
	return []Kind{
		{"an entry dropped from the log", lint.Sequence, Lie{Log: func(all [][]byte) [][]byte { return slices.Delete(all, aUpdate, aUpdate+1) }}},
		{"entries in another order", lint.Sequence, Lie{Log: func(all [][]byte) [][]byte {
			all[aUpdate], all[aRemoved] = all[aRemoved], all[aUpdate]
			return all
		}}},
		{"an entry that is there twice", lint.Sequence, Lie{Log: func(all [][]byte) [][]byte { return slices.Insert(all, aUpdate, all[aUpdate]) }}},
		serve("an entry changed after publication", lint.Form, "/tile/entries/", flip),
		serve("a tile changed after publication", lint.Tile, "/tile/0/", flip),
		serve("entries that are not served", lint.Missing, "/tile/entries/", gone),
		serve("a bundle that is cut short", lint.Unreadable, "/tile/entries/", func(b []byte) []byte { return b[:len(b)-1] }),
		serve("a single entry that is another one", lint.Proof, "/entry/", func(b []byte) []byte { return append(b, ' ') }),
		serve("a proof of the wrong size", lint.Unreadable, "/proof/inclusion", func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"size":25`, `"size":24`, 1))
		}),
		serve("a consistency proof that does not verify", lint.Proof, "/proof/consistency", func(b []byte) []byte {
			at := strings.Index(string(b), "sha256:") + len("sha256:")
			if b[at] == 'a' {
				b[at] = 'b'
			} else {
				b[at] = 'a'
			}
			return b
		}),
	}
}

// checkpoint changes what is signed at a size.
func checkpoint(name string, rule lint.Rule, size uint64, change func(*envelope.Header, *translog.Checkpoint)) Kind {
	return Kind{name, rule, Lie{Checkpoint: func(n uint64, h *envelope.Header, c *translog.Checkpoint) {
		if n == size {
			change(h, c)
		}
	}}}
}

func refresh(name string, rule lint.Rule, change func(*envelope.Header, *translog.Checkpoint)) Kind {
	return Kind{name, rule, Lie{Refresh: change}}
}

// ofCheckpoints lies in a checkpoint.
func ofCheckpoints() []Kind {
	type header = *envelope.Header
	type body = *translog.Checkpoint
	return []Kind{
		{"a checkpoint that skips its predecessor", lint.CheckpointChain, Lie{Previous: func(n uint64, all []*envelope.Object) envelope.Hash {
			switch {
			case len(all) == 0:
				return envelope.Hash{}
			case n == 14:
				return all[len(all)-2].ID
			}
			return all[len(all)-1].ID
		}}},
		{"a predecessor that is hidden", lint.CheckpointChain, Lie{Serve: func(path string, body []byte) []byte {
			if path == "/signed-checkpoint/9.json" {
				return nil
			}
			return body
		}}},
		{"nothing published before the first", lint.CheckpointChain, Lie{Publish: func(sizes []uint64) []uint64 { return sizes[1:] }}},
		refresh("a refresh that names another predecessor", lint.CheckpointChain, func(_ header, c body) { c.PreviousHash = Hash("another") }),
		checkpoint("an old root that the entries do not give", lint.CheckpointRoot, 9, func(_ header, c body) { c.Root = Hash("another") }),
		checkpoint("a checkpoint of another log", lint.CheckpointOrigin, 9, func(_ header, c body) { c.LogOrigin = "log.search.example/9" }),
		checkpoint("a checkpoint at another size than its own", lint.CheckpointSize, 9, func(_ header, c body) { c.TreeSize = 8 }),
		checkpoint("a sequence that is not the tree_size", lint.CheckpointSize, 9, func(h header, _ body) { h.Sequence = 8 }),
		checkpoint("another algorithm", lint.CheckpointForm, 9, func(_ header, c body) { c.Algorithm = "md5" }),
		checkpoint("a checkpoint of an epoch that has no key", lint.CheckpointKey, 9, func(h header, _ body) { h.Epoch = 0 }),
		checkpoint("a log before this one that is named once", lint.CheckpointContinues, 9, func(_ header, c body) {
			c.Continues = &translog.Continues{Origin: "log.search.example/0", Root: Hash("its end"), Size: 5}
		}),
		checkpoint("a checkpoint older than the one before it", lint.CheckpointTime, 9, func(h header, _ body) { h.IssuedAt = h.IssuedAt.Add(-30 * time.Minute) }),
		checkpoint("a checkpoint older than the entries that it covers", lint.CheckpointTime, 2, func(h header, _ body) { h.IssuedAt = h.IssuedAt.Add(-4 * time.Minute) }),
		checkpoint("a checkpoint that expires", lint.CheckpointForm, 9, func(h header, _ body) { h.ExpiresAt = h.IssuedAt.Add(life) }),
		refresh("a refresh older than what it refreshes", lint.CheckpointTime, func(h header, _ body) { h.IssuedAt = h.IssuedAt.Add(-90 * time.Minute) }),
		refresh("a checkpoint to come", lint.Future, func(h header, _ body) { h.IssuedAt = h.IssuedAt.Add(life) }),
		{"a frozen checkpoint", lint.Frozen, Lie{
			Drafts: func(all []Draft) []Draft {
				for i := range all {
					all[i].IssuedAt = all[i].IssuedAt.Add(-10 * time.Hour)
					all[i].GrantExpiresAt = envelope.At(all[i].GrantExpiresAt.Add(-10 * time.Hour))
				}
				return all
			},
			Refresh: func(h header, _ body) { h.IssuedAt = h.IssuedAt.Add(-9 * time.Hour) },
		}},
		refresh("an artefact with another root than the note", lint.CheckpointNote, func(_ header, c body) { c.Root = Hash("another") }),
		{"a note with another root than the artefact", lint.CheckpointNote, Lie{Note: func(tree *translog.Tree) { tree.Root[0]++ }}},
		serve("a note that is not signed by the log", lint.CheckpointNote, "/checkpoint", flip),
		checkpoint("a checkpoint about another indexer", lint.CheckpointIndexer, 9, func(h header, _ body) { h.Subject = otherIndexer }),
		{"a tree of which the log signs another root", lint.Root, Lie{
			Note:    func(tree *translog.Tree) { tree.Root = Hash("another") },
			Refresh: func(_ header, c body) { c.Root = Hash("another") },
			Checkpoint: func(n uint64, _ header, c body) {
				if n == 25 {
					c.Root = Hash("another")
				}
			},
		}},
		serve("an artefact that is not served", lint.Missing, "/signed-checkpoint.json", gone),
	}
}
