// Consumer keeps a full-text index of what an indexer lets it use for one purpose,
// and drops what it may use no more. It is a worked example of package feed:
//
//	consumer init   --dir D --identity spiffe://search.example/fulltext > card.json
//	consumer trust  --dir D indexer-card.json
//	consumer run    --dir D --indexer spiffe://search.example/indexer --addr HOST:PORT
//	consumer search --dir D WORDS
//
// TestTheIndexHoldsWhatThePurposeAllows runs it against an indexer, and kills both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/uzpif-oi/uzpif-oi/feed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say init, trust, run or search")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := f.String("dir", ".", "folder of identity, trust and index")
	identity := f.String("identity", "", "SPIFFE ID of this consumer")
	indexer := f.String("indexer", "", "SPIFFE ID of the indexer")
	addr := f.String("addr", "", "host:port of its feed")
	purpose := f.String("purpose", "search.index", "what the pages are used for")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "init":
		card, err := feed.Create(*dir, *identity)
		if err != nil {
			return err
		}
		_, err = out.Write(card)
		return err
	case "trust":
		card, err := os.ReadFile(f.Arg(0))
		if err != nil {
			return err
		}
		name, err := feed.Trust(*dir, card)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "trusted:", name)
		return nil
	case "run":
		x, err := openIndex(filepath.Join(*dir, "index"))
		if err != nil {
			return err
		}
		c := feed.Config{Dir: *dir, Indexer: *indexer, Addr: *addr, Purpose: *purpose, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
		return errors.Join(feed.Run(ctx, c, x), x.close())
	case "search":
		x, err := openIndex(filepath.Join(*dir, "index"))
		if err != nil {
			return err
		}
		urls, err := x.search(strings.Join(f.Args(), " "))
		for _, u := range urls {
			fmt.Fprintln(out, u)
		}
		return errors.Join(err, x.close())
	}
	return fmt.Errorf("unknown command %q", args[0])
}
