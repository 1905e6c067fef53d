// Package indexer is the receiving side: it admits only what a grant allows,
// stores it sealed, writes every decision to the transparency log, and answers
// with signed receipts.
//
// The invariants, and the tests that show them:
//
//   - What a receipt acknowledges is durable, in the catalogue, in the state
//     tree and in the log, by the one commit that made the receipt
//     (TestReceiptComesAfterItsCommit). Whatever was answered outlives a crash at
//     any write, as it was (TestCrashesLoseNothingThatWasAnswered).
//   - The checks that depend on what else happens are made again by the log's
//     writer, in commit order (TestSupersededGrantIsRefusedInCommitOrder).
//   - A page under a feed or a hash set is taken only with proof that the newest
//     one lists it, and none is held under two agreements of its publisher
//     (TestOnlyMembersAreAdmitted, TestTheNewestFeedCounts,
//     TestAPageIsHeldUnderOneAgreement).
//   - A refused batch changes no state (TestRefusedBatchChangesNothing).
//   - No payload lies in the store in the clear (TestPayloadsAreSealed).
//   - A revocation that was answered has stopped acquisition and every exit,
//     for good, over whatever way it came (TestRevocationStopsEverything,
//     TestRevocationThatCameFirstStopsTheGrant).
//   - A deletion goes on where it was interrupted, and is acknowledged once, when
//     nothing that is left opens what was stored (TestDeletionResumes,
//     TestDeletedPayloadCannotBeRead, TestAThiefOpensNoLargePageThatWasDeleted).
//   - A page goes out only while the grant under which it is held, and the
//     newest one, hold it: gate.mayRead is the one way out
//     (TestExpiryClosesAtItsSecondAndIsLoggedOnce, TestRebindNarrowsTheState). A
//     download that is under way when that ends goes no further
//     (TestADownloadIsCutWherePermissionEnds).
//   - Every read names a purpose that grant and policy allow at that moment, and
//     comes with the terms that bind whoever is handed the page
//     (TestAReadIsForOnePurposeAndComesWithItsTerms,
//     TestAPurposeThatIsNotAllowedReadsNothing).
//   - What a consumer is told is allowed for its purpose at that moment, and what it
//     keeps by it is what is allowed (TestAFeedTellsWhatItsPurposeAllows). A revocation
//     reaches every stream before anything else does
//     (TestARevocationStopsFiftyStreamsWithinASecond, TestFiftyStreamsStopAmidTheirPages).
//   - Nobody reads a page from the second on at which its retention is over. Its
//     payload goes then, and only behind that does the log say so
//     (TestPagesGoAtTheEndOfTheirRetention, TestPurgeResumes).
//   - What a grant limits is counted in the commit of each batch, so that nothing
//     gives any of it back (TestNoWayRoundALimit).
//   - Signals that were acknowledged are durable, a page is asked for until it has
//     come or is refused, and where this side asks, none comes unasked
//     (TestWhatIsSignalledIsAskedForAndOutlivesARestart,
//     TestUnaskedContentIsRefusedAndDeletionsAreNot).
//   - Where a log was read it is read for ever, and what was answered from a log
//     that has ended is answered by the same octets
//     (TestEveryAddressMeansTheSameLogAfterARotation,
//     TestAnAnswerOutlivesARotation).
//
// A series record is written in Prepare alone, never in Finish: what one
// proposal's Finish writes is merged behind what a later one of the same group
// has prepared (TestRevocationAndBatchOfOneGroupBothCount).
package indexer
