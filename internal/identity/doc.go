// Package identity says who is who: the identity card that a publisher or an
// indexer shows once to its peers, the keys and the certificate that it keeps
// on disk, the peers that its operator chose to trust, and the mutual TLS
// between two of them (UZPIF-OI 8, 12.1).
//
// An identity is a SPIFFE ID. Its card lists its keys, each with one use, and
// is signed by one of them; operators compare the card's fingerprint over
// another channel when they first import it. From then on a peer is recognised
// by name and key together: the name in its certificate selects that
// identity's own record, and only a key listed in that record counts.
//
// The invariants, and the tests that show them:
//
//   - A key that one identity's card lists never speaks for another identity,
//     even of the same trust domain (TestAnotherIdentitysKeyIsNotThePeers).
//   - A name comes from the one URI in the certificate's alternative names,
//     octet for octet, and from nowhere else (TestOnlyOneURIMakesAName).
//   - Every connection is judged by a full handshake against the trust of that
//     moment: nothing is resumed, and a peer that was removed is refused at its
//     next handshake (TestNothingIsResumed, TestRemovedPeerIsRefusedWithoutRestart).
//   - A card that names another log than the one it replaces leaves that one
//     known, for what was signed in it, and none of its keys
//     (TestPastLogsAreKnownAfterTheCardWasReplaced).
//   - A trust file that does not load changes nothing, and holds up no other
//     change (TestBadTrustFileKeepsTheOldRecord).
//   - A private key that others than its owner may read is not used
//     (TestKeysReadableByOthersAreRefused).
package identity
