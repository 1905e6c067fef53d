// Package grants is what a publisher allows an indexer: discovery grants and
// policies, their scopes and purposes, the announcements that present them, and
// the revocations that end them (UZPIF-OI 10, 11, 12.2, 12.6).
//
// It decides and keeps nothing. Stream state, the list of revocations and the
// membership of collections belong to its callers; the clock is passed in, and
// so is every random octet. Each refusal is an error with a Reason, of which
// there is one list for all programs.
//
// The invariants, and the tests that show them:
//
//   - A URL that is matched has the host, port and leading path segments of a
//     prefix, for whoever parses it next (FuzzMatch, FuzzScope); every other way of
//     writing it is refused (TestScopeRefusesWhatLeadsOutOfIt), by this package
//     alone, whether or not anyone checked it before.
//   - What a feed or a hash set lists is shown by a path, and no other path, of
//     another list, number or item, shows it (TestOnlyMembersArePathed, FuzzPath).
//   - An empty scope means nothing, not everything (TestEmptyScopeMatchesNothing).
//   - Two scopes overlap exactly if some URL is in both
//     (TestScopesOverlapExactlyIfSomeURLIsInBoth).
//   - What is allowed is what grant and policy both allow, and a grant of what
//     its policy denies is none (TestPairAllowsOnlyWhatBothAllow,
//     TestGrantBeyondItsPolicyIsRefused).
//   - A grant binds the two identities of a session and no others
//     (TestOpenGrantRefuses), and an announcement binds one stream
//     (TestAnnouncementIsGoodForOneStream).
//   - A revoked grant stays revoked when it is shown again, and one issued
//     later stands (TestRevocationReaches).
//   - Refusing changes nothing (TestRefusingChangesNothing).
package grants
