// Package zoo makes whole logs for tests, with an indexer's real keys: one that
// tells an honest course of events, and for each way to be dishonest one that
// tells it with a single lie, signed and served as if it were true. It is of no
// use outside tests.
//
// What is made without a lie has no violation (TestAnHonestLogIsClean), so that
// whatever is found is the lie's (TestEachDishonestLogIsFound).
package zoo
