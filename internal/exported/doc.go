// Package exported is the folder of an export, for who writes it and for who checks
// it:
//
//	export.json    the signed manifest
//	SHA256SUMS     of every other file, for sha256sum -c as well
//	pages/ID.jsonl a line for each page of a collection: where it comes from, and its terms
//	data/ID/…      the collection in the format that was asked for
//
// A folder is replaced as a whole. Begin makes its successor beside it, of hard links,
// so that a file that does not change is not touched; Exchange puts it in place in one
// step, and so who opens the folder sees the old export or the new one:
// TestAReaderSeesTheOldExportOrTheNew reads it while it changes, and
// TestAnExportIsWholeWhereverItsMakerDies ends its maker behind each step.
//
// Verify believes nothing that the manifest does not cover: a file too many, one that
// is missing, and one whose octets differ are each told
// (TestVerifyTellsWhatWasNotSigned).
package exported

import "errors"

// The names of what a folder holds beside the collections.
const (
	ManifestFile = "export.json"
	SumsFile     = "SHA256SUMS"
	PagesFolder  = "pages"
	DataFolder   = "data"
)

// Bounds of what is read: of the sums in octets, which come to about 100 for each
// file, and of one line of the pages.
const (
	maxSums = 1 << 30
	maxLine = 256 << 20
)

// ErrNotExport says that a folder holds something, and no export.
var ErrNotExport = errors.New("the folder is neither empty nor an export")
