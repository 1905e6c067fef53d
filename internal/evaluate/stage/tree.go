package stage

import (
	"crypto/sha256"
	"math/bits"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Tree is the leaves of a log, hashed. Its proofs are made by the recursive
// definitions of RFC 6962, 2.1, and not by the code that verifies them.
type Tree [][32]byte

// Root is the root over the first n leaves.
func (t Tree) Root(n uint64) [32]byte {
	switch n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return t[0]
	}
	k := split(n)
	return node(t[:k].Root(k), t[k:].Root(n-k))
}

// Inclusion is the path of leaf i in the tree of the first n.
func (t Tree) Inclusion(i, n uint64) [][32]byte {
	if n == 1 {
		return nil
	}
	k := split(n)
	if i < k {
		return append(t[:k].Inclusion(i, k), t[k:].Root(n-k))
	}
	return append(t[k:].Inclusion(i-k, n-k), t[:k].Root(k))
}

// Consistency is the proof between the trees of the first m and the first n.
func (t Tree) Consistency(m, n uint64) [][32]byte {
	if m == 0 || m == n {
		return nil
	}
	return t.subproof(m, n, true)
}

func (t Tree) subproof(m, n uint64, whole bool) [][32]byte {
	if m == n {
		if whole {
			return nil
		}
		return [][32]byte{t.Root(n)}
	}
	k := split(n)
	if m <= k {
		return append(t[:k].subproof(m, k, whole), t[k:].Root(n-k))
	}
	return append(t[k:].subproof(m-k, n-k, false), t[:k].Root(k))
}

// At is the tree of the first n leaves, as a checkpoint states it.
func (t Tree) At(origin string, n uint64) translog.Tree {
	return translog.Tree{Origin: origin, Size: n, Root: t.Root(n)}
}

// split is the largest power of two below n, which is at least 2.
func split(n uint64) uint64 { return 1 << (bits.Len64(n-1) - 1) }

func node(l, r [32]byte) [32]byte {
	b := make([]byte, 0, 65)
	b = append(b, 1)
	b = append(b, l[:]...)
	return sha256.Sum256(append(b, r[:]...))
}

// sign signs any body, also one that its own type would refuse.
func sign(t testing.TB, h envelope.Header, body any, by *envelope.Signer) *envelope.Object {
	t.Helper()
	b := must[[]byte](t)(envelope.Canonical(body))
	return must[*envelope.Object](t)(envelope.Sign(h, jsontext.Value(b), by))
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
