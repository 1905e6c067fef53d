package arc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// maxWarnings bounds what is told of one reading.
const maxWarnings = 1000

// A refresh is one reading of the sitemap.
type refresh struct {
	*view
	m      *mirror
	now    time.Time
	skip   func(content.Skipped)
	draft  *draft
	state  mirrorState // as it is to become
	failed bool        // an entry without a URL was skipped
}

// refresh brings the mirror up to date.
func (s *Source) refresh(ctx context.Context, skip func(content.Skipped)) error {
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
	if err := s.openLocked(); err != nil {
		return err
	}
	told := new(content.Told)
	v := &view{s: s, told: told, robots: make(map[string]*fetch.Robots), home: s.config.Location}
	r := &refresh{view: v, m: s.mirror, now: s.config.Now(), skip: skip}
	r.state = s.mirror.state
	err := r.run(ctx)
	if len(told.Warnings) > maxWarnings {
		told.Warnings = told.Warnings[:maxWarnings]
	}
	s.currentMu.Lock()
	s.told = *told
	s.currentMu.Unlock()
	if r.draft != nil {
		r.draft.close()
	}
	return err
}

func (r *refresh) warn(format string, args ...any) {
	if len(r.told.Warnings) < maxWarnings {
		r.told.Warnings = append(r.told.Warnings, fmt.Sprintf(format, args...))
	}
}

func (r *refresh) run(ctx context.Context) error {
	if !isURL(r.s.config.Location) {
		return r.local()
	}
	if err := r.locate(ctx); err != nil {
		return err
	}
	if r.state.Entries != "" && r.state.Sitemap == r.home {
		progress, err := r.deltas(ctx)
		if err != nil || progress {
			return err
		}
	}
	return r.whole(ctx)
}

// locate finds the sitemap's URL, and reads what its origin says about use.
func (r *refresh) locate(ctx context.Context) (err error) {
	if !isSitemapURL(r.home) {
		if r.home, err = r.discover(ctx, r.home); err != nil {
			return err
		}
		own, err := fetch.Origin(r.s.config.Location)
		if err != nil {
			return err
		}
		origin, err := fetch.Origin(r.home)
		if err != nil || origin != own && !slices.Contains(r.s.config.Origins, origin) {
			return fmt.Errorf("%w: the site names %.200q, which is at another origin", ErrNoSitemap, r.home)
		}
	}
	origin, err := fetch.Origin(r.home)
	if err != nil {
		return err
	}
	r.home = canonicalHome(r.home)
	if err := r.readUses(ctx, origin); err != nil {
		return err
	}
	if err := r.readPolicy(ctx, origin); err != nil {
		return err
	}
	return r.slow(origin, r.state.Head.Rate)
}

// whole asks for the sitemap, and reads it if it is another than is held.
func (r *refresh) whole(ctx context.Context) error {
	var cond fetch.Conditions
	if r.state.Entries != "" && r.state.Sitemap == r.home {
		cond = fetch.Conditions{ETag: r.state.Held.ETag, LastModified: r.state.Held.Modified}
	}
	cond.Accept = "application/json, application/yaml;q=0.9"
	home := r.home
	for hop := range 2 {
		response, err := r.s.config.Client.Get(ctx, r.home, cond)
		if err != nil {
			return fmt.Errorf("sitemap: %w", err)
		}
		held, url := validatorsOf(response), response.URL
		if response.NotModified {
			response.Body.Close()
			r.m.state.Full = r.now
			return r.m.save()
		}
		_, err = r.read(response.Body)
		response.Body.Close()
		if errors.Is(err, ErrDescriptor) && hop == 0 {
			if err = r.follow(ctx, url); err == nil {
				cond = fetch.Conditions{Accept: cond.Accept}
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("sitemap %.200q: %w", url, err)
		}
		r.state.Sitemap, r.state.Held, r.state.Full = home, held, r.now
		if r.home != home { // behind a descriptor, which has validators of its own
			r.state.Held = validators{}
		}
		break
	}
	if r.failed {
		r.state.Held = validators{}
	}
	r.state.Deltas = nil
	origin, err := fetch.Origin(r.home)
	if err == nil {
		err = r.slow(origin, r.state.Head.Rate)
	}
	if err != nil {
		return err
	}
	return r.adopt()
}

// follow takes a descriptor's sitemap in its own place.
func (r *refresh) follow(ctx context.Context, at string) error {
	found, err := r.describes(ctx, at)
	if err != nil {
		return err
	}
	own, err := fetch.Origin(r.home)
	if err != nil {
		return err
	}
	origin, err := fetch.Origin(found)
	if err != nil || origin != own && !slices.Contains(r.s.config.Origins, origin) {
		return fmt.Errorf("%w: it names %.200q, which is at another origin", ErrDescriptor, found)
	}
	r.home = found
	return nil
}

// read reads a sitemap into the draft.
func (r *refresh) read(in io.Reader) (Summary, error) {
	d, err := newDraft(r.m.dir)
	if err != nil {
		return Summary{}, fmt.Errorf("mirror: %w", err)
	}
	if r.draft != nil {
		r.draft.close()
	}
	r.draft = d
	sum, err := ReadSitemap(in, r.s.config.Limits, Visitor{
		Entry: d.add,
		Skip: func(n int, url string, reason error) error {
			if url == "" {
				r.failed = true
				r.skip(skipped(url, fmt.Sprintf("entry %d: %v", n, reason), reason))
				return nil
			}
			return d.fail(url, reason)
		},
		Odd: func(what string) { r.warn("%s", what) },
	})
	if err == nil {
		r.state.Head = sum.Head
	}
	return sum, err
}

// adopt makes the draft count.
func (r *refresh) adopt() error {
	l, err := r.m.adopt(r.draft, r.state, func(url string) { r.warn("%s is listed twice", url) })
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	r.s.publish(l)
	return nil
}

// merge applies a delta's draft to the listing that counts, into a new draft.
func (r *refresh) merge(changed map[string]draftRow, from *draft) error {
	d, err := newDraft(r.m.dir)
	if err != nil {
		return err
	}
	v := r.s.hold()
	if v == nil {
		d.close()
		return errors.New("mirror: closed while it was read")
	}
	defer v.release()
	put := func(url string, line []byte, withdrawn bool, err error) error {
		if err != nil {
			return err
		}
		return d.put(url, line, withdrawn)
	}
	for _, old := range v.rows {
		if _, is := changed[old.url]; is {
			continue
		}
		line, err := v.line(old)
		if err := put(old.url, line, false, err); err != nil {
			d.close()
			return err
		}
	}
	for _, url := range slices.Sorted(maps.Keys(changed)) {
		c := changed[url]
		line := make([]byte, c.length)
		_, err := from.spool.ReadAt(line, c.offset)
		if err := put(url, line, c.withdrawn, err); err != nil {
			d.close()
			return err
		}
	}
	from.close()
	r.draft = d
	return nil
}
