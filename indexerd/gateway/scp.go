package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
)

const (
	scpSitemap = "sitemap.xml"
	scpPart    = "-snapshot"
	scpFreq    = "hourly"
)

// pack makes the snapshot and its sitemap. Where it gets too large there is none, and
// agents read the pages one by one.
func (e *edition) pack(w *scp.Writer, items []tct.Item, id, base string) error {
	if w.Pages == 0 {
		return nil
	}
	var out bounded
	packing := scp.Packing{Compression: scp.Zstd}
	checksum, size, err := w.Finish(&out, packing)
	if errors.Is(err, scp.ErrLimit) { // packed so well that it would look like a bomb
		out.Reset()
		packing = scp.Packing{}
		checksum, size, err = w.Finish(&out, packing)
	}
	if errors.Is(err, errLarge) {
		return nil
	}
	if err != nil {
		return err
	}
	e.snapshot = document{id + scpPart + packing.Compression.Extension(), checksum, out.Bytes()}
	m := scp.Sitemap{
		Sections: []scp.Section{{Name: id, UpdateFreq: scpFreq, Pages: strconv.FormatInt(w.Pages, 10)}},
		Listings: []scp.Listing{{
			Type: scp.Snapshot, Section: id, Period: e.made.Format("2006-01-02T15-04-05Z"), URL: base + e.snapshot.name,
			Generated: e.made, Expires: e.expiry(), Pages: w.Pages, Size: size,
		}},
	}
	if coding := packing.Compression.Coding(); coding != "" {
		m.Compression = []string{coding}
	}
	if len(items) <= scp.MaxSitemapURLs { // the snapshot holds them all in any case
		for _, i := range items {
			m.URLs = append(m.URLs, scp.SitemapURL{Loc: i.CURL, LastMod: i.Modified})
		}
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		return err
	}
	sum := sha256.Sum256(b.Bytes())
	e.sitemap = document{scpSitemap, hex.EncodeToString(sum[:]), b.Bytes()}
	return nil
}

// expiry is until when the snapshot says that it holds: not beyond any page's end.
func (e *edition) expiry() time.Time {
	if day := e.made.Add(24 * time.Hour); day.Before(e.until) {
		return day
	}
	return e.until
}

func (g *Gateway) serveSCP(w *asking, r *http.Request, reading *indexer.Reading, o *indexer.Offer, file string) {
	e, err := g.edition(r.Context(), reading, o)
	if err != nil {
		g.fail(w, err)
		return
	}
	w.watch = reading.Watch(o, e.moment, e.until)
	switch file {
	case e.sitemap.name:
		scp.ServeSitemap(w, r, bytes.NewReader(e.sitemap.octets), e.sitemap.etag, e.made)
	case e.snapshot.name:
		scp.ServeCollection(w, r, bytes.NewReader(e.snapshot.octets), int64(len(e.snapshot.octets)), scpFreq)
	default:
		g.fail(w, fs.ErrNotExist)
	}
}
