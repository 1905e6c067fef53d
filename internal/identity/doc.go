// Package identity says who is who: the identity card that a publisher or an
// indexer shows once to its peers, the keys and the certificate that it keeps
// on disk, the peers that its operator chose to trust, and the mutual TLS
// between two of them (UZPIF-OI 8, 12.1). doc/identity.md is for operators.
//
// An identity is a SPIFFE ID. Its card lists its keys, each with one use, and
// is signed by one of them; operators compare the card's fingerprint over
// another channel when they first import it. From then on a peer is recognised
// by name and key together: the name in its certificate selects that
// identity's own record, and only a key listed in that record counts. A card
// that lists no TLS key leaves its connections to the authority of its own trust
// domain; what it signs counts by the card all the same.
//
// The invariants, and the tests that show them:
//
//   - A key that one identity's card lists never speaks for another identity,
//     even of the same trust domain (TestAnotherIdentitysKeyIsNotThePeers).
//   - An authority vouches for names of its own trust domain, whose card does not
//     vouch for them, and for their connections alone
//     (TestAnAuthorityVouchesForItsOwnDomainAlone,
//     TestAnAuthorityVouchesForConnectionsAlone).
//   - A name comes from the one URI in the certificate's alternative names,
//     octet for octet, and from nowhere else (TestOnlyOneURIMakesAName).
//   - Every connection is judged by a full handshake against the trust of that
//     moment: nothing is resumed, and a peer that was removed is refused at its
//     next handshake (TestNothingIsResumed, TestRemovedPeerIsRefusedWithoutRestart).
//   - A card that names another log than the one it replaces leaves that one
//     known, for what was signed in it, and none of its keys
//     (TestPastLogsAreKnownAfterTheCardWasReplaced).
//   - A key signs for its own epochs and times only, and one that is lost for
//     nothing new (TestEachKeySignsForItsOwnEpochOnly).
//   - A card takes the place of one that vouches for it; every other one, by its
//     fingerprint only (TestOnlyACardThatTheOldOneVouchesForSupersedes,
//     TestALostKeyIsReplacedByItsFingerprintOnly).
//   - A change of keys that was cut short is finished, whatever was done of it
//     (TestAChangeOfKeysThatWasCutShortIsFinished).
//   - A trust file that does not load changes nothing, and holds up no other
//     change (TestBadTrustFileKeepsTheOldRecord); nor does a certificate
//     (TestABadCertificateFileKeepsTheOldOne).
//   - Whatever way a file is replaced, a running program notices
//     (TestAWatchFollowsSwapsAndEditors, TestAWatchLooksWhereNothingIsReported).
//   - A private key that others than its owner may read is not used
//     (TestKeysReadableByOthersAreRefused); the group may read one that somebody
//     else keeps and renews.
package identity
