// Package sheet is the style that our pages for people have in common: the log's,
// the auditor's report, and the status of both daemons. Its colours can be read in
// both schemes (TestColoursCanBeReadInBothSchemes). A page puts it before its own.
package sheet

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
)

// Base is the common style.
//
//go:embed base.css
var Base string

// Hash names an inline style or script in a Content-Security-Policy.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
