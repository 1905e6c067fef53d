package translog

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// ErrProof: a proof does not show what it is to show.
var ErrProof = errors.New("proof does not verify")

// LeafHash is the RFC 6962 hash of an entry: SHA-256(00 entry).
func LeafHash(entry []byte) [32]byte {
	d := sha256.New()
	d.Write([]byte{rfc6962.RFC6962LeafHashPrefix})
	d.Write(entry)
	var h [32]byte
	d.Sum(h[:0])
	return h
}

// nodeHash is the RFC 6962 hash of an inner node: SHA-256(01 left right).
func nodeHash(left, right []byte) [32]byte {
	var b [1 + 2*32]byte
	b[0] = rfc6962.RFC6962NodeHashPrefix
	copy(b[1:], left)
	copy(b[33:], right)
	return sha256.Sum256(b[:])
}

// hashChildren is nodeHash in the form that package merkle calls.
func hashChildren(left, right []byte) []byte {
	h := nodeHash(left, right)
	return h[:]
}

// emptyRoot is the root of the tree without entries.
func emptyRoot() [32]byte { return sha256.Sum256(nil) }

// VerifyInclusion checks that the entry with leafHash is number index, from 0,
// of the tree of that size and root. Nothing is in a tree of size 0. Errors:
// ErrProof.
func VerifyInclusion(index, size uint64, leafHash [32]byte, path [][32]byte, root [32]byte) error {
	if index >= size {
		return fmt.Errorf("%w: index %d, tree of size %d", ErrProof, index, size)
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leafHash[:], slicesOf(path), root[:]); err != nil {
		return fmt.Errorf("%w: entry %d of %d: %w", ErrProof, index, size, err)
	}
	return nil
}

// VerifyConsistency checks that the tree of size to goes on from that of size
// from. The tree of size 0 has the empty root, and everything goes on from it;
// a tree goes on from itself with an empty path. Errors: ErrProof.
func VerifyConsistency(from, to uint64, path [][32]byte, fromRoot, toRoot [32]byte) error {
	// Package merkle takes any root for that of size 0, or nothing at all.
	if from == 0 && fromRoot != emptyRoot() || to == 0 && toRoot != emptyRoot() {
		return fmt.Errorf("%w: size 0 with another root than that of the empty tree", ErrProof)
	}
	if from == 0 {
		if len(path) > 0 {
			return fmt.Errorf("%w: from size 0 to %d: %d hashes, want none", ErrProof, to, len(path))
		}
		return nil
	}
	if err := proof.VerifyConsistency(rfc6962.DefaultHasher, from, to, slicesOf(path), fromRoot[:], toRoot[:]); err != nil {
		return fmt.Errorf("%w: from size %d to %d: %w", ErrProof, from, to, err)
	}
	return nil
}

func slicesOf(path [][32]byte) [][]byte {
	s := make([][]byte, len(path))
	for i := range path {
		s[i] = path[i][:]
	}
	return s
}

// An InclusionProof is what /proof/inclusion answers.
type InclusionProof struct {
	Hashes []envelope.Hash `json:"hashes"`
	Index  uint64          `json:"index"`
	Size   uint64          `json:"size"`
}

// Verify is VerifyInclusion under the checkpoint t, whose size must be p's.
func (p *InclusionProof) Verify(leafHash [32]byte, t Tree) error {
	if p.Size != t.Size {
		return fmt.Errorf("%w: for size %d, checkpoint of size %d", ErrProof, p.Size, t.Size)
	}
	return VerifyInclusion(p.Index, p.Size, leafHash, Path(p.Hashes), t.Root)
}

// A ConsistencyProof is what /proof/consistency answers.
type ConsistencyProof struct {
	From   uint64          `json:"from"`
	Hashes []envelope.Hash `json:"hashes"`
	To     uint64          `json:"to"`
}

// Verify is VerifyConsistency between two checkpoints whose sizes must be p's.
func (p *ConsistencyProof) Verify(from, to Tree) error {
	if p.From != from.Size || p.To != to.Size {
		return fmt.Errorf("%w: for sizes %d and %d, checkpoints of sizes %d and %d", ErrProof, p.From, p.To, from.Size, to.Size)
	}
	return VerifyConsistency(p.From, p.To, Path(p.Hashes), from.Root, to.Root)
}

// Path is the form in which the functions of this package take hashes that
// were written as envelope.Hash.
func Path(hashes []envelope.Hash) [][32]byte {
	path := make([][32]byte, len(hashes))
	for i, h := range hashes {
		path[i] = h
	}
	return path
}

// Hashes is the written form of a path.
func Hashes(path [][32]byte) []envelope.Hash {
	hashes := make([]envelope.Hash, len(path))
	for i, h := range path {
		hashes[i] = h
	}
	return hashes
}
