// Package tct is the Collaboration Tunnel protocol
// (draft-jurkovikj-collab-tunnel), produced and consumed: payloads, sitemaps and
// their index, the policy descriptor, an export as a tree of files, a handler
// that serves it, and an agent that finds, checks and fetches what others serve.
//
// A payload that is written here is in the canonical form of RFC 8785, and its
// hash member is made by Method A: the SHA-256 of that form without the hash
// member. So equal hashes mean equal bytes. TestEncodeIsCanonical and FuzzEncode
// hold every payload against an independent implementation of the RFC, and
// against Check, which is what a receiver applies; FuzzCheck shows that Check
// accepts nothing else, and TestEqualETagsMeanEqualOctets that what is served
// keeps the promise.
//
// Under Method A the content member is for reading: it keeps letters' case and
// the breaks between paragraphs. Normalise, the numbered list of the draft, is
// what Method B hashes and what comparisons across formats use; it is never
// applied to what is sent.
//
// What others write is read as it is: a hash may be of any method, and is only
// ever compared as a string with the ETag and the sitemap's contentHash. A page
// is taken if all of them agree about it (TestAPageIsTakenOnlyIfAllAgree), and
// an agent sends the ETag of the body that it holds, never one that was only
// announced (TestOnlyTheETagOfTheHeldBodyIsSent). A list of pages that could not
// be read to its end is an error and no list, so that a page which is missing
// can be taken for gone (TestADoubtfulSitemapYieldsNoPage).
//
// schema/ holds JSON Schemas of what is written:
// TestWhatIsWrittenConformsToTheSchemas.
package tct
