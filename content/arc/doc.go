// Package arc is the ARC sitemap (Appendix E of the ARC specification), version
// 2.1: a list of pages for AI agents, in JSON or YAML, each with a summary, a
// checksum, and what was read of it beforehand, its snapshot; deltas; the policy
// beside it; an export, a handler that serves it, and a source that follows what
// others write.
//
// Nothing of a sitemap is used before all of it was read: Read hands out its
// entries one by one, and who keeps them does so beside what counted before
// (TestABrokenSitemapLeavesTheMirrorAsItWas). Every entry is held against the
// schema of schema/ by a library that others wrote, and so is all that is
// written (TestWhatIsWrittenConformsToTheSchema).
//
// The payload of a page is its entry, in the form of RFC 8785 and with all the
// members that its publisher gave it but those that are null. A page whose entry
// has no snapshot is fetched, held against its checksum, and given one
// (TestAPageIsTakenOnlyIfItsChecksumHolds).
//
// Where the text contradicts itself or is silent:
//
//   - ai_checksum is "sha256:" and the SHA-256 of the page's HTML as it is
//     served, or of that in UTF-8. One of another form is compared as a string.
//   - Members that are null count as missing, with a warning. A required one
//     that is missing leaves the entry out; the rest is read.
//   - Times of other forms than RFC 3339's are read, with a warning; one from the
//     future counts as now. An entry that only moved its lastmod has not changed.
//   - A sitemap of another major version than 2 is refused.
//   - ai_indexable false, auth_required, and the robots directives noindex and
//     none withdraw a page, whichever else says otherwise, and so does a page
//     that is tagged as sensitive (TestWhatWithdrawsAPage).
//   - A delta says by delta_since, a member of ours, from which state on it
//     counts; an entry of it with ai_indexable false removes. One that does not say
//     so, or begins later than what is held, is passed over for the sitemap
//     (TestDeltasStandInForTheSitemap).
//   - The policy's members are ours; what it denies is not granted.
//   - A snapshot of our own has page, title, content, and language where it is
//     known; one that was made of a page's data-ai- attributes also elements.
package arc
