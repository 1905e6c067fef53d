package translog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A LeafKey is the secret of a series that blinds what the public log says
// about it. Who holds it can recognise every page of the series in the log, so
// it prints as nothing: no formatting verb and no text encoder gives it away.
// Keep it as k[:], and only there where it belongs.
type LeafKey [32]byte

// Format writes a placeholder, whatever the verb.
func (LeafKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(leaf key)")) }

// LogValue is the same placeholder.
func (LeafKey) LogValue() slog.Value { return slog.StringValue("(leaf key)") }

// MarshalText always fails: a leaf key is no part of any document.
func (LeafKey) MarshalText() ([]byte, error) {
	return nil, errors.New("a leaf key is not written as text")
}

// Commit is the grant's leaf_key_commit: it binds the key and hides it.
func (k LeafKey) Commit() envelope.Hash {
	return envelope.TaggedHash("uzpif-oi/leaf-key/v1", k[:])
}

// CollectionRef stands for the collection id in signed objects.
func (k LeafKey) CollectionRef(id string) envelope.Hash {
	return k.mac("uzpif-oi/collection/v1", []byte(id))
}

// StateCommitment stands for the state root of the series after revision
// through of journalEpoch, in entries that everyone may read.
func (k LeafKey) StateCommitment(journalEpoch, through uint64, root envelope.Hash) envelope.Hash {
	var at [16]byte
	binary.BigEndian.PutUint64(at[:8], journalEpoch)
	binary.BigEndian.PutUint64(at[8:], through)
	salt := k.mac("uzpif-oi/state-salt/v1", at[:])
	return envelope.TaggedHash("uzpif-oi/state-commit/v1", salt[:], root[:])
}

// Salts gives the two salts of one revision of one page: su blinds its URL, sc
// its content. Disclosing them opens this one leaf and no other.
func (k LeafKey) Salts(journalEpoch, revision uint64, urlHash [32]byte) (su, sc [32]byte) {
	return k.Maker().Salts(journalEpoch, revision, urlHash)
}

// mac is HMAC-SHA-256(k, tag 00 message).
func (k LeafKey) mac(tag string, message []byte) (sum [32]byte) {
	d := hmac.New(sha256.New, k[:])
	d.Write([]byte(tag))
	d.Write([]byte{0})
	d.Write(message)
	d.Sum(sum[:0])
	return sum
}

// Op is what was offered for a page.
type Op uint8

// The two operations. What the indexer decided stands in the entry.
const (
	OpPut       Op = 1
	OpTombstone Op = 2
)

// A Leaf is one page's part in a decision set. A page that is offered and then
// decided upon has the same leaf in both sets.
type Leaf struct {
	Op       Op
	Revision uint64
	Object   [32]byte // ObjectPart of the URL
	Content  [32]byte // ContentPart of the payload digest; all zero for a tombstone
}

// LeafSize is the length of Leaf.Bytes, in octets.
const LeafSize = 1 + 8 + 32 + 32

// ObjectPart blinds a URL with its salt.
func ObjectPart(su [32]byte, url string) [32]byte {
	return envelope.TaggedHash("uzpif-oi/object/v1", su[:], []byte(url))
}

// ContentPart blinds a payload's SHA-256 with its salt.
func ContentPart(sc, digest [32]byte) [32]byte {
	return envelope.TaggedHash("uzpif-oi/content/v1", sc[:], digest[:])
}

// Leaf makes the leaf of one revision of the page at url. A tombstone has no
// content, and digest is not looked at.
func (k LeafKey) Leaf(op Op, journalEpoch, revision uint64, url string, digest [32]byte) Leaf {
	return k.Maker().Leaf(op, journalEpoch, revision, url, digest)
}

// Bytes are the LeafSize octets that are hashed: op, revision (big-endian),
// object part, content part.
func (l Leaf) Bytes() []byte { return l.append(make([]byte, 0, LeafSize)) }

func (l Leaf) append(b []byte) []byte {
	b = append(b, byte(l.Op))
	b = binary.BigEndian.AppendUint64(b, l.Revision)
	b = append(b, l.Object[:]...)
	return append(b, l.Content[:]...)
}

// Hash is the RFC 6962 leaf hash of l.
func (l Leaf) Hash() [32]byte {
	return [32]byte(rfc6962.DefaultHasher.HashLeaf(l.Bytes()))
}

// Validate refuses what is neither a put with content nor a tombstone without.
func (l Leaf) Validate() error {
	if l.Op != OpPut && l.Op != OpTombstone {
		return fmt.Errorf("leaf operation %d", l.Op)
	}
	if (l.Op == OpTombstone) != (l.Content == [32]byte{}) {
		return fmt.Errorf("leaf operation %d and its content part contradict one another", l.Op)
	}
	return nil
}

// SetOf makes the decision set over leafHashes in their order: the RFC 6962
// root, which for no leaf is the empty tree's. It needs no memory that grows
// with the set.
func SetOf(leafHashes [][32]byte) Set {
	s := Set{Count: uint64(len(leafHashes)), Root: envelope.Hash(rfc6962.DefaultHasher.EmptyRoot())}
	if root := foldSet(leafHashes, nil); root != nil {
		s.Root = envelope.Hash(root)
	}
	return s
}

// SetPath gives the audit path of leaf index, from the leaf up, in one pass
// over the leaves.
func SetPath(leafHashes [][32]byte, index int) ([][32]byte, error) {
	if index < 0 || index >= len(leafHashes) {
		return nil, fmt.Errorf("leaf %d of a set of %d", index, len(leafHashes))
	}
	nodes, err := proof.Inclusion(uint64(index), uint64(len(leafHashes)))
	if err != nil {
		return nil, err
	}
	found := make([][]byte, len(nodes.IDs))
	foldSet(leafHashes, func(id compact.NodeID, hash []byte) {
		for i, want := range nodes.IDs {
			if id == want {
				found[i] = hash
			}
		}
	})
	hashes, err := nodes.Rehash(found, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return nil, err
	}
	path := make([][32]byte, len(hashes))
	for i, h := range hashes {
		path[i] = [32]byte(h)
	}
	return path, nil
}

// foldSet folds the leaves into their root, nil for none, and shows visit each
// node of a full subtree.
func foldSet(leafHashes [][32]byte, visit compact.VisitFn) []byte {
	tree := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	for i := range leafHashes {
		if err := tree.Append(leafHashes[i][:], visit); err != nil {
			panic("translog: a range of its own making is inconsistent: " + err.Error())
		}
	}
	root, err := tree.GetRootHash(nil)
	if err != nil {
		panic("translog: a range of its own making is inconsistent: " + err.Error())
	}
	return root
}

// VerifySetPath checks that leaf is number index of s. It refuses an empty
// set, a malformed leaf, and a path of any length but the one that fits. The
// path alone does not bind a count that is too large: trust s for that.
// Errors: ErrProof, and that of Validate.
func VerifySetPath(s Set, index uint64, leaf Leaf, path [][32]byte) error {
	if err := leaf.Validate(); err != nil {
		return err
	}
	if err := VerifyInclusion(index, s.Count, leaf.Hash(), path, s.Root); err != nil {
		return fmt.Errorf("decision set: %w", err)
	}
	return nil
}

// RelationshipName is the subject of log objects under a grant that is not
// listed: a name that means nothing to who does not know r, 32 random octets
// of the agreement.
func RelationshipName(r [32]byte, publisher envelope.Name) envelope.Name {
	h := envelope.TaggedHash("uzpif-oi/relationship/v1", r[:], []byte(publisher))
	return envelope.Name("urn:uzpif-oi:rel:" + hex.EncodeToString(h[:]))
}
