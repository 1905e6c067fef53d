package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/fleet"
)

// host is whose pages they are.
const host = "docs.test"

// leastPages is the least number of pages that differences are spread over, so
// that the guard against the deletion of many does not stand in the way.
const leastPages = 1000

// small is what was measured on many small pages, with three indexers at once.
type small struct {
	Pages     int         `json:"pages"`
	First     fleet.Phase `json:"first"`
	Next      fleet.Phase `json:"next"`      // unchanged, right behind it: the stores read their logs again
	Unchanged fleet.Phase `json:"unchanged"` // the middle of three
	Lost      fleet.Phase `json:"lost"`      // the publisher's store, and ten pages are others
	Restart   float64     `json:"restart"`   // seconds until an indexer is ready
	Disk      disk        `json:"disk"`      // behind the first push

	Rsync fleet.Copied `json:"rsync"` // of the same folder, unchanged, to one copy
}

// A disk is what stores take on it, in octets, behind a push to three indexers.
type disk struct {
	Publisher int64 `json:"publisher"`
	Indexer   int64 `json:"indexer"` // the largest
}

// measureDisk asks what the stores of p and of all indexers take.
func measureDisk(p *fleet.Publisher, indexers []*fleet.Indexer) (d disk, err error) {
	if d.Publisher, err = fleet.Allocated(filepath.Join(p.Dir, "store")); err != nil {
		return d, err
	}
	for _, x := range indexers {
		n, err := fleet.Allocated(filepath.Join(x.Dir, "store"))
		if err != nil {
			return d, err
		}
		d.Indexer = max(d.Indexer, n)
	}
	return d, nil
}

func measureSmall(ctx context.Context, dir string, pages int, o options, progress func(string, ...any)) (_ *small, err error) {
	site := filepath.Join(dir, "site")
	if err := generate(ctx, site, pages); err != nil {
		return nil, err
	}
	progress("%d small pages are written", pages)
	f, err := fleet.New(ctx, dir, o.bin, 3)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Stop(), os.RemoveAll(dir)) }()
	p, err := f.Join(ctx, host, fleet.Source{Kind: "site", Location: site})
	if err != nil {
		return nil, err
	}
	if err := fleet.Rest(ctx); err != nil {
		return nil, err
	}
	s := &small{Pages: pages}
	push := func(ph *fleet.Phase, name string) error {
		if *ph, err = p.Push(ctx, name); err == nil {
			progress("%d small pages, %s: %d sent, %d deleted, %d octets, %d round trips, %.1f s; %d MiB and %d MiB", pages, name,
				ph.Sent, ph.Deleted, ph.Octets, ph.RoundTrips, ph.Seconds, ph.PublisherRSS>>20, ph.IndexerRSS>>20)
		}
		return err
	}
	if err := push(&s.First, "first"); err != nil {
		return nil, err
	}
	if s.Disk, err = measureDisk(p, f.Indexers); err != nil {
		return nil, err
	}
	if err := push(&s.Next, "unchanged, right behind it"); err != nil {
		return nil, err
	}
	var quiet [3]fleet.Phase
	for i := range quiet {
		if err := push(&quiet[i], "unchanged"); err != nil {
			return nil, err
		}
	}
	s.Unchanged = middle(quiet[:], func(ph fleet.Phase) float64 { return ph.Seconds })
	if s.Rsync, err = copyUnchanged(ctx, dir, site); err != nil {
		return nil, err
	}
	progress("%d small pages, unchanged, rsync: %d octets, %.1f s", pages, s.Rsync.Octets, s.Rsync.Seconds)
	if err := errors.Join(os.RemoveAll(filepath.Join(p.Dir, "store")), differ(site, pages)); err != nil {
		return nil, err
	}
	if err := push(&s.Lost, "store lost, ten differ"); err != nil {
		return nil, err
	}
	if s.First.Sent != pages || s.Next.Sent+s.Next.Deleted+s.Unchanged.Sent+s.Unchanged.Deleted != 0 || s.Lost.Sent != 7 || s.Lost.Deleted != 3 {
		return nil, fmt.Errorf("what was sent is not what differs: %+v", s)
	}
	x := f.Indexers[0]
	if err := x.Stop(); err != nil {
		return nil, err
	}
	began := time.Now()
	err = f.Start(ctx, x)
	s.Restart = time.Since(began).Seconds()
	return s, err
}

// middle is the one of all whose figure is in the middle.
func middle[T any](all []T, figure func(T) float64) T {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(figure(a), figure(b)) })
	return all[len(all)/2]
}

// copyUnchanged is what rsync does when it finds that nothing has changed: the middle of
// three.
func copyUnchanged(ctx context.Context, dir, site string) (fleet.Copied, error) {
	d, err := fleet.StartRsync(ctx, dir, site)
	if err != nil {
		return fleet.Copied{}, err
	}
	defer d.Stop()
	if _, err := d.Copy(ctx); err != nil {
		return fleet.Copied{}, err
	}
	var all [3]fleet.Copied
	for i := range all {
		if all[i], err = d.Copy(ctx); err != nil {
			return fleet.Copied{}, err
		}
	}
	return middle(all[:], func(c fleet.Copied) float64 { return c.Seconds }), nil
}

// page is where the i-th page stands: a thousand to a folder.
func page(site string, i int) string {
	return filepath.Join(site, fmt.Sprintf("d%04d", i/1000), fmt.Sprintf("p%07d.html", i))
}

// generate writes the pages, of about 300 octets each, the same each time.
func generate(ctx context.Context, site string, pages int) error {
	for i := range pages {
		if i%1000 == 0 {
			if err := errors.Join(ctx.Err(), os.MkdirAll(filepath.Dir(page(site, i)), 0o755)); err != nil {
				return err
			}
		}
		if err := writePage(site, i, "little"); err != nil {
			return err
		}
	}
	return nil
}

func writePage(site string, i int, says string) error {
	return os.WriteFile(page(site, i), fmt.Appendf(nil, "<!DOCTYPE html><html lang=en><head><title>Page %d</title></head><body><main><h1>Page %d</h1>"+
		"<p>This is the page with the number %d, %08x, which says %s beyond that: item %d of ward %d in quarter %d, kept since %d.</p></main></body></html>\n",
		i, i, i, uint32(uint64(i)*2654435761), says, i%977, i%89, i%13, 1900+i%120), 0o644)
}

// differ edits four pages, deletes three and adds three, all over the site.
func differ(site string, pages int) error {
	var errs []error
	for k := range 10 {
		i := (2*k + 1) * pages / 20
		switch {
		case k < 4:
			errs = append(errs, writePage(site, i, "much"))
		case k < 7:
			errs = append(errs, os.Remove(page(site, i)))
		default:
			errs = append(errs, os.WriteFile(page(site, i)+".new.html", fmt.Appendf(nil, "<!DOCTYPE html><title>New %d</title><p>New.", k), 0o644))
		}
	}
	return errors.Join(errs...)
}
