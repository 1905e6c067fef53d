// Package envelope is the signed artefact envelope, profile "uzpif-oi-env/1":
// the one form in which grants, policies, receipts, log entries, checkpoints,
// revocations and acknowledgements are signed, named, carried and kept.
//
// UZPIF-OI inherits its envelope from the UZPIF framework. That text is not
// published in a form that fixes bytes, so this package is a versioned profile
// of its own: it meets every statement that UZPIF-OI makes about the envelope
// (9.1.1, 10, 12.5.1) and claims no more.
//
// The invariants, and the tests that show them:
//
//   - Whatever parses re-encodes to the very bytes that were parsed
//     (FuzzParse, TestVectorReencodes).
//   - Canonical form is that of RFC 8785, read once by a reader of our own
//     which two of others agree with (FuzzCanonical, TestTheScannerIsRFC8785).
//   - Flipping any one bit of a one-signer envelope refuses it
//     (TestOneFlippedBitNeverOpens).
//   - Fields come from the canonical bytes themselves, never from a second
//     form of them, and with exact keys (TestKeysAreExact).
//   - Nothing is signed that would be refused for its form
//     (TestNothingIsSignedThatWouldNotOpen).
//
// The order of checks is fixed: size; syntax, limits and canonical form, octet
// by octet; version, type, schema, object_id, signature syntax and order, body,
// critical extensions, keys, signatures, threshold, time. Whom the session
// belongs to, stream state, revocation, scope and policy come after it and
// belong to the callers.
package envelope
