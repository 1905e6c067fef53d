// Indexerd accepts what publishers push under grants that they signed, keeps
// every decision in a transparency log, and answers with signed receipts.
package main

import (
	"os"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func main() { os.Exit(cli.RunCoded(newRoot(), os.Args[1:], os.Stderr, exitCode)) }
