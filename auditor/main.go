// Command auditor checks what publishers and indexers say of one another, for
// someone who trusts neither: it verifies evidence files, offline or against a
// running log, checks and judges whole logs, and follows them over time.
//
// It accepts no key that was not named on its command line, and nothing that
// it reads from a file or a log can raise a verdict above what those keys
// signed: TestVerifyScripts runs the program through honest and dishonest
// input alike.
package main

import (
	"os"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func main() { os.Exit(cli.Run(rootCommand(), os.Args[1:], os.Stderr)) }
