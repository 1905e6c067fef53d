// Package durable is the one ordered store of a program: keys and values in
// Pebble, and the atomic batch through which everything that belongs together
// is written at once. No other package imports Pebble.
//
// The invariants, and the tests that show them:
//
//   - A batch whose Commit returned nil survives a loss of power, whole; one
//     whose Commit did not is there whole or not at all
//     (TestCommittedBatchesSurviveACrash).
//   - A write or sync that fails is never acknowledged and never tried again:
//     the store refuses everything from then on with ErrFailed, and touches the
//     disk no more (TestEveryFailedWritePoisons). What the disk then holds is
//     for the next Open to find out.
//   - A write that finds the disk full is made once more, in the room of the
//     ballast that is given up for it; no commit fails and none is lost
//     (TestAFullDiskIsGivenTheBallast). From then on, and already when little is
//     free, Room says ErrFull, until there is room for a new ballast. When there
//     is nothing to give up the write has failed as any other, and a sync that
//     finds no room has in any case (TestASyncThatFindsNoRoomIsNotMadeAgain).
//   - A disk that does not answer holds nobody for ever: a write or sync that
//     takes longer than Options.Stall is reported, and fails the store after
//     four times as long, or at once when the program is closing
//     (TestADeadDiskHoldsNobodyForEver). Reads are not watched.
//   - Damage in the middle of a write-ahead log is an error at Open, from the
//     very first log on, and never a shorter history
//     (TestDamageInsideALogRefusesOpen). So the format version is pinned, and
//     the store is flushed as soon as it is open. Within the last 32 KiB of the
//     newest log Pebble cannot tell damage from an unclean end, and drops what
//     was synced behind it: an owner who must notice that keeps how far it had
//     come in a Slots.
//   - One process has the store open, and no other
//     (TestASecondOpenIsLockedOut).
//
// Pebble shows a batch to readers before its log is synced. Whoever must not
// see what could still be lost reads from a Snapshot taken when the Commit has
// returned.
//
// Keys begin with an octet that names their owner; each owner says in its own
// package what follows. The log has 'L'.
package durable
