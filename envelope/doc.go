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
//   - Whatever opens re-encodes to the very bytes that were opened
//     (FuzzParse, TestVectorReencodes).
//   - Flipping any one bit of a one-signer envelope refuses it
//     (TestOneFlippedBitNeverOpens).
//   - Nothing is read from a second decoding: fields come from the canonical
//     bytes themselves, with exact keys (TestKeysAreExact).
//
// The order of checks is fixed: size, syntax, canonical form, version, type,
// schema, object_id, signature syntax and order, keys, signatures, threshold,
// time. Whom the session belongs to, stream state, revocation, scope and
// policy come after it and belong to the callers.
package envelope
