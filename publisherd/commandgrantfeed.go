package main

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// listFlags name the list that a scope is for.
type listFlags struct{ feed, hashes string }

func (f *listFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.feed, "scope-feed", "", "file of URLs, one a line: of the pages under the prefixes, cover those in a signed feed of these; - reads standard input")
	fl.StringVar(&f.hashes, "scope-hashes", "", "file of payload digests (SHA-256), one a line: of the pages under the prefixes, cover those with such content; - reads standard input")
}

// read reads the list, nil if none is named, for a scope within frame.
func (f *listFlags) read(frame grants.Scope, in io.Reader) (*publisher.List, error) {
	switch {
	case f.feed != "" && f.hashes != "":
		return nil, cli.With(cli.Usage, errors.New("a scope is for a feed or for a hash set, not for both"))
	case f.feed != "":
		return readList(f.feed, grants.InFeed, frame, in)
	case f.hashes != "":
		return readList(f.hashes, grants.HashSet, frame, in)
	}
	return nil, nil
}

func readList(file string, t grants.ScopeType, frame grants.Scope, in io.Reader) (*publisher.List, error) {
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		in = opened
	}
	l, err := publisher.ReadList(in, t, frame)
	return l, cli.With(cli.Config, err)
}

func newGrantFeed(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "feed ID FILE",
		Short: "Sign the next feed of a grant for one; the grant itself stays",
		Long: "Feed signs the next feed of a series whose grant is for one, over the URLs that FILE lists, one a\n" +
			"line, or as source scan --json prints them; - reads standard input. The grant stays as it is. With\n" +
			"the next push, pages that are no longer listed leave the index, and those listed now are sent.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := loadConfig(a.dir); err != nil {
				return err
			}
			rel, err := publisher.FindGrant(a.dir, args[0])
			if err != nil {
				return err
			}
			frame, err := rel.Frame(nil)
			if err != nil {
				return err
			}
			l, err := readList(args[1], grants.InFeed, frame, cmd.InOrStdin())
			if err != nil {
				return err
			}
			rel, warnings, err := publisher.NewFeed(a.dir, args[0], l, time.Now())
			if err != nil {
				return err
			}
			printWarnings(cmd.ErrOrStderr(), warnings)
			return a.showGrant(cmd.OutOrStdout(), rel)
		},
	}
}
