// Package feed reads an indexer's feed: everything that may be used for one purpose,
// as a stream of changes, for a consumer that keeps its own copy of it.
//
// A consumer has an identity of its own (Create), whose card the indexer's operator
// adds with the purposes that it may read for, and trusts the card of the indexer
// (Trust). Run then connects over mutual TLS, hands each change to a Handler, goes
// on behind the last one after whatever interruption, and tells the indexer when
// what was to be dropped is gone.
//
// Each change comes at least once (TestEveryChangeComesThroughInterruptions). A
// cursor that leads nowhere any more begins anew with a Reset
// (TestACursorThatIsRefusedBeginsAnew), and so does a purpose that is taken away end
// (TestAPurposeThatIsTakenAwayEndsWithAReset). What the other side sends is bounded
// before it is kept (TestPayloadsAreWhatWasAnnounced).
package feed
