// Package follow watches transparency logs for as long as it is let: what a log
// has shown is remembered, and what it shows next must go on from it (UZPIF-OI
// 9.1.4, step 3).
//
// The invariants, and the tests that show them:
//
//   - Nothing that a log signed is taken on unless it goes on from what was
//     seen before; if it does not, both signed notes are in the folder of an
//     alert before anything else happens, and the state stays where it was
//     (TestADishonestLogIsFoundOut).
//   - An entry counts once it was found under the root, is signed by the
//     indexer, at its own index and not earlier than the one before it, and
//     once the tree over all entries counted so far is the one that the log
//     signed (TestADishonestLogIsFoundOut).
//   - A process that is killed at any step loses no alert and takes nothing for
//     verified that was not: the next one goes on, or does a little again
//     (TestACrashAtEachStepLosesNothing).
//   - A state that was changed, or is of another log or key, is refused
//     (TestAChangedStateIsRefused).
//   - A log that is slow or does not answer holds up no other
//     (TestAHangingLogHoldsUpNoOther), and is alerted of as stale in the end
//     (TestALogThatDoesNotAnswerIsStale).
//   - What publishers and other auditors were shown is the same log
//     (TestNotesOfOthersAreCompared).
//
// # What is kept
//
//	DIR/lock                  held by the one process that follows here
//	DIR/logs/<hash>.state     one log: the last signed notes, and the right edge
//	                          of the tree over the entries that were verified
//	DIR/alerts/<time>-<kind>-<id>/
//	                          README, alert.json, old.note, new.note, and what
//	                          else shows it; it stays until somebody removes it
//
// The first note of a log is believed, because there is nothing yet that it
// could contradict; the entries under it are verified as all later ones are.
//
// Each log has a goroutine and a few connections of its own. Signatures are
// verified by as many goroutines at a time as there are cores, for all logs
// together.
package follow
