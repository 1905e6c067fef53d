// Liar is a publisher that is trusted and lies: it takes the folder of a real
// publisherd, opens a real session with an indexer, is honest in everything but
// one thing, and prints what became of that. Whatever an attack needs beside
// the lie is right, so that only the lie can be what is refused. TestScripts
// runs every attack against the real indexerd, and compares its state.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func main() { os.Exit(cli.Run(newRoot(), os.Args[1:], os.Stderr)) }

// A verdict is how a lie ended, in the words that are printed.
type verdict string

func (v verdict) Error() string { return string(v) }

// errBelieved ends the program if an indexer took a lie for the truth.
var errBelieved = errors.New("the lie was believed")

func newRoot() *cobra.Command {
	var f folders
	root := &cobra.Command{Use: "liar", Short: "Tell an indexer one lie, and print what became of it"}
	fl := root.PersistentFlags()
	fl.StringVar(&f.dir, "dir", "", "folder of the publisherd whose identity and grant are used")
	fl.StringVar(&f.other, "other", "", "folder of another publisherd, whose grant is misused")
	fl.StringVar(&f.indexerDir, "indexer", "", "folder of the indexer, whose log key is misused")
	fl.StringVar(&f.endpoint, "endpoint", "", "HOST:PORT of the indexer")
	all := slices.Concat(lifeAttacks, wireAttacks, grantAttacks, batchAttacks, scopeAttacks)
	for _, a := range all {
		root.AddCommand(&cobra.Command{Use: a.name, Short: a.lie, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLiar(f)
			if err != nil {
				return err
			}
			defer l.close()
			var v verdict
			switch err := l.tell(a); {
			case errors.As(err, &v):
				fmt.Fprintln(cmd.OutOrStdout(), v)
				return nil
			case err != nil:
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "accepted")
			return cli.With(cli.Failed, errBelieved)
		}})
	}
	return root
}
