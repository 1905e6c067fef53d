// Package publisher is the publishing side: it watches collections, keeps a
// journal of what changed, dials out to the indexers that its owner chose,
// shows them grants, pushes what changed, and keeps a receipt for everything.
//
// The invariants, and the tests that show them:
//
//   - A page's change has its revision durably before anything of it leaves
//     (TestJournalGivesEachChangeOneRevision).
//   - A cursor moves only together with the receipt that moved it, and only
//     after the receipt was evaluated (TestCursorMovesWithItsReceipt).
//   - A manifest is durable before it is sent, so that a crash between the
//     indexer's commit and its answer is resolved by asking
//     (TestPendingBatchIsResolvedByItsReceipt). No receipt is lost by a crash at
//     any write (TestCrashesLoseNoReceipt).
//   - A renewed grant takes over what is held before anything is pushed under
//     it, and a takeover whose answer was lost is resolved by asking again
//     (TestARenewedGrantTakesTheStateOver, TestALostRebindIsResolvedByAskingAgain).
//   - What a feed or a hash set does not list is never sent, and what left it is
//     deleted by the push that presents the new one (TestAFeedChoosesWhatIsPushed,
//     TestAHashSetHoldsContent).
//   - Consent that is withdrawn counts here from the moment of its signature,
//     and goes to the indexer before anything else
//     (TestRevocationCountsFromTheMomentOfItsSignature, TestPushDeliversRevocationsFirst).
//   - An indexer has to show pages that it acknowledged, drawn at random, and
//     shows everybody the log that it shows here; else the agreement stops
//     (TestWrongAnswersToProbesStopTheAgreement, TestASplitViewStopsTheAgreement).
//   - Under a grant by which the indexer asks, nothing but deletions is sent
//     unasked, and what is signalled or asked for is delivered once through cuts
//     (TestARequestGrantSignalsAndSendsWhatIsAskedFor,
//     TestRequestsAreAnsweredOnceThroughCuts).
//   - What an indexer claims moves nothing before it is proven
//     (TestALyingIndexerMovesNothing), and no session begins by a clock that was
//     moved back (TestTheClockIsNotMovedBack).
package publisher
