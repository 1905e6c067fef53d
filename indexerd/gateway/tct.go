package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/convert"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
)

// mapping names the pages of a collection by the hashes of their URLs: these are also
// their keys in the store. No page of a publisher lies below the gateway's own URL.
func (g *Gateway) mapping(o *indexer.Offer) tct.Mapping {
	return tct.Mapping{Base: g.c.URL + export.ID(o) + "/"}
}

const pagePrefix = tct.DefaultSlug + "/u-"

// root is what lies above the collections.
type root struct {
	g *Gateway
	r *indexer.Reading
}

// Open opens the index of all collections.
func (d *root) Open(ctx context.Context, path string) (*tct.Served, error) {
	if path != "/"+tct.SitemapFile {
		return nil, fs.ErrNotExist
	}
	all, err := d.r.Offers()
	if err != nil {
		return nil, err
	}
	var children []tct.Child
	for i := range all {
		e, err := d.g.edition(ctx, d.r, &all[i])
		if err != nil {
			return nil, err
		}
		for _, s := range e.sitemaps {
			children = append(children, tct.Child{URL: d.g.mapping(&all[i]).Base + s.name, ETag: s.etag})
		}
	}
	if len(children) == 0 {
		return nil, fs.ErrNotExist
	}
	var b bytes.Buffer
	written, err := tct.WriteIndex(&b, children)
	if err != nil {
		return nil, err
	}
	return &tct.Served{Kind: tct.Sitemap, Content: inMemory(b.Bytes()), ETag: written.ETag()}, nil
}

// folder is one collection.
type folder struct {
	g *Gateway
	r *indexer.Reading
	o *indexer.Offer
	w *asking
}

// Open opens a page, a sitemap or the policy descriptor.
func (d *folder) Open(ctx context.Context, path string) (*tct.Served, error) {
	_, file, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if file == tct.PolicyFile {
		policy := export.Policy(d.o)
		raw, err := policy.Marshal()
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(raw)
		return &tct.Served{Kind: tct.Descriptor, Content: inMemory(raw), ETag: tct.FormatHash(sum), Modified: policy.Updated}, nil
	}
	if digits, ok := strings.CutPrefix(file, pagePrefix); ok {
		return d.page(digits)
	}
	if !strings.HasPrefix(file, strings.TrimSuffix(tct.SitemapFile, ".json")) {
		return nil, fs.ErrNotExist
	}
	e, err := d.g.edition(ctx, d.r, d.o)
	if err != nil {
		return nil, err
	}
	for _, s := range e.served {
		if s.name == file {
			d.w.watch = d.r.Watch(d.o, e.moment, e.until)
			return &tct.Served{Kind: tct.Sitemap, Content: inMemory(s.octets), ETag: s.etag}, nil
		}
	}
	return nil, fs.ErrNotExist
}

func (d *folder) page(digits string) (*tct.Served, error) {
	digits, ok := strings.CutSuffix(digits, ".json")
	h, err := hex.DecodeString(digits)
	if !ok || err != nil || len(h) != sha256.Size || digits != strings.ToLower(digits) {
		return nil, fs.ErrNotExist
	}
	p, err := d.r.PageAt(d.o, [32]byte(h))
	if err != nil {
		return nil, err
	}
	if d.w.watch, err = d.r.WatchPage(d.o, p); err != nil {
		return nil, err
	}
	if err := d.r.HandOut(d.o); err != nil { // durable before the page goes out
		return nil, err
	}
	c, err := own(p)
	if err != nil {
		return nil, err
	}
	return &tct.Served{
		Kind: tct.Payload, Content: inMemory(c.Payload), ETag: tct.FormatHash(c.Fingerprint), Canonical: p.URL, Modified: c.Modified,
	}, nil
}

// own is a page as the gateway hands it out.
func own(p *indexer.Page) (content.Page, error) {
	c, err := pageOf(p)
	if err == nil {
		c, _, err = convert.ToOwnTCT(c)
	}
	return c, err
}

func pageOf(p *indexer.Page) (content.Page, error) {
	c, err := convert.FromPayload(content.Format(p.Format), p.URL, p.Payload, p.ModifiedAt.Time)
	if c.Modified.IsZero() {
		c.Modified = p.TakenAt.Time
	}
	return c, err
}
