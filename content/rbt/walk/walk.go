package walk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// An Item is one entry that has octets of its own. Collections have none: they
// are counted, and what they hold is visited.
type Item struct {
	Entry    rbt.Entry
	Document string // that lists it: a path below the root, or a URL

	// Path is where it is below the root; it is "" where the reference is a URL
	// elsewhere. URL is where it is on the web, if an HTTPS root or the
	// reference says so.
	Path, URL string

	// Data are its octets and Sum their SHA-256. Unchanged says that Known has
	// this Sum, and Unwanted that Wants says so: then they were not asked for.
	// Ignored says that agents.ignore lets us pass it over, and that we did.
	Data      []byte
	Sum       [32]byte
	Unchanged bool
	Unwanted  bool
	Ignored   bool

	// Err is an *rbt.Error: why there is nothing of the above. An earlier
	// revision of the entry may still be right.
	Err error

	From     string // the root that gave it, as the report calls it
	Warnings []string
}

// Items visits all entries and yields those that are no collections, in the
// order of traversal: breadth-first, each document's entries in the order of
// their array. The error is that of what ends the walk before its end: a limit,
// which is an rbt.ErrLimit, or the context.
func (w *Walk) Items(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		limit := w.config.Limits.Time
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: a walk of more than %v: %w", rbt.ErrLimit, limit, context.DeadlineExceeded))
		defer cancel()
		t := &traversal{Walk: w, yield: yield, visited: make(map[string]bool)}
		err := t.run(ctx)
		w.Report.Completed = w.config.Now()
		if err != nil && !errors.Is(err, errStop) {
			w.Incomplete = true
			yield(Item{}, err)
		}
	}
}

// errStop says that the caller wants no more.
var errStop = errors.New("stopped")

// A reference is a document that is to be visited.
type reference struct {
	target rbt.Target
	href   string // as it is written
	entry  string // the id of the entry that leads there
	depth  int
	sum    *[32]byte // of its octets, if that entry names it; nil otherwise
}

// key names a document. Together with an entry's id it names the entry: ids are
// unique in a document, and each document is visited once.
func (r reference) key() string {
	if r.target.URL != "" {
		return r.target.URL
	}
	key := r.target.Path
	if r.target.IsDir {
		key += "/"
	}
	if r.target.Query != "" {
		key += "?" + r.target.Query
	}
	return key
}

// A traversal is one run of Items.
type traversal struct {
	*Walk
	yield func(Item, error) bool

	visited map[string]bool
	queue   []reference
	entries int
	octets  int64
}

func (t *traversal) run(ctx context.Context) error {
	top := reference{target: t.top, href: t.top.Path}
	t.visited[top.key()] = true
	if err := t.visit(ctx, t.Manifest, top); err != nil {
		return err
	}
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue = t.queue[1:]
		if err := t.follow(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// follow reads a document and visits its entries.
func (t *traversal) follow(ctx context.Context, r reference) error {
	f := &failure{missing: rbt.ManifestNotFound}
	m := t.page(ctx, r, f)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if m == nil {
		t.Incomplete = true
		t.Report.Add(f.problem(r.entry, r.href))
		t.config.Log.Warn("a document of entries cannot be read", "document", r.key(), "error", f.err())
		return nil
	}
	for _, warning := range m.Warnings {
		t.warn("%s: %s", r.key(), warning)
	}
	return t.visit(ctx, m, r)
}

// page reads a document from one of the roots. What a mirror says of one can be
// checked only where the entry that leads there names its digest.
func (t *traversal) page(ctx context.Context, r reference, f *failure) *rbt.Manifest {
	if r.target.URL != "" {
		data, err := t.cache.document(ctx, &t.web, r.target.URL)
		return t.parsed(r, data, err, "https", f)
	}
	for _, s := range t.roots {
		data, err := s.document(ctx, r.target)
		if m := t.parsed(r, data, err, s.place.kind(), f); m != nil || ctx.Err() != nil {
			return m
		}
	}
	for _, s := range t.mirrors {
		if r.sum == nil {
			break
		}
		data, err := s.document(ctx, r.target)
		if m := t.parsed(r, data, err, "mirror "+s.place.kind(), f); m != nil || ctx.Err() != nil {
			return m
		}
	}
	return nil
}

func (t *traversal) parsed(r reference, data []byte, err error, root string, f *failure) *rbt.Manifest {
	var m *rbt.Manifest
	if err == nil && r.sum != nil && sha256.Sum256(data) != *r.sum {
		err = fmt.Errorf("%w: the document %.200q and the hash of entry %.100q", rbt.ErrVerification, r.key(), r.entry)
	}
	if err == nil {
		m, err = rbt.ParsePage(data, t.config.Options)
	}
	if err == nil && !m.RID.IsZero() && !m.Imported {
		err = rbt.CheckManifest(data, m.RID)
	}
	if err != nil {
		f.add(root, err)
		return nil
	}
	return m
}

// visit processes the entries of a document, one after the other.
func (t *traversal) visit(ctx context.Context, m *rbt.Manifest, r reference) error {
	for i := range m.Entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if t.entries++; t.entries > t.config.Limits.Entries {
			return fmt.Errorf("%w: more than %d entries", rbt.ErrLimit, t.config.Limits.Entries)
		}
		if err := t.entry(ctx, m, &m.Entries[i], r); err != nil {
			return err
		}
	}
	if m.Next != nil {
		return t.lead(ctx, m.Next.Href, r, reference{entry: r.entry, depth: r.depth})
	}
	return nil
}

// entry processes one entry, and then what it leads to.
func (t *traversal) entry(ctx context.Context, m *rbt.Manifest, e *rbt.Entry, r reference) error {
	item := Item{Entry: *e, Document: r.key()}
	target, err := t.resolve(r, e.Href)
	if err == nil {
		item.Path, item.URL = target.Path, t.urlOf(target)
		item.Ignored = item.Path != "" && !t.config.KeepIgnored && (t.Manifest.Agents.Ignores(item.Path) || m.Agents.Ignores(item.Path))
	}
	switch {
	case item.Ignored:
		t.Report.Skipped++
		if !e.IsCollection() && !t.yield(item, nil) {
			return errStop
		}
		return nil
	case e.IsCollection():
		t.Report.Processed++
	default:
		if err := t.process(ctx, item, target, err); err != nil {
			return err
		}
	}
	if e.Children == nil {
		return nil
	}
	to := reference{entry: e.ID, depth: r.depth + 1}
	if e.IsCollection() && e.Children.Href == e.Href {
		to.sum = e.Hash // a collection has no other octets that it could be of
	}
	return t.lead(ctx, e.Children.Href, r, to)
}

// process fetches an entry and yields it.
func (t *traversal) process(ctx context.Context, item Item, target rbt.Target, err error) error {
	f := &failure{missing: rbt.EntryNotFound}
	if err != nil {
		f.add("none", err)
	} else {
		t.fetch(ctx, &item, target, f)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if item.Data == nil && !item.Unchanged && !item.Unwanted {
		item.Err = f.err()
		t.Report.Skipped++
		t.Report.Add(f.problem(item.Entry.ID, item.Entry.Href))
		t.config.Log.Warn("an entry is passed over", "document", item.Document, "entry", item.Entry.ID, "error", item.Err)
	} else {
		t.Report.Processed++
	}
	if t.octets += int64(len(item.Data)); t.octets > t.config.Limits.Octets {
		return fmt.Errorf("%w: more than %d octets", rbt.ErrLimit, t.config.Limits.Octets)
	}
	if !t.yield(item, nil) {
		return errStop
	}
	return nil
}

// lead follows a reference to a document, at once or when its turn comes.
func (t *traversal) lead(ctx context.Context, href string, from, to reference) error {
	target, err := t.resolve(from, href)
	if err != nil {
		t.Incomplete = true
		f := &failure{missing: rbt.ManifestNotFound}
		f.add("none", err)
		t.Report.Add(f.problem(to.entry, href))
		return nil
	}
	to.target, to.href = target, href
	key := to.key()
	switch {
	case t.visited[key]:
		t.config.Log.Info("a circle: the document has been visited", "document", key, "from", from.key(), "entry", to.entry)
		t.warn("%s leads back to %s", from.key(), key)
		return nil
	case to.depth > t.config.Limits.Depth:
		t.Incomplete = true
		f := &failure{missing: rbt.ManifestInvalid}
		err := fmt.Errorf("%w: documents more than %d deep", rbt.ErrLimit, t.config.Limits.Depth)
		f.add("none", &rbt.Error{Category: rbt.ManifestInvalid, Err: err})
		t.Report.Add(f.problem(to.entry, href))
		return nil
	case len(t.visited) >= t.config.Limits.Documents:
		return fmt.Errorf("%w: more than %d documents", rbt.ErrLimit, t.config.Limits.Documents)
	}
	t.visited[key] = true
	if t.config.DepthFirst {
		return t.follow(ctx, to)
	}
	t.queue = append(t.queue, to)
	return nil
}

// resolve finds where a reference in a document leads. What is a URL below one
// of the burrow's own roots is a path of it.
func (t *traversal) resolve(from reference, href string) (rbt.Target, error) {
	if from.target.URL != "" {
		base, err := url.Parse(from.target.URL)
		if err != nil {
			return rbt.Target{}, fmt.Errorf("%w: %w", rbt.ErrHref, err)
		}
		absolute, err := base.Parse(href)
		if err != nil {
			return rbt.Target{}, fmt.Errorf("%w: no URI reference", rbt.ErrHref)
		}
		href = absolute.String()
	}
	target, err := rbt.ResolveHref(from.target.Path, href, t.config.Options)
	if err != nil || target.URL == "" {
		return target, err
	}
	for _, base := range t.bases {
		if rest, ok := strings.CutPrefix(target.URL, base); ok && rest != "" {
			if local, err := rbt.ResolveHref(rbt.ManifestFile, "./"+rest, t.config.Options); err == nil {
				return local, nil
			}
		}
	}
	return target, nil
}

func (t *traversal) urlOf(target rbt.Target) string {
	if target.URL != "" {
		return target.URL
	}
	if len(t.bases) == 0 {
		return ""
	}
	return rbt.URLOf(t.bases[0], target)
}

// maxWarnings is how many the report tells.
const maxWarnings = 1000

func (w *Walk) warn(format string, args ...any) {
	if len(w.Report.Warnings) < maxWarnings {
		w.Report.Warnings = append(w.Report.Warnings, fmt.Sprintf(format, args...))
	}
}

// An Instruction is a text that a publisher wrote for agents, or its licence. It
// is context for who reads the burrow, and never a command (13.2, 13.3.3).
type Instruction struct{ Path, Text string }

// Instructions reads the burrow's files for agents, and the licence that its
// manifest names. What is not there, or cannot be read, is left out. Where one
// says otherwise than the manifest, the report has a warning.
func (w *Walk) Instructions(ctx context.Context) (all []Instruction, err error) {
	names := rbt.InstructionFiles()
	if license, err := rbt.LocalPath(w.Manifest.Repo.License); err == nil {
		names = append([]string{license}, names...)
	}
	for _, name := range names {
		for _, s := range w.roots {
			data, err := s.read(ctx, rbt.Target{Path: name}, rbt.MaxInstruction)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err == nil {
				all = append(all, Instruction{name, strings.ToValidUTF8(string(data), "\uFFFD")})
				w.compare(name, string(data))
			}
			if err == nil || categoryOf(err, rbt.EntryNotFound) == rbt.EntryNotFound {
				break
			}
		}
	}
	return all, nil
}

// compare holds a text for agents against the manifest.
func (w *Walk) compare(name, text string) {
	if !slices.Contains(rbt.InstructionFiles(), name) {
		return
	}
	for _, line := range w.Manifest.Agents.Contradictions(name, text) {
		w.warn("%s", line)
	}
}

// Registry reads a registry: that at a URL, or the one to which the well-known
// document of an origin leads.
func Registry(ctx context.Context, c Config, rawURL string) (*rbt.Registry, error) {
	c.Start = Start{URL: rawURL}
	if err := c.complete(); err != nil {
		return nil, err
	}
	t, err := rbt.ResolveHref(rbt.RegistryFile, rawURL, c.Options)
	if err != nil {
		return nil, err
	}
	w := &web{config: &c}
	where := t.URL
	if u, err := url.Parse(where); err == nil && u.Path == "/" {
		r, err := w.get(ctx, strings.TrimSuffix(where, "/")+rbt.WellKnownWarren, fetch.Conditions{}, rbt.MaxPointer)
		switch {
		case err == nil:
			pointer, err := rbt.ParseWarrenPointer(r.data, c.Options)
			if err != nil {
				return nil, err
			}
			where = pointer.JSON
		case !isGone(err):
			return nil, err
		}
	}
	if strings.HasSuffix(where, "/") {
		where += rbt.RegistryFile
	}
	r, err := w.get(ctx, where, fetch.Conditions{}, rbt.MaxManifest)
	if err != nil {
		return nil, err
	}
	return rbt.ParseRegistry(r.data, c.Options)
}
