// Package preferences reads what others' formats say about the use of content:
// AIPREF's Content-Usage, Content-Signal, robots directives, and the permissions
// of an RBT manifest. Each is turned into statements about our purposes, with
// the place and the words of each.
//
// A permission reaches exactly the purpose that it is mapped to; a denial
// reaches also what cannot be done without that purpose. A word that is not
// known, or that is none where one is asked for, states nothing, and nothing is
// allowed by it: TestAPermissionReachesNothingElse and
// TestWordsThatAreNotKnownAllowNothing show both.
package preferences
