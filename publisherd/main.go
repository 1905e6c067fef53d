// Publisherd pushes what its owner publishes to the indexers that its owner
// chose. It opens no port, unless its owner wants its health to be asked for.
//
// Commands that need the store are answered by the daemon of the folder while
// it runs, with the same words and the same exit code
// (TestErrorsKeepTheirCodesAcrossTheSocket).
package main

import (
	"os"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// memoryGoal is about how many octets the collector lets the program have: what it
// holds is less (doc/bench.md), and only pages of many MiB need more.
const memoryGoal = 192 << 20

func main() {
	cli.AimForMemory(memoryGoal)
	os.Exit(cli.RunCoded(newRoot(), os.Args[1:], os.Stderr, exitCode))
}
