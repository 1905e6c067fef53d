package scp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// An offer is a collection that can be had.
type offer struct {
	Listing
	file     string // where it lies; empty for one that is to be fetched
	identity string // of a local file: the SHA-256 of its octets
}

// offers is what a location holds.
type offers struct {
	all      []offer
	pages    []SitemapURL // for the case that a collection is broken
	warnings []string
	// unchanged says that a server said so, and nothing else is known.
	unchanged bool
	// sitemaps are the URLs that were asked.
	sitemaps []string
}

const maxFiles = 10_000 // of a folder

// discover looks what there is.
func (r *refresh) discover(ctx context.Context) (o offers, err error) {
	location := r.s.config.Location
	if isURL(location) {
		return o, r.discoverURL(ctx, &o, location, true)
	}
	info, err := os.Stat(location)
	if err != nil {
		return o, fmt.Errorf("source of collections: %w", err)
	}
	if !info.IsDir() {
		return o, r.discoverFile(&o, location)
	}
	files, err := os.ReadDir(location)
	if err != nil {
		return o, fmt.Errorf("source of collections: %w", err)
	}
	for _, f := range files {
		name := f.Name()
		if strings.HasPrefix(name, ".") || !f.Type().IsRegular() || !isCollectionName(name) {
			continue
		}
		if len(o.all) == maxFiles {
			return o, limit("more than %d collections in %s", maxFiles, location)
		}
		if err := r.discoverFile(&o, filepath.Join(location, name)); err != nil {
			r.reject(name, err)
		}
	}
	if len(o.all) == 0 {
		return o, fmt.Errorf("source of collections: no file of %s can be read as one", location)
	}
	return o, nil
}

func isCollectionName(name string) bool {
	for _, c := range []Compression{Plain, Gzip, Zstd} {
		if strings.HasSuffix(name, c.Extension()) {
			return true
		}
	}
	return false
}

// isSitemap tells XML from a collection by the first octet that counts.
func isSitemap(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF")), " \t\r\n")
	return len(head) > 0 && head[0] == '<'
}

// discoverFile looks at one file.
func (r *refresh) discoverFile(o *offers, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	u, err := unpack(f, r.s.config.Limits)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(u, head)
	u.close() // before the file is read from its beginning again
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if isSitemap(head[:n]) {
		m, err := ReadSitemap(f)
		if err != nil {
			return err
		}
		o.addSitemap(m, filepath.Dir(name))
		return nil
	}
	return r.peek(o, f, name)
}

// peek reads the metadata of a file, and what identifies its content.
func (r *refresh) peek(o *offers, f *os.File, name string) error {
	h := sha256.New()
	c, _, err := metadata(io.TeeReader(f, h))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRejected, &LineError{1, err})
	}
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	o.all = append(o.all, offer{
		Listing: Listing{Type: c.Type, Section: c.Section, URL: name, Generated: c.Generated, Since: c.Since},
		file:    name, identity: fmt.Sprintf("%x", h.Sum(nil)),
	})
	return nil
}

// addSitemap takes in what a sitemap lists. Beside a sitemap that is a file,
// the collections of its own folder are files too.
func (o *offers) addSitemap(m *Sitemap, dir string) {
	for _, l := range m.Listings {
		f := offer{Listing: l}
		if u, err := url.Parse(l.URL); err == nil && dir != "" {
			name := path.Base(u.Path)
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && isCollectionName(name) {
				f.file = filepath.Join(dir, name)
			}
		}
		o.all = append(o.all, f)
	}
	o.pages = append(o.pages, m.URLs...)
	o.warnings = append(o.warnings, m.Warnings...)
}

// discoverURL asks a server for a sitemap, for those that an index names, or
// for one collection, which is taken in right away.
func (r *refresh) discoverURL(ctx context.Context, o *offers, location string, root bool) error {
	o.sitemaps = append(o.sitemaps, location)
	known := r.m.state.Known[location]
	if !root || r.overdue() {
		known = validators{} // it is needed in full
	}
	if r.now.Before(known.Fresh) {
		o.unchanged = true
		return nil
	}
	cond := fetch.Conditions{ETag: known.ETag, LastModified: known.LastModified}
	response, err := r.s.config.Client.Get(ctx, location, cond)
	if err != nil {
		return fmt.Errorf("source of collections: %w", err)
	}
	defer response.Body.Close()
	if response.NotModified {
		o.unchanged = true
		return nil
	}
	body := bufioReader(response.Body)
	head, err := body.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("source of collections: %w", err)
	}
	if sniff(head) == Plain && !isSitemap(head) || sniff(head) != Plain && !strings.Contains(location, ".xml") {
		return r.takeDirect(location, body, response)
	}
	m, err := ReadSitemap(body)
	if err != nil {
		return fmt.Errorf("source of collections: %w", err)
	}
	o.addSitemap(m, "")
	r.seen[location] = validatorsOf(response, r.now)
	for _, child := range m.Children {
		if !root {
			break // an index does not list another
		}
		if err := r.discoverURL(ctx, o, child, false); err != nil {
			return err
		}
	}
	if root && len(m.Children) > 0 {
		delete(r.seen, location) // its children change without it
	}
	return nil
}

// overdue reports whether there is something to do even if what is listed has
// not changed: nothing is held, something was rejected, or a snapshot is due.
func (r *refresh) overdue() bool {
	for _, s := range r.m.state.Sections {
		if !s.Base.IsZero() && r.now.Sub(s.Fetched) >= r.s.config.Every {
			return true
		}
	}
	return len(r.m.state.Layers) == 0 || len(r.m.state.Rejected) > 0
}

// validatorsOf keeps what makes the next request conditional.
func validatorsOf(response *fetch.Response, now time.Time) validators {
	v := validators{ETag: response.ETag}
	v.LastModified, _ = http.ParseTime(response.Header.Get("Last-Modified"))
	for part := range strings.SplitSeq(response.Header.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "=")
		switch name {
		case "no-cache", "no-store":
			v.Fresh = time.Time{}
			return v
		case "max-age":
			if n, err := strconv.ParseUint(value, 10, 31); err == nil {
				v.Fresh = now.Add(min(time.Duration(n)*time.Second, maxFresh))
			}
		}
	}
	if t, err := http.ParseTime(response.Header.Get("Expires")); err == nil && v.Fresh.IsZero() {
		v.Fresh = t
		if t.After(now.Add(maxFresh)) {
			v.Fresh = now.Add(maxFresh)
		}
	}
	return v
}

// maxFresh is how long at most a server keeps us from asking again.
const maxFresh = 24 * time.Hour
