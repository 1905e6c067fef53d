package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// write gives a page of a site other words.
func (f *farm) write(p *publisher, page int) error {
	f.next++
	p.pages[page] = f.next
	html := fmt.Sprintf("<!DOCTYPE html><html lang=en><title>Page %d</title><main><h1>Page %d</h1><p>Step %d. %s</p></main>\n",
		page, page, f.next, strings.Repeat(fmt.Sprintf("What %d says of %d. ", f.next, page), 40))
	path := p.file(page)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(html), 0o644)
}

// fillStores writes all pages of each site anew, and has them pushed, until each store
// has written what it holds in memory several times over. A daemon that is left alone
// takes hours for that: memory that fills would be taken for memory that grows.
func (f *farm) fillStores(ctx context.Context) error {
	for done := 0; done < f.fill; done += f.pages {
		for _, p := range f.all {
			for i := range f.pages {
				if err := f.write(p, i); err != nil {
					return err
				}
			}
			if _, err := f.call(ctx, "publisherd", "push", "--dir", p.dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *publisher) file(page int) string {
	return filepath.Join(p.site, fmt.Sprintf("d%d", page%17), fmt.Sprintf("p%d.html", page))
}

// remove deletes a page of a site that has enough of them.
func (f *farm) remove(p *publisher, page int) error {
	if len(p.pages) < f.pages/2 {
		return nil
	}
	delete(p.pages, page)
	return os.Remove(p.file(page))
}

// step does one thing of an operator's, a reader's or an author's, by chance, and
// rests a little, as they do.
func (f *farm) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := f.all[rand.IntN(len(f.all))]
	pages := slices.Collect(maps.Keys(p.pages))
	page := pages[rand.IntN(len(pages))]
	kind, do := f.choose(ctx, p, page)
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	f.done[kind]++
	time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
	return nil
}

// choose picks a step. The numbers are how often each comes in a thousand.
func (f *farm) choose(ctx context.Context, p *publisher, page int) (kind string, do func() error) {
	call := func(args ...string) func() error {
		return func() error { _, err := f.call(ctx, args[0], args[1:]...); return err }
	}
	switch n := rand.IntN(1000); {
	case n < 500:
		return "edits", func() error { return f.write(p, page) }
	case n < 600:
		return "pages added", func() error { return f.write(p, f.pages+rand.IntN(f.pages)) }
	case n < 700:
		return "pages removed", func() error { return f.remove(p, page) }
	case n < 800:
		return "pushes", call("publisherd", "push", "--dir", p.dir)
	case n < 880:
		return "status", call("publisherd", "status", "--json", "--dir", p.dir)
	case n < 940:
		return "status of the indexer", call("indexerd", "status", "--json", "--dir", f.indexer.dir)
	case n < 960:
		return "receipts verified", call("publisherd", "receipts", "verify", "--dir", p.dir)
	case n < 975:
		return "renewed grants", func() error { return f.renew(ctx, p) }
	case n < 985:
		return "reloads", func() error { return p.cmd.Process.Signal(hangup) }
	case n < 990:
		return "reloads of the indexer", func() error { return f.indexer.cmd.Process.Signal(hangup) }
	case n < 996:
		return "logs read", call("auditor", "lint", f.public, "--key", f.indexer.dir+".card.json")
	default:
		return "backups", func() error { return f.backup(ctx) }
	}
}

// renew signs the next grant of a publisher's series.
func (f *farm) renew(ctx context.Context, p *publisher) error {
	b, err := f.call(ctx, "publisherd", "grant", "list", "--json", "--dir", p.dir)
	if err != nil {
		return err
	}
	var g struct {
		ID string `json:"grant_id"`
	}
	if err := json.Unmarshal(b, &g); err != nil {
		return fmt.Errorf("grant list: %w", err)
	}
	return f.calls(ctx, []string{"publisherd", "grant", "renew", g.ID, "--dir", p.dir})
}

// backup makes one of the indexer, and removes it.
func (f *farm) backup(ctx context.Context) error {
	to := f.path("backup")
	if _, err := f.call(ctx, "indexerd", "backup", to, "--dir", f.indexer.dir); err != nil {
		return err
	}
	return os.RemoveAll(to)
}

// settle pushes what is left, and requires the indexer to hold as many pages as the
// sites have, and its files to be whole.
func (f *farm) settle(ctx context.Context) error {
	want := 0
	for _, p := range f.all {
		if _, err := f.call(ctx, "publisherd", "push", "--dir", p.dir); err != nil {
			return err
		}
		want += len(p.pages)
	}
	b, err := f.call(ctx, "indexerd", "status", "--json", "--dir", f.indexer.dir)
	if err != nil {
		return err
	}
	var s struct{ Pages int }
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s.Pages != want {
		return fmt.Errorf("the indexer holds %d pages, the sites have %d", s.Pages, want)
	}
	return f.calls(ctx, []string{"auditor", "lint", f.public, "--key", f.indexer.dir + ".card.json"})
}

// tally says what was done.
func (f *farm) tally() string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(f.done)) {
		all = append(all, fmt.Sprintf("%d %s", f.done[kind], kind))
	}
	return strings.Join(all, ", ")
}

// hangup has a daemon read its configuration anew.
const hangup = syscall.SIGHUP
