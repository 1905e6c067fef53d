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
//   - Two groups at most are on their way to the disk, one behind the other. The
//     next is made ready meanwhile, sees their rows, and ends with them if they fail
//     (TestTheNextGroupIsMadeReadyDuringASync, TestTwoGroupsAtMostAreOnTheirWay,
//     TestAFailedSyncEndsTheNextGroupToo). Who asks for rows waits for them, and who
//     does not is taken in during every Finish (TestWhoReadsSeesEveryFinishBefore);
//     nothing is refused for want of rows that were lost
//     (TestAFailedFinishEndsTheNextGroupToo). What is released shows nothing of the
//     group behind it (TestAReleaseShowsNothingOfTheGroupBehindIt).
//   - A write that fails ends the writer; nothing is acknowledged after it, and
//     nothing is lost that was (TestEveryFailedWriteEndsTheWriter).
//   - What waits for the writer is bounded, in number and in octets; what is more
//     is refused at once (TestOverloadIsRefusedAtOnceWithBoundedMemory). What is
//     urgent has places of its own, and comes first
//     (TestUrgentProposalsPassAFullQueue).
//   - A store that is older than what this log has signed is refused, with a
//     sentence that says what to do (TestAnOlderStoreIsRefused).
//   - A log that was rotated out signs nothing more, whatever copy of its store
//     comes back; the next one says in every signed checkpoint how it ended
//     (TestALogThatHasEndedSignsNothingMore,
//     TestEveryCheckpointOfARotatedLogSaysWhatItContinues). A frozen one is read
//     and signs nothing (TestAFrozenLogIsReadAndSignsNothing).
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
// From the root on, a second goroutine, commit, has the group, and run makes the
// next one ready. The root of a group is made once the sync of the one before it has
// begun, and the one two before it is released; so the sync may be under way at the same
// time as that of the group before, or be one with it. Batches become durable in the order
// in which they are begun, and marks and releases keep it too.
// Before it does anything else run waits until none is on its way.
//
// Between commits run publishes: it signs the checkpoint that the public side
// serves, chained to the one published before, and makes it durable before it is
// served.
//
// With witnesses (package witness), the first candidate of a size is durable
// before anybody is asked to cosign it, and is never signed anew for that size
// (TestACandidateIsNeverContradicted). A goroutine of its own gathers the
// cosignatures of one candidate at a time, and run waits for it before it ends;
// commits and receipts wait for neither (TestWitnessesNeverDelayAReceipt). What
// a witness has seen is asked for before the first signature
// (TestARollbackThatAWitnessHasSeenIsRefused).
//
// Only full tiles are stored, and entries in rows of their own. The right edge
// of the tree is in memory, and is made again from the rows when a log is
// opened.
package translog
