// Package scp is the Site Content Protocol, version 0.1: collections of pages
// in JSON Lines, read and written, and the sitemap that lists them.
//
// Nothing of a file is used before all of it was checked: Open reads a
// collection to its end, spools the pages outside of memory, and hands them out
// only if every line and the checksum are sound
// (TestWhatRejectsACollectionAndWhatDoesNot, TestMemoryStaysFlat). A Source
// keeps what it reads as layers that count together or not at all
// (TestABrokenCollectionLeavesTheMirrorAsItWas), and an Export leaves a folder
// whole wherever it stops (TestExportSurvivesACrashAtEachStep).
//
// The page line is the payload, byte for byte. What the fields of a Page do not
// say, blocks of unknown types included, is in its Line
// (TestAPageKeepsItsLineByteForByte), and each conversion says what it loses
// (TestWhatAConversionLosesIsSaid).
//
// Where the text contradicts itself or is silent:
//
//   - The checksum is the SHA-256 of the plain octets with the checksum member
//     and one comma cut out: that before it, or behind it if it comes first. A
//     line feed at the end of the file may be counted or not; what is written
//     has none (TestTheChecksumLeavesItselfOut).
//   - Unknown blocks, and blocks that lack a type or what their type requires,
//     are warned of and kept. A level of a heading is clamped.
//   - A page whose url or modified cannot be read is skipped. A required member
//     that is missing, null, of another kind or there twice rejects the file,
//     and so do a blank line before the last page and any limit.
//   - A byte order mark, other line ends, blank lines at the end, and times of
//     other forms than RFC 3339's are read, with a warning for the odd ones.
//   - A time later than the collection's own counts as that
//     (TestATimeFromTheFutureDoesNotWinForEver). A page that differs and claims
//     the time of the one that is held is ignored, as the text asks, and told.
//   - A language is held against BCP 47 when it is read, and against the
//     schema's narrower pattern as well when it is written.
//   - Names are compared as canonical URLs.
//   - A delta may hold no page. A gap between deltas, and a broken one, are
//     mended by the next snapshot; a broken snapshot by the web pages that the
//     sitemap lists (TestPlan, TestWebPagesStandInForABrokenCollection).
package scp
