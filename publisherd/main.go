// Publisherd pushes what its owner publishes to the indexers that its owner
// chose. It opens no port.
package main

import (
	"os"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func main() { os.Exit(cli.RunCoded(newRoot(), os.Args[1:], os.Stderr, exitCode)) }
