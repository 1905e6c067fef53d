// Package walk traverses burrows (section 8 of draft-rabit-rbt-02): it finds a
// manifest by its roots, visits its entries breadth-first, and yields each with
// its octets, once these are known to be the ones that the entry names.
//
// No root is believed: octets that are not those of the RID and hash are asked
// for elsewhere, at the other roots and then at mirrors, and are never yielded
// (TestARootThatLiesIsPassedOver). A mirror gives nothing that cannot be checked
// so; a document of entries, for which the text has no digest, comes from roots
// alone unless its collection names one (TestAMirrorGivesNothingUnverified,
// TestADocumentIsTheOneThatItsCollectionNames). Manifest and entries of a Git root are of
// one commit, whatever is pushed meanwhile (TestAWalkSeesOneCommit).
//
// What a publisher writes cannot make a walk endless: each document is visited
// once, so that an entry is known by its document and its id, and two files of
// the same octets are two entries (TestACircleOfDocumentsEnds,
// TestFilesOfTheSameOctetsAreTwoEntries); documents, entries, depth, octets and
// time have limits (TestEveryLimitEndsAWalk). A walk holds one document, the
// places of documents that are still to be read, and the octets of one entry.
//
// One failure ends nothing but what it concerns; all are told in the report of
// section 9.3 (TestFailuresAreReportedAndPassedOver).
package walk
