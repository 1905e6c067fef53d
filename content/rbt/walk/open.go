package walk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/gitroot"
)

const (
	maxPlaces = 32                 // roots, and mirrors, of one burrow that are used
	maxStale  = 7 * 24 * time.Hour // for how long a manifest, or a root that it names, stands in for those that are down
)

// A Walk is one traversal of one burrow. It belongs to one goroutine.
type Walk struct {
	Manifest     *rbt.Manifest
	ManifestData []byte
	// Root is the one that gave the manifest, and Commit its commit, if it is a
	// Git root. The Root of a local repository has no remote.
	Root   rbt.Root
	Commit *gitroot.Commit
	// Stale says that no root could be reached, and that the manifest is the
	// last one that was seen; what it lists comes from mirrors.
	Stale bool

	// Report is complete when Items has ended. Incomplete says that a document
	// of entries could not be read: what was not seen may still be there.
	Report     rbt.Report
	Incomplete bool

	config       Config
	web          web
	cache        cache
	last         cache // of manifests, by start
	repositories map[string]*gitroot.Repository

	top            rbt.Target // the manifest's place
	roots, mirrors []*source
	bases          []string // of HTTPS roots, the first of which names pages
}

// Open finds the burrow's manifest. Roots are tried in order; one whose manifest
// is missing, unusable, or not the one that its RID names, is passed over and
// told of in the report. If no root has a usable one, the error is an *rbt.Error
// with the category of section 9.1. Open returns a Walk even then, for its
// report; it must be closed.
func Open(ctx context.Context, c Config) (*Walk, error) {
	w := &Walk{repositories: make(map[string]*gitroot.Repository)}
	if err := c.complete(); err != nil {
		return w, err
	}
	w.config, w.web = c, web{config: &w.config}
	w.cache = cache{now: c.Now, options: c.Options}
	w.last = w.cache
	if c.State != "" {
		w.cache.folder, w.last.folder = filepath.Join(c.State, "manifests"), filepath.Join(c.State, "last")
	}
	w.Report = rbt.Report{Started: c.Now(), Problems: []rbt.Problem{}}
	err := w.open(ctx)
	w.Report.Completed = c.Now()
	return w, err
}

// Close gives back what the walk holds of the machine.
func (w *Walk) Close() error {
	var errs []error
	for _, repo := range w.repositories {
		errs = append(errs, repo.Close())
	}
	return errors.Join(errs...)
}

// A candidate is a root at which the manifest may be, under a name.
type candidate struct {
	place  place
	target rbt.Target // zero: by its usual names
	mirror bool
	found  *found    // if it has been read already
	since  time.Time // if it was named by an earlier manifest: when that was updated
}

type found struct {
	manifest *rbt.Manifest
	data     []byte
	target   rbt.Target
}

func (w *Walk) open(ctx context.Context) error {
	candidates, err := w.candidates(ctx)
	if err != nil {
		return err
	}
	candidates = w.remember(candidates)
	f := &failure{missing: rbt.ManifestNotFound}
	for _, c := range candidates {
		m, data, target, err := w.manifest(ctx, c)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			w.took(m, data, target, c, candidates)
			if len(f.attempts) > 0 {
				w.Report.Add(f.problem("", rbt.ManifestFile))
			}
			return w.last.keep(kept{URL: w.startName(), Fetched: w.config.Now().UTC()}, data)
		}
		w.config.Log.Warn("a root gives no manifest", "root", c.place.kind(), "error", err)
		f.add(c.place.kind(), err)
	}
	w.Report.Add(f.problem("", rbt.ManifestFile))
	if w.standIn(f, candidates) {
		return nil
	}
	return f.err()
}

// took takes note of the manifest.
func (w *Walk) took(m *rbt.Manifest, data []byte, target rbt.Target, from candidate, all []candidate) {
	w.Manifest, w.ManifestData, w.top = m, data, target
	if from.place != nil {
		w.Root = from.place.root()
		if git, ok := from.place.(*gitPlace); ok && git.tree != nil {
			w.Commit = &git.tree.Commit
		}
		if !from.mirror {
			w.addPlace(&w.roots, from.place)
		}
		w.Report.Manifest = cmp.Or(from.place.url(target), from.place.root().String()+" "+target.Path)
	}
	for _, c := range all {
		if !c.mirror {
			w.addPlace(&w.roots, c.place)
		}
	}
	for _, r := range w.ordered(m.Roots) {
		w.addPlace(&w.roots, w.place(r))
	}
	for _, r := range slices.Concat(m.Mirrors, w.config.Start.Mirrors) {
		w.addPlace(&w.mirrors, w.place(r))
	}
	for _, s := range w.roots {
		if web, ok := s.place.(*webPlace); ok {
			w.bases = append(w.bases, web.base)
		}
	}
	w.Report.Warnings = append(w.Report.Warnings, m.Warnings...)
	if m.Imported {
		w.Report.Warnings = append(w.Report.Warnings, "a document of a later format, read as far as it says the same")
	}
}

func (w *Walk) place(r rbt.Root) place {
	if r.Git != nil {
		return &gitPlace{git: r.Git, walk: w}
	}
	return &webPlace{base: r.HTTPS.Base, walk: w, cache: &w.cache}
}

// addPlace adds a place, unless it is there already.
func (w *Walk) addPlace(to *[]*source, p place) {
	if len(*to) >= maxPlaces || slices.ContainsFunc(*to, func(s *source) bool { return s.place.root().String() == p.root().String() }) {
		return
	}
	*to = append(*to, &source{place: p})
}

// ordered sorts roots as the operator prefers them.
func (w *Walk) ordered(roots []rbt.Root) []rbt.Root {
	roots = slices.Clone(roots)
	rank := map[Preference]string{GitFirst: "git", HTTPSFirst: "https"}[w.config.Prefer]
	slices.SortStableFunc(roots, func(a, b rbt.Root) int {
		return map[bool]int{true: 0, false: 1}[a.Kind() == rank] - map[bool]int{true: 0, false: 1}[b.Kind() == rank]
	})
	return roots
}

// candidates are where the manifest may be, in the order in which they are asked.
func (w *Walk) candidates(ctx context.Context) (all []candidate, err error) {
	start := w.config.Start
	switch {
	case start.Local != nil:
		all = []candidate{{place: w.localPlace(start.Local)}}
	case start.URL != "":
		if all, err = w.discover(ctx, start.URL); err != nil {
			return nil, err
		}
	}
	for _, r := range w.ordered(start.Roots) {
		all = append(all, candidate{place: w.place(r)})
	}
	for _, r := range start.Mirrors {
		all = append(all, candidate{place: w.place(r), mirror: true})
	}
	return all, nil
}

// remember adds the roots that the last manifest of this start named, so that a
// burrow is found where the root that was asked for is gone, or lies (9.2). What
// they give may not be older than that manifest: a root that was left behind
// would take back what has been published since.
func (w *Walk) remember(all []candidate) []candidate {
	k, data, ok := w.last.lookup(w.startName())
	if !ok || w.config.Start.Local != nil || w.config.Now().Sub(k.Fetched) > maxStale {
		return all
	}
	m, err := w.checked(data, false)
	if err != nil {
		return all
	}
	for _, r := range w.ordered(m.Roots) {
		known := func(c candidate) bool { return c.place.root().String() == r.String() }
		if len(all) < maxPlaces && !slices.ContainsFunc(all, known) {
			all = append(all, candidate{place: w.place(r), since: m.Updated})
		}
	}
	return all
}

// discover reads what is at a URL. The roots that its manifest names, as far as
// they are preferred, come before it.
func (w *Walk) discover(ctx context.Context, raw string) ([]candidate, error) {
	t, err := rbt.ResolveHref(rbt.ManifestFile, raw, w.config.Options)
	if err != nil {
		return nil, err
	}
	here, err := w.candidateAt(t.URL)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	m, data, target, err := w.manifest(ctx, here)
	switch {
	case err == nil:
		here.found = &found{m, data, target}
		return w.preferred(m.Roots, here), nil
	case u.Path != "/" || categoryOf(err, rbt.ManifestNotFound) != rbt.ManifestNotFound:
		return []candidate{here}, nil // which will tell of its error
	}
	r, err := w.web.get(ctx, strings.TrimSuffix(t.URL, "/")+rbt.WellKnownBurrow, fetch.Conditions{}, rbt.MaxPointer)
	if err != nil {
		return []candidate{here}, nil
	}
	pointer, err := rbt.ParseBurrowPointer(r.data, w.config.Options)
	if err != nil {
		return nil, &rbt.Error{Category: rbt.ManifestInvalid, Err: fmt.Errorf("%s: %w", rbt.WellKnownBurrow, err)}
	}
	there, err := w.candidateAt(pointer.Manifest)
	if err != nil {
		return nil, err
	}
	return w.preferred(pointer.Roots, there), nil
}

// candidateAt is the root of a URL: that of a manifest, or of its folder.
func (w *Walk) candidateAt(rawURL string) (candidate, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return candidate{}, fmt.Errorf("%.200q is no URL of a manifest", rawURL)
	}
	i := strings.LastIndexByte(u.EscapedPath(), '/')
	folder, name := u.EscapedPath()[:i+1], u.EscapedPath()[i+1:]
	c := candidate{place: &webPlace{base: u.Scheme + "://" + u.Host + folder, walk: w, cache: &w.cache}}
	if name == "" {
		return c, nil
	}
	if u.RawQuery != "" {
		name += "?" + u.RawQuery
	}
	c.target, err = rbt.ResolveHref(rbt.ManifestFile, "./"+name, w.config.Options)
	return c, err
}

// preferred puts here among roots: behind those of a kind that is preferred.
func (w *Walk) preferred(roots []rbt.Root, here candidate) (all []candidate) {
	placed := false
	for _, r := range w.ordered(append([]rbt.Root{here.place.root()}, roots...)) {
		if r.Kind() == "https" && !placed {
			placed = true
			all = append(all, here)
			continue
		}
		all = append(all, candidate{place: w.place(r)})
	}
	return all[:min(len(all), maxPlaces)]
}

// manifest reads a root's manifest, and checks that it is the one that is meant.
func (w *Walk) manifest(ctx context.Context, c candidate) (*rbt.Manifest, []byte, rbt.Target, error) {
	if c.found != nil {
		return c.found.manifest, c.found.data, c.found.target, nil
	}
	targets := []rbt.Target{c.target}
	if c.target == (rbt.Target{}) {
		targets = nil
		for _, name := range append([]string{rbt.ManifestFile}, rbt.LaterNames()...) {
			targets = append(targets, rbt.Target{Path: name})
		}
	}
	var first error
	for _, t := range targets {
		data, err := c.place.document(ctx, t)
		if err == nil {
			m, err := w.checked(data, c.mirror)
			if err == nil && m.Updated.Before(c.since) {
				err = fmt.Errorf("%w: the last one is of %s, this is of %s", errOlder, c.since.Format(time.RFC3339), m.Updated.Format(time.RFC3339))
			}
			return m, data, t, err
		}
		first = cmp.Or(first, err)
		if categoryOf(err, rbt.ManifestNotFound) != rbt.ManifestNotFound {
			return nil, nil, t, err
		}
	}
	return nil, nil, rbt.Target{}, first
}

// checked parses a manifest and checks its RID.
func (w *Walk) checked(data []byte, fromMirror bool) (*rbt.Manifest, error) {
	m, err := rbt.ParseManifest(data, w.config.Options)
	if err != nil {
		return nil, err
	}
	want := w.config.Start.RID
	switch {
	case fromMirror && (want.IsZero() || m.Imported):
		return nil, errUnverified
	case !want.IsZero() && m.RID != want:
		return nil, fmt.Errorf("%w: the manifest %s is expected, this is %s", rbt.ErrVerification, want, m.RID)
	case m.Imported:
		return m, nil
	}
	return m, rbt.CheckManifest(data, m.RID)
}

// startName is how the last manifest of this start is kept.
func (w *Walk) startName() string {
	s := w.config.Start
	var b strings.Builder
	fmt.Fprintf(&b, "start %q %s", s.URL, s.RID)
	if s.Local != nil {
		fmt.Fprintf(&b, " %q", *s.Local)
	}
	for _, r := range s.Roots {
		fmt.Fprintf(&b, " %q", r)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))
}

// standIn uses the last manifest where no root can be reached, for the mirrors
// that it names.
func (w *Walk) standIn(f *failure, candidates []candidate) bool {
	if slices.ContainsFunc(f.categories, func(c rbt.Category) bool { return c != rbt.TransportError && c != rbt.RateLimited }) {
		return false
	}
	k, data, ok := w.last.lookup(w.startName())
	if !ok || w.config.Now().Sub(k.Fetched) > maxStale {
		return false
	}
	m, err := w.checked(data, false)
	if err != nil || len(m.Mirrors) == 0 {
		return false
	}
	w.took(m, data, rbt.Target{Path: rbt.ManifestFile}, candidate{}, candidates)
	w.Stale = true
	w.Report.Warnings = append(w.Report.Warnings, "no root can be reached; the last manifest is used, with its mirrors")
	return true
}

// localPlace is a repository of this machine, or a folder that is none.
func (w *Walk) localPlace(l *Local) place {
	if isFolder(l) {
		return newFolder(l)
	}
	return &gitPlace{local: l, walk: w, git: &rbt.GitRoot{Ref: l.Ref, Path: cmp.Or(l.Path, ".")}}
}
