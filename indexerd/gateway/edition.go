package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/convert"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
)

// Bounds of what is kept: of one collection's snapshot as it is packed, beyond which
// there is none, and of all editions, beyond which the others are let go.
const (
	maxSnapshot = 64 << 20
	maxEditions = 256 << 20
)

// A document is in memory.
type document struct {
	name, etag string
	octets     []byte
}

// An edition is what lists or holds all pages of a collection, as of one moment.
type edition struct {
	moment   uint64
	until    time.Time  // when the first page's time is over; zero: there is none
	sitemaps []document // of pages
	served   []document // these, and the index if they are several
	sitemap  document   // SCP; without a name if there is no snapshot
	snapshot document
	made     time.Time
}

func (e *edition) size() (n int) {
	for _, d := range e.served {
		n += len(d.octets)
	}
	return n + len(e.sitemap.octets) + len(e.snapshot.octets)
}

// editions keeps one of each collection.
type editions struct {
	building chan struct{} // holds one: who builds

	// allMu guards all.
	allMu sync.Mutex
	all   map[string]*edition
}

func (s *editions) lookup(id string) *edition {
	s.allMu.Lock()
	defer s.allMu.Unlock()
	return s.all[id]
}

// keep lets others go where all would take too much.
func (s *editions) keep(id string, e *edition) {
	s.allMu.Lock()
	defer s.allMu.Unlock()
	delete(s.all, id)
	total := e.size()
	for other, x := range s.all {
		if total += x.size(); total > maxEditions {
			total -= x.size()
			delete(s.all, other)
		}
	}
	s.all[id] = e
}

// edition is that of this moment: the one that is kept if nothing has changed.
func (g *Gateway) edition(ctx context.Context, r *indexer.Reading, o *indexer.Offer) (*edition, error) {
	id := export.ID(o)
	fresh := func() (*edition, error) {
		e := g.editions.lookup(id)
		if e == nil || !e.until.IsZero() && !r.Now().Before(e.until) {
			return nil, nil
		}
		// An edition of a later release than the Reading is as good as one of it only
		// if nothing has changed between them, which this Reading cannot see.
		now, err := r.Moment()
		if err != nil || e.moment > now {
			return nil, err
		}
		changed, err := r.Changed(o, e.moment)
		if err != nil || changed {
			return nil, err
		}
		return e, nil
	}
	if e, err := fresh(); e != nil || err != nil {
		return e, err
	}
	select {
	case g.editions.building <- struct{}{}:
		defer func() { <-g.editions.building }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e, err := fresh(); e != nil || err != nil {
		return e, err
	}
	e, err := g.build(ctx, r, o)
	if err == nil {
		g.editions.keep(id, e)
	}
	return e, err
}

// build reads every page once. It holds a row for each, and the packed snapshot; the
// plain one lies in a file without a name meanwhile.
func (g *Gateway) build(ctx context.Context, r *indexer.Reading, o *indexer.Offer) (*edition, error) {
	if err := r.HandOut(o); err != nil { // durable before any of it goes out
		return nil, err
	}
	e := &edition{made: r.Now().UTC().Truncate(time.Second)}
	var err error
	if e.moment, err = r.Moment(); err != nil {
		return nil, err
	}
	id, mapping := export.ID(o), g.mapping(o)
	w, err := scp.NewWriter(scp.Collection{ID: id + scpPart, Section: id, Type: scp.Snapshot, Generated: e.made}, os.TempDir())
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var items []tct.Item
	for p, err := range r.Pages(o) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		item, line, err := both(p)
		if err == nil {
			err = w.Add(line)
		}
		if err != nil {
			return nil, fmt.Errorf("page %.200q: %w", p.URL, err)
		}
		item.MURL = mapping.MURL(p.URL)
		items = append(items, item)
		for _, end := range []time.Time{p.Terms.CopyUntil.Time, p.Terms.ExpiresAt.Time} {
			if e.until.IsZero() || end.Before(e.until) {
				e.until = end
			}
		}
	}
	if err := e.list(items, mapping); err != nil {
		return nil, err
	}
	return e, e.pack(w, items, id, mapping.Base)
}

// both is a page in the sitemap of TCT, and as a line of SCP.
func both(p *indexer.Page) (item tct.Item, line []byte, err error) {
	c, err := pageOf(p)
	if err != nil {
		return item, nil, err
	}
	if line, _, err = convert.ToSCP(c); err != nil {
		return item, nil, err
	}
	c, _, err = convert.ToOwnTCT(c)
	return tct.Item{CURL: p.URL, Modified: c.Modified, Hash: tct.FormatHash(c.Fingerprint)}, line, err
}

// list makes the sitemaps of TCT.
func (e *edition) list(items []tct.Item, m tct.Mapping) error {
	var parts []*bytes.Buffer
	each := func(yield func(tct.Item, error) bool) {
		for _, i := range items {
			if !yield(i, nil) {
				return
			}
		}
	}
	written, err := tct.WriteSitemaps(each, tct.Bounds{}, func(int) (io.WriteCloser, error) {
		parts = append(parts, new(bytes.Buffer))
		return closing{parts[len(parts)-1]}, nil
	})
	if err != nil {
		return err
	}
	var children []tct.Child
	for n, w := range written {
		d := document{name: tct.SitemapFile, etag: w.ETag(), octets: parts[n].Bytes()}
		if len(written) > 1 {
			d.name = fmt.Sprintf("llm-sitemap-%x.json", w.Hash[:8])
			children = append(children, tct.Child{URL: m.Base + d.name, ETag: d.etag})
		}
		e.sitemaps = append(e.sitemaps, d)
	}
	e.served = e.sitemaps
	if len(children) == 0 {
		return nil
	}
	var b bytes.Buffer
	index, err := tct.WriteIndex(&b, children)
	e.served = append(e.served[:len(e.served):len(e.served)], document{tct.SitemapFile, index.ETag(), b.Bytes()})
	return err
}

type closing struct{ io.Writer }

func (closing) Close() error { return nil }

// errLarge ends a snapshot that is not to be kept in memory.
var errLarge = errors.New("the snapshot gets too large")

type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxSnapshot {
		return 0, errLarge
	}
	return b.Buffer.Write(p)
}
