// Package evaluate is the one implementation of UZPIF-OI 9.1.4: signature
// check, then object match and freshness, then the proofs of the log's
// profile. The publisher runs Batch, Rebind and Acknowledgement on what an
// indexer answers to a batch, a renewed grant and a revocation; whoever trusts neither side runs Verify on an evidence file, offline.
//
// The invariants, and the tests that show them:
//
//   - A publisher accepts an answer only if it is about exactly what it
//     offered, signed by the indexer that it trusts, in a log that goes on from
//     the one seen before (TestDishonestAnswersAreRefused,
//     TestDishonestRebindsAreRefused, TestDishonestAcknowledgementsAreRefused).
//   - A log that was rotated is followed only if its end extends what was seen
//     (TestRotationsThatForgetAreRefused).
//   - No file with any octet changed is more than invalid
//     (TestEveryChangedOctetIsInvalid), and none is more than invalid either if
//     whoever changed it could name it anew (TestAResealedChangeIsInvalid).
//   - What parses is written in the same octets again (FuzzParse).
//   - Nothing below Proven has been compared with a checkpoint from elsewhere
//     (TestVerdicts).
//
// Everything that comes from the other side, or in a file, is hostile. Keys
// come from the caller's own trust; time and network are passed in.
package evaluate
