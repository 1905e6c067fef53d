package arc

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// The names of an export's files. The sitemap and deltas are also there
// compressed, with .gz behind their names.
const (
	SitemapFile    = "arc-sitemap.json"
	YAMLFile       = "arc-sitemap.yaml"
	DescriptorFile = "arc-sitemap.jsonld"
	policyFile     = ".well-known/arc-policy.json"
	markFile       = ".arc-export" // marks the folder before the first sitemap is there
)

// ErrNotExport says that a folder holds something, and no export.
var ErrNotExport = errors.New("the folder is neither empty nor an export")

// ExportConfig says what an export is like.
type ExportConfig struct {
	Dir string // made if it is not there
	// BaseURL is the URL by which Dir is handed out, canonical and with a slash at
	// its end.
	BaseURL string
	// Generated is the time of the export. If the sitemap that is there is not
	// older, a second later than that counts instead.
	Generated time.Time

	// Summaries leaves the snapshots out: agents then read the pages themselves.
	Summaries bool
	YAML      bool    // write the sitemap in YAML as well
	Policy    *Policy // nil for none
	Rate      float64 // crawl_rate in requests a second; 0 for none
	Contact   string  // ai-crawl-contact

	// Forget keeps nothing of a page that is gone: behind a removal, the deltas of
	// earlier days are removed at once.
	Forget bool
}

// An Export brings a folder up to the pages that it is given: a sitemap, a delta
// for each day on which something changed, the descriptor and the policy.
//
// Each file is replaced as a whole, and the sitemap last; where nothing has
// changed, nothing is written. The same pages, folder and time give the same
// octets, in whatever order the pages come (TestAnARCExportIsDeterministic). A page
// of which only the time has moved keeps the time that it had. It holds a row for
// each page in memory, and their entries in a file.
type Export struct {
	config ExportConfig
	base   string
	old    map[string]oldEntry // by URL, of the sitemap that is there
	head   Head                // of it; zero if there is none
	draft  *draft
	prints map[string][32]byte // fingerprints of what was added, by URL
	report ExportReport
}

type oldEntry struct {
	print    [32]byte
	modified time.Time
}

// An ExportReport tells what an export did.
type ExportReport struct {
	Pages, Written, Removed int
	// Withheld are the pages that say themselves that they are not for all: they
	// are left out, rather than listed as what they are (E.6).
	Withheld []string
	// Personal are the pages in whose entry something looks like personal data.
	Personal []string
	Delta    string // the delta's file that was written; empty for none
	Lost     map[string]int
}

// OpenExport opens a folder for an export.
func OpenExport(c ExportConfig) (*Export, error) {
	if err := content.IsCanonical(c.BaseURL); err != nil || !strings.HasSuffix(c.BaseURL, "/") || strings.IndexByte(c.BaseURL, '?') >= 0 {
		return nil, fmt.Errorf("base URL %.200q: want a canonical URL with a slash at its end", c.BaseURL)
	}
	if c.Generated.IsZero() {
		return nil, errors.New("an export needs a time")
	}
	if c.Rate > 0 {
		rate, err := ParseRate(FormatRate(c.Rate)) // as the next export will read it
		if err != nil {
			return nil, err
		}
		c.Rate = rate
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	names, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 && !slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == SitemapFile || e.Name() == markFile }) {
		return nil, fmt.Errorf("export to %s: %w; name an empty one", c.Dir, ErrNotExport)
	}
	x := &Export{config: c, base: c.BaseURL, old: make(map[string]oldEntry), prints: make(map[string][32]byte)}
	x.report.Lost = make(map[string]int)
	if err := x.load(); err != nil {
		return nil, fmt.Errorf("export to %s: %w", c.Dir, err)
	}
	x.draft, err = newDraft(c.Dir)
	return x, err
}

// Close lets go of what an export holds; it may come at any time.
func (x *Export) Close() { x.draft.close() }

func (x *Export) path(name string) string {
	return filepath.Join(x.config.Dir, filepath.FromSlash(name))
}

// load reads what the last export left. A sitemap that cannot be read makes this
// one the first.
func (x *Export) load() error {
	f, err := os.Open(x.path(SitemapFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := ReadSitemap(f, Limits{}, Visitor{Entry: func(e Entry) error {
		print, err := e.Fingerprint()
		x.old[e.URL] = oldEntry{print, e.Modified}
		return err
	}})
	if errors.Is(err, ErrMalformed) {
		clear(x.old)
		return nil
	}
	x.head = sum.Head
	return err
}

// Add puts a page into the export.
func (x *Export) Add(p content.Page) error {
	line, lost, err := FromContent(&p, !x.config.Summaries)
	if err != nil {
		return err
	}
	e, err := ParseEntry(line)
	if err == nil && len(e.Odd) > 0 {
		err = x.repair(&e)
	}
	if err != nil {
		return fmt.Errorf("page %.200q: %w", p.URL, err)
	}
	if x.config.Summaries && e.Snapshot != nil {
		if e, err = without(e, "ai_snapshot"); err != nil {
			return err
		}
	}
	if _, twice := x.prints[e.URL]; twice {
		return fmt.Errorf("page %.200q comes twice", e.URL)
	}
	if why := e.Withdrawn(); why != "" {
		x.report.Withheld = append(x.report.Withheld, e.URL)
		return nil
	}
	for _, l := range lost {
		x.report.Lost[l]++
	}
	if looksPersonal(&e) {
		x.report.Personal = append(x.report.Personal, e.URL)
	}
	return x.put(&e, p.Modified)
}

// repair leaves out what the schema of what is written objects to.
func (x *Export) repair(e *Entry) (err error) {
	if _, ok := ParseChecksum(e.Checksum); !ok && e.Checksum != "" {
		if *e, err = without(*e, "ai_checksum"); err != nil {
			return err
		}
		x.report.Lost["a checksum that is none"]++
	}
	*e, err = without(*e, "lastmod") // it is written anew
	return err
}

// without is an entry without a member.
func without(e Entry, name string) (Entry, error) {
	line, err := withMember(e.Line, name, nil)
	if err != nil {
		return e, err
	}
	return ParseEntry(line)
}

// put writes an entry with the time that it has to have: the one that it had if
// nothing else has changed, and otherwise one that is later than that.
func (x *Export) put(e *Entry, modified time.Time) error {
	print, err := e.Fingerprint()
	if err != nil {
		return err
	}
	old, had := x.old[e.URL]
	switch {
	case had && old.print == print:
		modified = old.modified
	case had && !modified.After(old.modified):
		modified = x.generated()
	}
	if modified.IsZero() {
		modified = x.generated()
	}
	line, err := withMember(e.Line, "lastmod", formatTime(modified))
	if err != nil {
		return err
	}
	x.prints[e.URL] = print
	if !had || old.print != print {
		x.report.Written++
	}
	x.report.Pages++
	return x.draft.put(e.URL, line, false)
}

// generated is the time of this export.
func (x *Export) generated() time.Time {
	now := x.config.Generated.UTC().Truncate(time.Second)
	if !now.After(x.head.Generated) {
		now = x.head.Generated.Add(time.Second)
	}
	return now
}

// changed yields the rows that differ from the last export, or all.
func (x *Export) changed(all bool) iter.Seq2[[]byte, error] {
	rows := slices.Clone(x.draft.rows)
	slices.SortFunc(rows, func(a, b draftRow) int { return cmp.Compare(a.url, b.url) })
	return func(yield func([]byte, error) bool) {
		for _, r := range rows {
			if old, had := x.old[r.url]; !all && had && old.print == x.prints[r.url] {
				continue
			}
			line := make([]byte, r.length)
			_, err := x.draft.spool.ReadAt(line, r.offset)
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// Commit publishes what was added as the whole of the site.
func (x *Export) Commit() (ExportReport, error) {
	if err := x.draft.out.Flush(); err != nil {
		return x.report, err
	}
	var removed []string
	for url := range x.old {
		if _, is := x.prints[url]; !is {
			removed = append(removed, url)
		}
	}
	slices.Sort(removed)
	x.report.Removed = len(removed)
	if err := x.commit(removed); err != nil {
		return x.report, fmt.Errorf("export to %s: %w", x.config.Dir, err)
	}
	return x.report, nil
}

// commit writes what has to be written: what the sitemap leads to first, then the
// deltas, and the sitemap last.
func (x *Export) commit(removed []string) error {
	if err := os.WriteFile(x.path(markFile), nil, 0o644); err != nil {
		return err
	}
	if err := x.companions(); err != nil {
		return err
	}
	differ := x.report.Written > 0 || len(removed) > 0
	head := Head{Version: Version, Site: x.base, Generated: x.head.Generated, Rate: x.config.Rate, Contact: x.config.Contact}
	if differ && !x.head.Generated.IsZero() {
		if err := x.writeDelta(removed); err != nil {
			return err
		}
	}
	if differ || head != x.head || !x.whole() {
		head.Generated = x.generated()
		if err := x.writeAll(head); err != nil {
			return err
		}
	}
	if err := x.sweep(); err != nil {
		return err
	}
	return os.Remove(x.path(markFile))
}

// whole reports whether all forms of the sitemap are there.
func (x *Export) whole() bool {
	names := []string{SitemapFile, SitemapFile + ".gz"}
	if x.config.YAML {
		names = append(names, YAMLFile)
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Stat(x.path(name))
		return err != nil
	})
}

func (x *Export) writeAll(head Head) error {
	if x.config.YAML {
		err := x.replace(YAMLFile, head.Generated, maxYAML, func(to io.Writer) error { return WriteYAML(to, head, x.changed(true)) })
		if err != nil {
			return fmt.Errorf("in YAML: %w", err)
		}
	}
	return x.both(SitemapFile, head.Generated, func(to io.Writer) error { return WriteSitemap(to, head, x.changed(true)) })
}

// writeDelta brings the delta of this export's day up to what has changed. It
// counts from the state on that was there before the day's first change.
func (x *Export) writeDelta(removed []string) error {
	now := x.generated()
	name := deltaFile(now)
	head := Head{Version: Version, Site: x.base, Generated: now, Since: x.head.Generated, Rate: x.config.Rate, Contact: x.config.Contact}
	d, err := newDraft(x.config.Dir)
	if err != nil {
		return err
	}
	defer d.close()
	taken := make(map[string]bool)
	put := func(url string, line []byte) error {
		taken[url] = true
		return d.put(url, line, false)
	}
	for line, err := range x.changed(false) {
		if err == nil {
			var e Entry
			if e, err = ParseEntry(line); err == nil {
				err = put(e.URL, line)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, url := range removed {
		line, err := canonicalObject(map[string]any{"url": url, "ai_indexable": false})
		if err == nil {
			err = put(url, line)
		}
		if err != nil {
			return err
		}
	}
	if err := x.earlier(name, &head, taken, put); err != nil {
		return err
	}
	if err := d.out.Flush(); err != nil {
		return err
	}
	x.report.Delta = name
	lines := (&Export{draft: d}).changed(true)
	return x.both(name, now, func(to io.Writer) error { return WriteSitemap(to, head, lines) })
}

// earlier takes over what the day's delta holds already and has not changed again.
// One that cannot be read, or does not lead up to the sitemap that is there, is
// begun anew.
func (x *Export) earlier(name string, head *Head, taken map[string]bool, put func(string, []byte) error) error {
	f, err := os.Open(x.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var before []Entry
	sum, err := ReadSitemap(bufio.NewReader(f), Limits{}, Visitor{Entry: func(e Entry) error {
		before = append(before, e)
		return nil
	}})
	if err != nil || sum.Since.IsZero() || sum.Since.After(x.head.Generated) {
		return nil
	}
	head.Since = sum.Since
	for _, e := range before {
		if taken[e.URL] {
			continue
		}
		if err := put(e.URL, e.Line); err != nil {
			return err
		}
	}
	return nil
}
