// Package remote reads the public side of a transparency log over HTTP, for
// someone who trusts only the log's key. What answers is treated as hostile: it
// may be slow, endless, compressed without end, or wrong.
//
// The invariants, and the tests that show them:
//
//   - Every wait and every answer is bounded, and nothing but the address that
//     was given is asked: no redirect, no proxy of the environment
//     (TestHostileAnswersAreBounded).
//   - A request that a busy log refuses is made again, a stated number of times
//     and for a stated time, no sooner than the log asks
//     (TestABusyLogIsAskedAgainWithinBounds).
//   - An entry that Entries yields is in the tree that the caller named
//     (TestNoFalseEntryIsYielded); the entries come in order, by bundles that
//     are fetched ahead of the reader in bounded number
//     (TestEntriesGoOnWhereTheyStopped).
//
// A Client fetches, and leaves it to its callers what follows from what. Three
// errors tell why nothing came: ErrUnavailable, ErrAbsent, ErrMalformed.
package remote
