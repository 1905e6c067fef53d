// Package lint judges a whole public log by the rules of profile
// "uzpif-oi-log/1": not only that it is one growing tree, which translog/fsck
// tells, but that what its indexer signed there can be true. A rule that is
// broken is told by its name, with the index of the entry that breaks it.
//
// Entries are read, and their signatures verified, by all cores; then they go in
// order through one Checker, whose state grows with the grants and collections of
// the log and not with its entries.
//
// The invariants, and the tests that show them:
//
//   - No honest log is accused: where the public log leaves open whether a rule
//     was broken, the rule says nothing (TestAnHonestLogIsClean,
//     TestNoHonestCourseIsAccused).
//   - Each rule finds what it is for (TestEachDishonestLogIsFound).
//   - A check that was interrupted and goes on finds what one without a break
//     finds (TestACheckGoesOnWhereItStopped), and a history that was changed
//     meanwhile is found (TestAChangedHistoryIsFound).
//   - A disclosed leaf key tells single pages, and what is disclosed is held
//     against the log first (TestPagesAreJudgedWhereTheyAreDisclosed).
package lint
