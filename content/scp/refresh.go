package scp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// A refresh is one reading of a source.
type refresh struct {
	s    *Source
	m    *mirror
	now  time.Time
	skip func(content.Skipped)
	seen map[string]validators // to be known from now on, if all goes well
}

// retryRejected is how long a collection that was rejected is left alone.
const retryRejected = time.Hour

// maxSectionLayers is how many layers a section may have before a snapshot is
// wanted whatever its age.
const maxSectionLayers = 100

func bufioReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, readAhead) }

// refresh brings the mirror up to date.
func (s *Source) refresh(ctx context.Context, skip func(content.Skipped)) error {
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
	if err := s.openLocked(); err != nil {
		return err
	}
	r := &refresh{s: s, m: s.mirror, now: s.config.Now(), skip: skip, seen: make(map[string]validators)}
	o, err := r.discover(ctx)
	if err != nil {
		return err
	}
	if o.unchanged {
		return nil
	}
	for _, w := range o.warnings {
		r.warn(s.config.Location, w)
	}
	broken, err := r.sections(ctx, &o)
	if err != nil {
		return err
	}
	if len(broken) > 0 {
		if err := r.fallBack(ctx, o.pages, broken); err != nil {
			return err
		}
	}
	r.forget(&o)
	r.dropFallback()
	if len(broken) == 0 {
		maps.Copy(r.m.state.Known, r.seen)
	}
	if err := r.m.commit(); err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	s.publish(r.m.layers())
	if len(r.m.state.Layers) == 0 {
		return fmt.Errorf("source of collections %s: nothing of it can be read", s.config.Location)
	}
	return nil
}

func (r *refresh) warn(where, what string) {
	r.skip(content.Skipped{Location: where, Reason: what, Err: ErrOdd})
}

// ErrOdd marks what Pages tells skip for the operator's sake: no page is missing for it.
var ErrOdd = errors.New("odd, and no reason to leave out more than that")

func (r *refresh) reject(where string, err error) {
	r.skip(content.Skipped{Location: where, Reason: "the collection is rejected: " + err.Error(), Err: err})
}

// forget drops what is remembered of URLs that are listed no more.
func (r *refresh) forget(o *offers) {
	listed := make(map[string]bool)
	for _, f := range o.all {
		listed[f.URL] = true
	}
	for _, u := range o.sitemaps {
		listed[u] = true
	}
	maps.DeleteFunc(r.m.state.Known, func(u string, _ validators) bool { return !listed[u] })
	maps.DeleteFunc(r.m.state.Rejected, func(u string, _ rejection) bool { return !listed[u] })
}

// sections brings each section up to date, those with less to fetch first, and
// returns those that could not be.
func (r *refresh) sections(ctx context.Context, o *offers) (broken []string, err error) {
	bySection := make(map[string][]offer)
	size := make(map[string]int64)
	for _, f := range o.all {
		if r.s.config.Section == "" || f.Section == r.s.config.Section {
			bySection[f.Section] = append(bySection[f.Section], f)
			size[f.Section] += f.Size
		}
	}
	order := slices.SortedFunc(maps.Keys(bySection), func(a, b string) int {
		return cmp.Or(cmp.Compare(size[a], size[b]), cmp.Compare(a, b))
	})
	for _, name := range order {
		whole, err := r.section(ctx, name, bySection[name])
		if err != nil {
			return nil, err
		}
		if !whole {
			broken = append(broken, name)
		}
	}
	return broken, nil
}

// section applies what Plan says. Where a collection is rejected, it plans
// again without it: after a broken delta comes the snapshot, and after a broken
// snapshot there is nothing, and false is returned.
func (r *refresh) section(ctx context.Context, name string, listed []offer) (whole bool, err error) {
	whole = true
	for range len(listed) + 1 {
		plan, chosen := r.plan(name, listed)
		if len(plan) == 0 {
			return whole, nil
		}
		for _, l := range plan {
			f := chosen[l.URL]
			err := r.take(ctx, name, f)
			if errors.Is(err, ErrRejected) {
				r.reject(f.URL, err)
				r.m.state.Rejected[f.URL] = rejection{f.Generated, r.now}
				listed = slices.DeleteFunc(listed, func(o offer) bool { return o.URL == f.URL })
				whole = false
				break
			}
			if err != nil {
				return false, err
			}
			delete(r.m.state.Rejected, f.URL)
			if l.Type == Snapshot {
				whole = true
			}
		}
		if whole {
			return true, nil
		}
	}
	return whole, nil
}

// plan leaves out what was rejected a short while ago.
func (r *refresh) plan(name string, listed []offer) ([]Listing, map[string]offer) {
	var p Progress
	if s := r.m.state.Sections[name]; s != nil {
		p = Progress{s.Base, s.Reached, s.Fetched}
	}
	layers := 0
	for _, l := range r.m.state.Layers {
		if l.Section != name {
			continue
		}
		layers++
		for _, f := range listed {
			// A file that was replaced under its name and time is another.
			if f.URL == l.URL && f.identity != l.Identity && f.identity != "" && f.Generated.Equal(l.Generated) {
				p = Progress{}
			}
		}
	}
	if layers > maxSectionLayers {
		p.Fetched = time.Time{}
	}
	var all []Listing
	chosen := make(map[string]offer)
	for _, f := range listed {
		old, ok := r.m.state.Rejected[f.URL]
		if ok && old.Generated.Equal(f.Generated) && r.now.Sub(old.At) < retryRejected {
			continue
		}
		all = append(all, f.Listing)
		chosen[f.URL] = f
	}
	return Plan(p, all, r.now, r.s.config.Every), chosen
}

// take fetches one collection and makes it a layer.
func (r *refresh) take(ctx context.Context, section string, f offer) error {
	if f.file != "" {
		in, err := os.Open(f.file)
		if err != nil {
			return err
		}
		defer in.Close()
		return r.verify(in, section, f)
	}
	client := r.s.config.Client
	if client == nil {
		return fmt.Errorf("%w: %s is not beside its sitemap, and there is no client to fetch it", ErrRejected, f.URL)
	}
	if err := r.checkOrigin(f.URL); err != nil {
		return err
	}
	if limits := r.s.config.Limits.complete(); f.Size > limits.Packed {
		return fmt.Errorf("%w: %w", ErrRejected, limit("the sitemap says %d octets", f.Size))
	}
	response, err := client.Get(ctx, f.URL, fetch.Conditions{Accept: "application/scp, */*;q=0.1"})
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	defer response.Body.Close()
	err = r.verify(response.Body, section, f)
	if err == nil {
		r.seen[f.URL] = validatorsOf(response, r.now)
	}
	return err
}

// checkOrigin holds a collection's URL against where collections may lie.
func (r *refresh) checkOrigin(u string) error {
	origin, err := fetch.Origin(u)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	if allowed := r.s.config.Origins; len(allowed) > 0 {
		if !slices.Contains(allowed, origin) {
			return fmt.Errorf("%w: %s is none of the origins of collections", ErrRejected, origin)
		}
		return nil
	}
	if own, err := fetch.Origin(r.s.config.Location); err == nil && own != origin {
		r.warn(u, "the collection lies at another origin than its sitemap")
	}
	return nil
}

// verify reads a collection into a layer of its own, and lets it count if all
// of it is sound. section is empty where whatever the file says is taken.
func (r *refresh) verify(in io.Reader, section string, f offer) error {
	d, err := r.m.draft()
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	d.writer.keep = r.keep
	limits := r.s.config.Limits.complete()
	limits.Plain = min(limits.Plain, r.s.config.Quota-r.m.used())
	if limits.Plain <= 0 {
		d.discard()
		return fmt.Errorf("%w: %w", ErrRejected, limit("the mirror holds its quota of %d octets", r.s.config.Quota))
	}
	file, err := verify(in, Options{
		Spool: r.m.dir, Limits: limits,
		Warn: func(w Warning) { r.warn(fmt.Sprintf("%s:%d", f.URL, w.Line), w.Text) },
		Accept: func(c *Collection) error {
			d.writer.generated = c.Generated
			return r.accept(c, section, &f)
		},
	}, &d.writer)
	if err != nil {
		d.discard()
		return err
	}
	c := &file.Collection
	state, err := d.finish(layerState{
		Section: c.Section, Type: c.Type, Generated: c.Generated, URL: f.URL, Identity: f.identity,
	})
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	r.m.adopt(state, r.now)
	return nil
}

// accept holds a file's metadata against what was listed, and against the
// clock. What a file of the operator's own may be old is not our affair.
func (r *refresh) accept(c *Collection, section string, f *offer) error {
	maxAge := r.s.config.MaxAge
	if f.file != "" {
		maxAge = 0
	}
	if err := Fresh(c, r.now, r.s.config.Skew, maxAge); err != nil {
		return err
	}
	if section == "" {
		if held := r.m.state.Sections[c.Section]; held != nil && c.Generated.Before(held.Base) {
			return ErrStale
		}
		return nil
	}
	if c.Section != section || c.Type != f.Type {
		return fmt.Errorf("it is a %s of section %.80q, and was listed as a %s of %.80q", c.Type, c.Section, f.Type, section)
	}
	if !c.Generated.Equal(f.Generated) {
		r.warn(f.URL, "generated is not what the sitemap says")
	}
	return nil
}

// keep takes pages of the publisher's own hosts alone.
func (r *refresh) keep(p *Page) bool {
	if r.s.host == nil || r.s.host[hostOf(p.URL)] {
		return true
	}
	r.warn(p.URL, "a page of another host than the publisher's is passed over")
	return false
}
