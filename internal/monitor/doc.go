// Package monitor is what an operator sees of a daemon on its admin listener:
// health by progress, figures for Prometheus, and a page for people. It knows
// nothing of publishers and indexers: each daemon fills in what it watches.
//
//   - /healthz answers as long as the process turns; /readyz says why the daemon
//     does not do its work, in text or in JSON, and warns of what will keep it from
//     it; gRPC health v1 says the same (TestReadyzSaysWhy,
//     TestGRPCHealthFollowsTheReport).
//   - "It turns" is not enough: what waits has to move. A Progress tells how long
//     something has waited without anything being done (TestOnlyWhatWaitsCanBeStuck).
//   - Nothing here changes anything, whatever the method; a browser that was led
//     here under another name gets nothing (TestAForeignNameIsTurnedAway).
//   - The page loads nothing from elsewhere, is whole without its script, and has
//     bounded history (TestThePageIsWholeWithoutItsScript,
//     TestHistoryIsBounded).
package monitor
