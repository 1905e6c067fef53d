// Package indexer is the receiving side: it admits only what a grant allows,
// stores it sealed, writes every decision to the transparency log, and answers
// with signed receipts.
//
// The invariants, and the tests that show them:
//
//   - What a receipt acknowledges is durable, in the catalogue, in the state
//     tree and in the log, by the one commit that made the receipt
//     (TestReceiptComesAfterItsCommit).
//   - The checks that depend on what else happens are made again by the log's
//     writer, in commit order (TestSupersededGrantIsRefusedInCommitOrder).
//   - A refused batch changes no state (TestRefusedBatchChangesNothing).
//   - No payload lies in the store in the clear (TestPayloadsAreSealed).
package indexer
