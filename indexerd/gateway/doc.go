// Package gateway hands out again what policies let be passed on, as the
// Collaboration Tunnel and as collections of the Site Content Protocol, from the
// indexer's store.
//
// A collection has a folder of its own, ID/, with llm-sitemap.json, llm-policy.json
// and llm/u-HEX.json for TCT, and sitemap.xml with one snapshot for SCP. /llm-sitemap.json
// leads to all of them.
//
// Each request is decided on anew by the function that decides for every exit; what is
// kept between requests is used only while nothing of its collection has changed and
// no page's time is over: TestAFeedTellsWhatItsPurposeAllows holds its random courses
// against a gateway, too. So the first request behind a revocation is refused.
package gateway
