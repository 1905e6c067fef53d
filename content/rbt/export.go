package rbt

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// ErrNotExport says that a folder holds a manifest, or anything else, that no
// export wrote.
var ErrNotExport = errors.New("the folder is neither empty nor an export")

// Generator marks the manifests of exports: only what one of them lists is ever
// removed.
const Generator = "publisherd export"

// logFile holds the paths that an export has begun to write, so that the next
// one finds them if this one does not come to its end.
const logFile = ".burrow-export"

// pagePrefix begins the names of the further manifests of a large burrow; 16
// digits of their own hash follow, so that they can be put in place while the
// old ones are read.
const pagePrefix = ".burrow-"

// ExportConfig says what an export is like.
type ExportConfig struct {
	Dir string // made if it is not there; it may hold .git besides
	// Manifest is what the manifest says beside its entries: Updated is the time
	// that it carries if anything has changed.
	Manifest Manifest
	// PerManifest is how many entries one manifest lists (0: 5,000). A burrow of
	// more is a manifest of collections, each with a manifest of its own.
	PerManifest int
	// Pointer is the URL of the manifest if its folder is the root of an origin,
	// so that .well-known/rabit-burrow can lie in it; empty for none.
	Pointer string
}

// A Resource is a file of a burrow.
type Resource struct {
	Path     string // below the root, slash-separated; it is also the entry's id
	Type     string
	Rel      []string
	Data     []byte
	Title    string
	Summary  string
	Lang     string
	Modified time.Time
}

// An Export is a burrow in a folder, for git or a web server to hand out.
//
// Resources come first, then the manifests of a large burrow, then the
// manifest, each whole; what is listed no more goes last. So who reads meanwhile
// finds each resource that a manifest lists, or one that verifies as no other
// (TestAnExportIsWholeWhereverItStops). The same resources give the same octets,
// in whatever order they come, and where nothing has changed nothing is written
// (TestAnExportedBurrowIsDeterministic). It holds a row for each resource in memory.
type Export struct {
	config ExportConfig
	old    map[string]Entry // by path, of the manifests that are there
	first  []byte           // the manifest that is there
	stray  []string         // paths that an export began to write and did not list
	rows   []Entry
	seen   map[string]bool
	log    *os.File
	report ExportReport
}

// An ExportReport tells what an export did.
type ExportReport struct {
	Entries, Written, Removed int
	Manifests                 int // the first included
	RID                       RID // of the first

	// Contradictions tells where the texts for agents that lie in the folder say
	// otherwise than the manifest; see Agents.Contradictions.
	Contradictions []string
}

// OpenExport opens a folder for an export.
func OpenExport(c ExportConfig) (*Export, error) {
	if c.PerManifest == 0 {
		c.PerManifest = 5000
	}
	if c.PerManifest < 1 || c.PerManifest > MaxEntries || len(c.Manifest.Entries) > 0 || c.Manifest.Updated.IsZero() {
		return nil, errors.New("an export needs a time, no entries, and 1 to 10,000 entries for each manifest")
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	x := &Export{config: c, old: make(map[string]Entry), seen: make(map[string]bool)}
	names, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	switch {
	case has(logFile):
		err = errors.Join(x.recover(), x.load())
	case has(ManifestFile):
		err = x.load()
	case len(names) > 1 || len(names) == 1 && !has(".git"):
		err = fmt.Errorf("%w; name an empty one, or a repository without a file", ErrNotExport)
	}
	if err != nil {
		return nil, fmt.Errorf("export to %s: %w", c.Dir, err)
	}
	return x, nil
}

// load reads the manifests that are there. One that is broken is as if nothing
// was there; one that somebody else wrote is not touched.
func (x *Export) load() error {
	data, err := os.ReadFile(x.file(ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := ParseManifest(data, Options{})
	if err != nil || m.Generator != Generator {
		return fmt.Errorf("%w: %s is another's", ErrNotExport, ManifestFile)
	}
	x.first, x.old = data, listed(m, func(name string) ([]byte, error) { return os.ReadFile(x.file(name)) })
	return nil
}

// listed are the entries of an export by their paths, those of its further
// manifests included, as far as these can be read.
func listed(m *Manifest, read func(name string) ([]byte, error)) map[string]Entry {
	all := make(map[string]Entry)
	for _, e := range m.Entries {
		t, err := ResolveHref(ManifestFile, e.Href, Options{})
		if err != nil || t.URL != "" {
			continue
		}
		all[t.Path] = e
		if e.Children == nil {
			continue
		}
		page, err := read(t.Path)
		if err != nil {
			continue
		}
		of, err := ParseManifest(page, Options{})
		if err != nil || of.Generator != Generator {
			continue
		}
		for _, e := range of.Entries {
			if t, err := ResolveHref(t.Path, e.Href, Options{}); err == nil && t.URL == "" {
				all[t.Path] = e
			}
		}
	}
	return all
}

// recover reads what an export left that did not come to its end.
func (x *Export) recover() error {
	f, err := os.Open(x.file(logFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name := s.Text(); fs.ValidPath(name) && !strings.HasPrefix(name, ".git/") {
			x.stray = append(x.stray, name)
		}
	}
	return nil
}

func (x *Export) file(name string) string {
	return filepath.Join(x.config.Dir, filepath.FromSlash(name))
}

// Add puts a resource into the burrow.
func (x *Export) Add(r Resource) error {
	switch {
	case !fs.ValidPath(r.Path) || r.Path == "." || strings.ContainsAny(r.Path, "\\\r\n"):
		return fmt.Errorf("resource %.200q is no path", r.Path)
	case isReserved(r.Path):
		return fmt.Errorf("resource %.200q has a name that the export needs", r.Path)
	case x.seen[r.Path]:
		return fmt.Errorf("resource %.200q comes twice", r.Path)
	}
	x.seen[r.Path] = true
	sum := sha256.Sum256(r.Data)
	e := Entry{
		ID: r.Path, RID: SumRID(sum), Href: HrefOf(r.Path), Type: r.Type, Rel: r.Rel, Title: r.Title, Summary: r.Summary,
		Hash: &sum, Size: int64(len(r.Data)), Modified: r.Modified.UTC().Truncate(time.Second), Lang: r.Lang,
	}
	old, had := x.old[r.Path]
	if had && old.RID == e.RID {
		e.Modified = old.Modified // a rebuild that moves only times is no change
	}
	if !had || old.RID != e.RID || !x.holds(r.Path, sum) {
		if err := x.begin(r.Path); err != nil {
			return err
		}
		if err := x.write(r.Path, r.Data); err != nil {
			return err
		}
		x.report.Written++
	}
	x.rows = append(x.rows, e)
	return nil
}

// isReserved names what no resource may be called.
func isReserved(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return first == ".git" || first == ".well-known" || name == logFile || name == ManifestFile || name == RegistryFile ||
		name == RegistryPageFile || strings.HasPrefix(name, pagePrefix)
}

// holds reports whether the file is there as it was written.
func (x *Export) holds(name string, sum [sha256.Size]byte) bool {
	info, err := os.Lstat(x.file(name))
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	data, err := os.ReadFile(x.file(name))
	return err == nil && sha256.Sum256(data) == sum
}

// begin notes a path before it is written.
func (x *Export) begin(name string) (err error) {
	if x.log == nil {
		if x.log, err = os.OpenFile(x.file(logFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			return err
		}
	}
	_, err = x.log.WriteString(name + "\n")
	return err
}

// write replaces a file, in a folder that others may read.
func (x *Export) write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(x.file(name)), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(x.file(name), data, 0o644)
}

// Close lets go of the folder; it does nothing behind Commit.
func (x *Export) Close() error {
	if x.log == nil {
		return nil
	}
	err := x.log.Close()
	x.log = nil
	return err
}

// Commit publishes what was added, as the whole of the burrow.
func (x *Export) Commit() (ExportReport, error) {
	slices.SortFunc(x.rows, func(a, b Entry) int { return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.ID, b.ID)) })
	keep := make(map[string]bool)
	for _, e := range x.rows {
		keep[e.ID] = true
	}
	m := x.config.Manifest
	m.Generator = Generator
	m.Entries = x.rows
	if m.Repo == (Repo{}) {
		m.Repo = RepoOf(func(name string) bool { return x.seen[name] })
	}
	x.report.Entries, x.report.Manifests = len(x.rows), 1
	if len(x.rows) > x.config.PerManifest {
		var err error
		if m.Entries, err = x.split(keep); err != nil {
			return x.report, err
		}
	}
	data, err := x.settle(&m)
	if err != nil {
		return x.report, err
	}
	// The manifest, which makes all of it count, comes behind everything that it
	// names, and in front of everything that goes.
	if !bytes.Equal(data, x.first) {
		if err := x.write(ManifestFile, data); err != nil {
			return x.report, err
		}
	}
	if x.report.RID, err = ManifestRID(data); err != nil {
		return x.report, err
	}
	if err := x.pointer(&m); err != nil {
		return x.report, err
	}
	if err := x.sweep(keep); err != nil {
		return x.report, err
	}
	if err := x.Close(); err != nil {
		return x.report, err
	}
	if err := os.Remove(x.file(logFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return x.report, err
	}
	x.compare(&m.Agents)
	return x.report, nil
}

// settle writes a manifest with the time that the old one has, if that gives
// the old one.
func (x *Export) settle(m *Manifest) ([]byte, error) {
	if x.first != nil {
		old, err := ParseManifest(x.first, Options{})
		if err != nil {
			return nil, err
		}
		again := *m
		again.Updated = old.Updated
		if data, err := again.Marshal(); err == nil && bytes.Equal(data, x.first) {
			return data, nil
		}
	}
	return m.Marshal()
}

// rank puts what a reader begins with in front (8.2).
func rank(e *Entry) int {
	switch {
	case e.Is(RelIndex), e.Is(RelAbout):
		return 0
	case e.Is(RelLicense):
		return 1
	}
	return 2
}

// split writes the manifests of a large burrow, and returns the collections
// that stand for them. Each names the hash of its manifest's octets, so that
// what a mirror hands out can be held against it.
func (x *Export) split(keep map[string]bool) ([]Entry, error) {
	var all []Entry
	for part := range slices.Chunk(x.rows, x.config.PerManifest) {
		m := x.config.Manifest
		m.Generator, m.Entries, m.Agents, m.Repo, m.Git = Generator, part, Agents{Uses: m.Agents.Uses}, Repo{}, nil
		m.Title = fmt.Sprintf("%s, part %d", m.Title, len(all)+1)
		// Its time is that of its newest resource, so that it stays as it is
		// as long as they do.
		newest := part[0].Modified
		for _, e := range part {
			if e.Modified.After(newest) {
				newest = e.Modified
			}
		}
		if !newest.IsZero() {
			m.Updated = newest
		}
		data, err := m.Marshal()
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		name := fmt.Sprintf("%s%x.json", pagePrefix, sum[:8])
		keep[name] = true
		if !x.holds(name, sum) {
			if err := errors.Join(x.begin(name), x.write(name, data)); err != nil {
				return nil, err
			}
		}
		n := int64(len(part))
		all = append(all, Entry{
			ID: fmt.Sprintf("part-%04d", len(all)+1), RID: CollectionRID(RID{}, "-"), Href: name, Type: "application/json",
			Rel: []string{RelCollection}, Title: m.Title, Hash: &sum, Size: int64(len(data)),
			Children: &Children{Href: name, Limit: n, Total: n},
		})
	}
	x.report.Manifests += len(all)
	return all, nil
}

// pointer writes the well-known document.
func (x *Export) pointer(m *Manifest) error {
	if x.config.Pointer == "" {
		return nil
	}
	p := BurrowPointer{Manifest: x.config.Pointer, Roots: m.Roots}
	data, err := p.Marshal()
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(WellKnownBurrow, "/")
	if old, err := os.ReadFile(x.file(name)); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return x.write(name, data)
}

// sweep removes what earlier exports wrote and keep does not name, and folders
// that are empty then.
func (x *Export) sweep(keep map[string]bool) error {
	names := x.stray
	for name := range x.old {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if keep[name] || name == ManifestFile {
			continue
		}
		info, err := os.Lstat(x.file(name))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := os.Remove(x.file(name)); err != nil {
			return err
		}
		if !strings.HasPrefix(name, pagePrefix) {
			x.report.Removed++
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if os.Remove(x.file(dir)) != nil { // fails where it is not empty
				break
			}
		}
	}
	return nil
}
