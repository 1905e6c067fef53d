// Package export writes what one purpose may read into a folder, in any of the
// formats, with a signed manifest of the permissions that it rests on.
//
// Every page is decided on by the function that decides for every exit, at the
// release that the manifest names; and if a permission ends while the export is
// written, it is written again before anybody sees it. What may be read no more is in
// no file behind the next export, also not in an older delta:
// TestAFeedTellsWhatItsPurposeAllows
// holds its random courses against exports, too. The same pages, permissions and time
// give the same octets in the formats' files, and one that says the same is not touched.
package export
