// Package state keeps the state tree of a series: one hash over all pages that
// a publisher offered and did not delete, which both sides compute for
// themselves. Equal roots mean that there is nothing to send; different ones
// are followed down, sixteen ways a step, to the pages that differ.
//
// A page is a leaf, placed by h, the SHA-256 of its URL. With
// T = "uzpif-oi/state/v1" 00 and all integers big-endian:
//
//	leaf    SHA-256(T 01 h digest format)                 32, 32 and 1 octets
//	bucket  SHA-256(T 02 u64(count) leaf…)                1 to 16 leaves, by ascending h
//	node    SHA-256(T 03 u8(depth) u64(count) child…)     16 children, by the next 4 bits of h
//	empty   32 zero octets
//
// A subtree of up to 16 leaves is a bucket and a larger one a node, so the tree
// is a function of its pages alone. The root has depth 0.
//
// In the store a tree has a row for each leaf, one for each child of a node, and one
// for a root that is a node; buckets are read from their leaves. The invariants, and
// the tests that show them:
//
//   - The root is that of the definition, whatever was put and deleted before,
//     and the rows are those of a tree built at once: none is left over
//     (TestHistoryLeavesNoTrace).
//   - Planning reads and never writes; applying writes exactly what was planned
//     (TestPlanWritesNothing).
//   - What a plan reads is checked on the way down: a row that is missing, has
//     no right form, or does not hash to what the row above says is ErrCorrupt,
//     never a panic (TestDamagedRowsAreNoticed, FuzzRows). The top row alone
//     has nothing above it; Of over the leaves tells what it ought to be.
package state
