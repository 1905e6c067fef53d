package tct

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// The names of an export's own files.
const (
	SitemapFile = "llm-sitemap.json"
	PolicyFile  = "llm-policy.json"
	// childPrefix starts the names of the sitemaps that an index lists; 16
	// hexadecimal digits of their own hash follow, so that a new index can be
	// put in place while the old one is still being read.
	childPrefix = "llm-sitemap-"
)

// ErrNotExport says that a folder holds something, and no export.
var ErrNotExport = errors.New("the folder is neither empty nor an export")

// ExportConfig says what an export is like.
type ExportConfig struct {
	Dir     string // made if it is not there
	Mapping Mapping
	Bounds  Bounds
	Policy  *Policy // nil for none
	// KeepListings exports pages that only list others (see IsListing), which
	// the draft advises against.
	KeepListings bool
	// Nginx is a folder, not Dir, for the files NginxHTTP and NginxServer; empty
	// for none. Nginx has to be reloaded after each export: until then it sends
	// the old ETags. The Handler over a Tree needs no such thing.
	Nginx string
}

// An Export is a tree of files that a web server can hand out: payloads at the
// paths of their M-URLs, sitemaps, the policy descriptor.
//
// Each file is replaced as a whole, payloads first, then the sitemaps, and what
// is no page any more goes last: who reads meanwhile finds the old state or the
// new one, page by page (TestAnExportCanBeReadWhileItIsMade). The same pages
// give the same octets, in whatever order they come
// (TestAnExportIsDeterministic). It holds a row for each page in memory.
type Export struct {
	config ExportConfig
	old    map[string]string // hash by M-URL, of the tree that is there
	rows   []Item
	seen   map[string]bool // M-URLs
	report ExportReport
}

// An ExportReport tells what an export did.
type ExportReport struct {
	Pages, Written, Removed int
	// Listings are the pages that were left out because they only list others.
	Listings []string
	Sitemap  Written // the sitemap, or the index
	Sitemaps int     // how many there are, the index not counted
}

// OpenExport opens a folder for an export, which needs none of the pages that
// an earlier one left there and Holds reports.
func OpenExport(c ExportConfig) (*Export, error) {
	if err := c.Mapping.Check(); err != nil {
		return nil, err
	}
	if _, err := c.Bounds.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	x := &Export{config: c, old: make(map[string]string), seen: make(map[string]bool)}
	names, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return x, nil
	}
	if !slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == SitemapFile || e.Name() == markFile }) {
		return nil, fmt.Errorf("export to %s: %w; name an empty one", c.Dir, ErrNotExport)
	}
	open := func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(c.Dir, filepath.FromSlash(name)))
	}
	err = readTree(open, SitemapFile, c.Mapping, func(item Item) error {
		x.old[item.MURL] = item.Hash
		return nil
	}, nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrSitemap) {
		return nil, fmt.Errorf("export to %s: %w", c.Dir, err)
	}
	return x, nil
}

// markFile marks a folder as an export's before its first sitemap is there.
const markFile = ".llm-export"

// readTree reads the sitemap file of a tree, or the index and its sitemaps,
// which lie below the base of m or, if that is empty, beside the index.
func readTree(
	open func(name string) (io.ReadCloser, error), name string, m Mapping,
	item func(Item) error, skip func(n int, mURL string, reason error) error,
) error {
	var children []Child
	read := func(name string, v Visitor) error {
		f, err := open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = ReadSitemap(f, Limits{}, v)
		return err
	}
	err := read(name, Visitor{Item: item, Skip: skip, Child: func(c Child) error {
		children = append(children, c)
		return nil
	}})
	for _, c := range children {
		if err != nil {
			break
		}
		name, ok := m.File(c.URL)
		if m.Base == "" {
			_, name, _ = cutLast(c.URL, "/")
			ok = isChildFile(name)
		}
		if !ok {
			return fmt.Errorf("%w: the index lists %.200q, which is not below %q", ErrSitemap, c.URL, m.Base)
		}
		err = read(name, Visitor{Item: item, Skip: skip, Child: func(c Child) error {
			return fmt.Errorf("%w: %.200q is inside an index inside an index", ErrSitemap, c.URL)
		}})
	}
	return err
}

// Holds reports whether the tree holds a page with this fingerprint already.
// Then Add needs no payload for it.
func (x *Export) Holds(pageURL string, fingerprint [32]byte) bool {
	mURL := x.config.Mapping.MURL(pageURL)
	if x.old[mURL] != FormatHash(fingerprint) {
		return false
	}
	name, ok := x.config.Mapping.File(mURL)
	if !ok {
		return false
	}
	info, err := os.Lstat(filepath.Join(x.config.Dir, filepath.FromSlash(name)))
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

// Add puts a page into the tree. Its payload must be of FormatTCT; it may be
// left out where Holds is true.
func (x *Export) Add(p content.Page) error {
	if !x.config.KeepListings && IsListing(p.URL) {
		x.report.Listings = append(x.report.Listings, p.URL)
		return nil
	}
	mURL := x.config.Mapping.MURL(p.URL)
	name, ok := x.config.Mapping.File(mURL)
	switch {
	case !ok:
		return fmt.Errorf("page %.200q has no file for its M-URL %.200q", p.URL, mURL)
	case x.seen[mURL]:
		return fmt.Errorf("page %.200q comes twice", p.URL)
	}
	x.seen[mURL] = true
	if !x.Holds(p.URL, p.Fingerprint) {
		if err := x.put(name, p); err != nil {
			return fmt.Errorf("export page %.200q: %w", p.URL, err)
		}
		x.report.Written++
	}
	x.rows = append(x.rows, Item{CURL: p.URL, MURL: mURL, Modified: p.Modified, Hash: FormatHash(p.Fingerprint)})
	return nil
}

// put writes one payload, after making sure that it is what its hash says.
func (x *Export) put(name string, p content.Page) error {
	if p.Format != content.FormatTCT {
		return fmt.Errorf("its payload is of format %v", p.Format)
	}
	sum, err := MethodA(p.Payload, p.URL)
	if err != nil {
		return err
	}
	d, err := Decode(p.Payload)
	if err != nil {
		return err
	}
	if sum != p.Fingerprint || d.Hash != FormatHash(sum) {
		return errors.New("its hash is not that of its payload by Method A")
	}
	return x.write(name, p.Payload, p.Modified)
}

// write replaces a file. Its time is the one given, or that of writing, but
// always in a later second than before: static servers make an ETag of a
// file's time and size, and two contents must not share one.
func (x *Export) write(name string, data []byte, modified time.Time) error {
	if err := x.mark(); err != nil {
		return err
	}
	file := filepath.Join(x.config.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	old, oldErr := os.Stat(file)
	if err := durable.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	if modified.IsZero() {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		modified = info.ModTime()
	}
	if oldErr == nil && modified.Unix() <= old.ModTime().Unix() {
		modified = old.ModTime().Truncate(time.Second).Add(time.Second)
	}
	return os.Chtimes(file, modified, modified)
}

// mark makes sure that the folder will be known as an export's again.
func (x *Export) mark() error {
	if len(x.old) > 0 || x.report.Written > 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(x.config.Dir, markFile), nil, 0o644)
}

// Commit publishes what was added, as the whole of the tree, and removes what
// was not.
func (x *Export) Commit() (ExportReport, error) {
	if err := x.mark(); err != nil {
		return x.report, err
	}
	slices.SortFunc(x.rows, func(a, b Item) int {
		return cmp.Or(cmp.Compare(x.rank(a), x.rank(b)), cmp.Compare(a.CURL, b.CURL))
	})
	x.report.Pages = len(x.rows)
	keep := map[string]bool{SitemapFile: true, SitemapFile + ".gz": true}
	if x.config.Policy != nil {
		raw, err := x.config.Policy.Marshal()
		if err != nil {
			return x.report, err
		}
		// One that says the same stays the same file.
		held, err := os.ReadFile(filepath.Join(x.config.Dir, PolicyFile))
		if err != nil || !bytes.Equal(held, raw) {
			err = x.write(PolicyFile, raw, x.config.Policy.Updated)
		}
		if err != nil {
			return x.report, err
		}
		keep[PolicyFile] = true
	}
	if err := x.sitemaps(keep); err != nil {
		return x.report, err
	}
	for _, item := range x.rows {
		name, _ := x.config.Mapping.File(item.MURL) // Add has seen it
		keep[name] = true
	}
	if err := x.sweep(keep); err != nil {
		return x.report, err
	}
	if x.config.Nginx != "" {
		if err := x.writeNginx(); err != nil {
			return x.report, err
		}
	}
	if err := os.Remove(filepath.Join(x.config.Dir, markFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return x.report, err
	}
	return x.report, nil
}

// rank puts the homepage in front of all others.
func (x *Export) rank(i Item) int {
	if i.CURL == x.config.Mapping.Base || isRoot(i.CURL) {
		return 0
	}
	return 1
}

// isRoot reports whether a canonical URL is that of its origin's root.
func isRoot(u string) bool { return strings.Count(u, "/") == 3 && strings.HasSuffix(u, "/") }

// sitemaps writes the sitemaps, compressed as well, and puts the one that is
// asked for first in place last.
func (x *Export) sitemaps(keep map[string]bool) error {
	rows := func(yield func(Item, error) bool) {
		for _, item := range x.rows {
			if !yield(item, nil) {
				return
			}
		}
	}
	spool, err := os.MkdirTemp(x.config.Dir, ".llm-sitemaps-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(spool)
	create := func(n int) (io.WriteCloser, error) { return os.Create(spoolFile(spool, n)) }
	written, err := WriteSitemaps(rows, x.config.Bounds, create)
	if err != nil {
		return err
	}
	x.report.Sitemaps, x.report.Sitemap = len(written), written[0]
	if len(written) == 1 {
		return x.place(spoolFile(spool, 0), SitemapFile)
	}
	var children []Child
	for n, w := range written {
		name := fmt.Sprintf("%s%x.json", childPrefix, w.Hash[:8])
		children = append(children, Child{URL: x.config.Mapping.Base + name, ETag: w.ETag()})
		keep[name], keep[name+".gz"] = true, true
		if err := x.place(spoolFile(spool, n), name); err != nil {
			return err
		}
	}
	index, err := os.Create(spoolFile(spool, len(written)))
	if err != nil {
		return err
	}
	x.report.Sitemap, err = WriteIndex(index, children)
	if err := errors.Join(err, index.Close()); err != nil {
		return err
	}
	return x.place(index.Name(), SitemapFile)
}

func spoolFile(dir string, n int) string { return filepath.Join(dir, fmt.Sprint(n)) }

// place puts a sitemap into the tree, compressed and plain, unless it is there.
func (x *Export) place(from, name string) error {
	plain, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(filepath.Join(x.config.Dir, name)); err == nil && string(old) == string(plain) {
		if _, err := os.Stat(filepath.Join(x.config.Dir, name+".gz")); err == nil {
			return nil
		}
	}
	var small strings.Builder
	z, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(plain); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := x.write(name+".gz", []byte(small.String()), time.Time{}); err != nil {
		return err
	}
	return x.write(name, plain, time.Time{})
}

// sweep removes the files that an export can have made and keep does not name,
// and folders that are empty then.
func (x *Export) sweep(keep map[string]bool) error {
	var folders []string
	err := fs.WalkDir(os.DirFS(x.config.Dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if strings.HasPrefix(path.Base(name), ".llm-sitemaps-") {
				return fs.SkipDir
			}
			folders = append(folders, name)
			return nil
		case keep[name] || !d.Type().IsRegular() || !x.isOurs(name):
			return nil
		}
		if x.config.Mapping.isOurs(name) {
			x.report.Removed++
		}
		return os.Remove(filepath.Join(x.config.Dir, filepath.FromSlash(name)))
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(folders) {
		if name != "." {
			os.Remove(filepath.Join(x.config.Dir, filepath.FromSlash(name))) // fails where it is not empty
		}
	}
	return nil
}

// isOurs reports whether an export can have made a file.
func (x *Export) isOurs(name string) bool {
	return x.config.Mapping.isOurs(name) || name == PolicyFile || isChildFile(strings.TrimSuffix(name, ".gz"))
}

// isChildFile recognises the names of sitemaps that an index lists.
func isChildFile(name string) bool {
	digits, isChild := strings.CutPrefix(name, childPrefix)
	digits, isJSON := strings.CutSuffix(digits, ".json")
	return isChild && isJSON && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}
