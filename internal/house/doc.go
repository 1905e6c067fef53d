// Package house keeps the rules that hold for the whole repository, and that no
// compiler and no single package could keep. It holds no code of its own.
//
//   - Dependencies run one way: TestDependenciesRunOneWay.
//   - One package alone touches the database engine, and only the files at the
//     network's edge touch the wire's types: the same test.
//   - Each package says what it is, and names only tests that exist; no file
//     grows past what one reads at a sitting: TestSourcesKeepTheHabits.
//   - What is linked is what go.mod names, with no substitute, and the
//     canonical form rests on a release that is strict enough:
//     TestModulesAreWhatTheyClaim.
//   - Each function that reads what others wrote has a fuzz target, and make fuzz
//     runs all of them: TestEveryDecoderIsFuzzed.
//   - The pages of doc/ name only tests that exist, and every requirement and
//     every case of bad input has its row: TestRequirementsNameTestsThatExist and
//     TestEveryNegativeCaseHasItsTest.
//
// A rule that nothing can break is worth nothing. TestEachImportRuleIsCaught,
// TestEachHabitIsCaught, TestEachGapInTheFuzzingIsCaught and
// TestEachFaultOfTheNegativesIsCaught feed every rule something small and made up
// that breaks it.
package house
