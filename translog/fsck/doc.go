// Package fsck checks a whole transparency log, as its store has it or as its
// public side serves it, and lists everything that is not as it has to be.
//
// What is checked: that each entry is canonical, at its own index, signed, and
// what its tile says; each tile, at every level, against the one below; the root
// against the checkpoint; that checkpoint's signatures; each published
// checkpoint against the tree as it was then, and the chain that they form; the
// decision sets that were kept; the high-water mark; and that nothing else is
// there.
//
// The invariants, and the tests that show them:
//
//   - No octet of a stored log can change without being found, and no row be
//     lost, added or exchanged (TestEveryFlippedOctetIsFound,
//     TestEveryRowThatMovesIsFound).
//   - No answer of the public side can be changed without being found
//     (TestEveryChangedAnswerIsFound).
//   - An untouched log has no finding, at any size, and while it grows
//     (TestASoundLogHasNoFindings, TestALogIsCheckedWhileItGrows).
//
// Memory is bounded whatever the size of the log: some bundles of entries for
// each core, one tile a level, and as many findings as Options.Limit says.
package fsck
