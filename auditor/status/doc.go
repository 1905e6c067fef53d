// Package status tells everything that a public log says about one grant: what
// was decided under it and when, how a revocation was answered, what is missing,
// and what came late. It believes no list of the log's: each entry of the whole
// log is read and verified, by package lint, and those under the grant are noted
// on the way.
//
// The invariants, and the tests that show them:
//
//   - An entry counts only if it is authentic and in its own place
//     (TestAnEntryThatIsNotSoundIsNotCounted).
//   - A run that goes on from a state says what one without it says
//     (TestAStatusGoesOnWhereItStopped).
//   - What an honest log has not to say is not missed
//     (TestNothingIsMissingInAnHonestLog), and what it has to is
//     (TestWhatIsMissingOrLateIsTold).
//   - The page for people loads nothing, runs no script, and has each figure as a
//     table too (TestThePageStandsByItself).
package status
