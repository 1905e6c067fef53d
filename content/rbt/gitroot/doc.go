// Package gitroot reads git repositories that others hold: it fetches what one
// branch, tag or commit names into a folder of state, without a work tree, and
// shows the files of a commit as they were committed, read-only. Nothing of a
// repository is ever run, checked out or followed elsewhere: no hook, no
// filter, no submodule, no alternate.
//
// The other side is hostile. Addresses are judged as package fetch judges them,
// after every look-up and on every redirect (TestARemoteLeadsToNoPrivateAddress);
// a host whose key is not known is not spoken to (TestAnSSHHostMustBeKnown). A
// pack is written to disk under a limit, then every object's size, also that
// which a delta would make of it, is checked before anything is inflated into
// memory (TestPacksAreJudgedBeforeTheyAreUsed). What comes as a delta of an object
// that is held is completed under the same limits (TestAThinPackIsCompleted,
// TestWhatCompletesAPackIsBounded). What a commit needs must be
// there before it counts as held, so that a commit can be read to its end or
// not at all (TestACommitIsHeldOnlyWhenWhole). Paths of a tree stay in the tree:
// a symlink that leaves it is an error, and so are one in a circle, a submodule
// and a pointer into LFS (TestNoPathLeavesTheTree, TestWhatIsNoContentIsSaidToBe).
//
// The state is a cache: it can be deleted at any time, and is begun anew when it
// has grown too large. A Repository belongs to one process.
package gitroot
