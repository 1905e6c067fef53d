// Package translog is the transparency log of an indexer, profile
// "uzpif-oi-log/1" (UZPIF-OI 9.1): an RFC 6962 tree of signed entries, each
// one decision over a set of pages, with checkpoints, proofs, and a public
// side that any C2SP tlog-tiles client reads.
//
// The invariants, and the tests that show them:
//
//   - A tree size that was released is never released with another root, and
//     none that was published or named in a receipt is ever contradicted
//     (TestCrashesNeverContradictWhatWasReleased, with readers running).
//   - An answer comes after durability: what Commit returned nil for is at its
//     index after any loss of power (TestCommitIsDurableBeforeItReturns).
//   - Readers see nothing that could still be lost, although the database
//     shows it to them (TestNothingIsReleasedBeforeItsSync).
//   - A write that fails ends the writer; nothing is acknowledged after it
//     (TestEveryFailedWriteEndsTheWriter).
//   - A store that is older than what this log has signed is refused, with a
//     sentence that says what to do (TestAnOlderStoreIsRefused).
//   - Every tile, proof and root is that of RFC 6962
//     (TestEveryTreeUpTo1025IsThatOfRFC6962), and third-party code reads the
//     log unmodified (module testdata/thirdparty).
//   - Nothing is consistent with an empty tree but its own root, and no proof
//     has another length than its own (TestProofsOfOtherShapesAreRefused).
//
// # Who does what
//
// One goroutine, run, writes. Callers of Commit hand it proposals through a
// bounded queue; it takes those that wait as a group and brings them through
// these steps, in this order:
//
//	Prepare, one proposal after the other    last checks, rows, entries
//	sign the entries, on all cores           indexes are known now
//	root; sign the checkpoint, twice         as an artefact and as a C2SP note
//	Finish, on all cores                     receipts that name entries and checkpoint
//	one batch, one sync                      everything above, and what the callers added
//	the high-water mark, one fdatasync       outside the database
//	release                                  one atomic pointer; readers see it now
//	answer                                   Commit returns
//
// Between commits the same goroutine publishes: it signs the checkpoint that
// the public side serves, chained to the one published before, and makes it
// durable before it is served.
//
// Only full tiles are stored, and entries in rows of their own. The right edge
// of the tree is in memory, and is made again from the rows when a log is
// opened.
package translog
