// Package pages reads the pages of a burrow: its resources of HTML, Markdown
// and plain text, and the payloads of the Collaboration Tunnel that an export
// puts into one.
//
// Each resource is verified before a page is made of it, and named by its
// SHA-256 from then on: what is held is not fetched again, and what is known is
// not read again, so that after a commit only what it changed is read and
// offered (TestOnlyWhatACommitChangedIsRead). A burrow that cannot be listed to
// its end gives an error and no page, so that a page which is missing can be
// taken for gone (TestADoubtfulBurrowYieldsNoPage).
package pages
