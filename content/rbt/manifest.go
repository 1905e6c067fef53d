package rbt

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The names of the documents, and their media types (4.1, 4.3).
const (
	ManifestFile     = ".burrow.json"
	RegistryFile     = ".warren.json"
	RegistryPageFile = ".warren.md"

	JSONType     = "application/json; charset=utf-8"
	MarkdownType = "text/markdown; charset=utf-8"
)

// A Manifest is what a .burrow.json says (section 6).
type Manifest struct {
	Version Version
	Schema  string // may be empty

	Title, Description string
	Updated            time.Time
	RID                RID // as it is written; Check compares it with the octets
	Roots, Mirrors     []Root
	Git                *Provenance // nil where it is not named
	Cache              Cache
	Repo               Repo
	Agents             Agents
	Auth               *Auth // nil where it is not named

	// Generator says which program wrote the document; an extension of ours.
	Generator string

	Entries []Entry
	// Next leads to further entries of a page; a manifest has none.
	Next *Children

	// Imported says that the document is of a later format, which has no RIDs.
	Imported bool
	// Warnings tell what was odd; at most 100, and a line that counts the rest.
	Warnings []string
}

// generatorMember is the name of an extension (1.4).
const generatorMember = "x-uzpif-generator"

// A Provenance says which commit a manifest is of (section 12).
type Provenance struct {
	Remote, Ref, Commit, Path, Author string
	Timestamp                         time.Time
}

// Auth says that access has to be asked for; a hint, and no more (14.3).
type Auth struct {
	Required      bool
	Documentation string
}

// A Cache says how long a manifest may be kept (8.5.1).
type Cache struct {
	MaxAge, StaleWhileRevalidate time.Duration
	HasMaxAge                    bool // without it, MaxAge is an hour
}

// The time that a manifest is kept where it names none, and the longest.
const (
	defaultMaxAge = time.Hour
	longestMaxAge = 30 * 24 * time.Hour
)

// A reader reads one document.
type reader struct {
	options  Options
	warnings []string
	more     int // warnings beyond maxWarnings
}

func (r *reader) warn(format string, args ...any) {
	if len(r.warnings) >= maxWarnings {
		r.more++
		return
	}
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *reader) told() []string {
	if r.more > 0 {
		return append(r.warnings, fmt.Sprintf("and %d more", r.more))
	}
	return r.warnings
}

// ParseManifest reads a .burrow.json. Each error wraps ErrInvalid. Members that
// it does not know are passed over. A later rabit file is read as far as it
// says the same; Imported is then set.
func ParseManifest(data []byte, o Options) (*Manifest, error) {
	m, err := parse(data, o)
	switch {
	case err != nil:
		return nil, err
	case !m.hasMeta() && !m.Imported:
		return nil, invalid("no manifest")
	}
	return m, nil
}

// ParsePage reads what children lead to: a manifest, or an object that has
// entries, may have a version, and may lead on by children of its own. Of the
// second only Entries and Next are set.
func ParsePage(data []byte, o Options) (*Manifest, error) { return parse(data, o) }

func (m *Manifest) hasMeta() bool { return !m.Updated.IsZero() }

func parse(data []byte, o Options) (*Manifest, error) {
	if err := checkText(data, MaxManifest); err != nil {
		return nil, invalid("%w", err)
	}
	r := &reader{options: o}
	m := &Manifest{Cache: Cache{MaxAge: defaultMaxAge}}
	var meta, entries, agents, repo jsontext.Value
	version, later := "", ""
	err := members(data, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "rbt":
			version, err = text(v)
		case "specVersion":
			later, err = text(v)
		case "$schema":
			m.Schema, err = text(v)
		case "manifest":
			meta = v
		case "entries":
			entries = v
		case "children":
			m.Next, err = r.children(v)
		case generatorMember:
			m.Generator, err = text(v)
		case "agents":
			agents = v
		case "repo":
			repo = v
		}
		return err
	})
	switch {
	case err != nil:
		return nil, invalid("%w", err)
	case entries == nil:
		return nil, invalid("no entries")
	case version == "" && meta == nil && later != "":
		err = r.imported(data, m, later, entries, agents, repo)
	default:
		err = r.manifest(m, version, meta, entries)
	}
	if err != nil {
		return nil, invalid("%w", err)
	}
	m.Warnings = r.told()
	return m, nil
}

// manifest reads a document of this text.
func (r *reader) manifest(m *Manifest, version string, meta, entries jsontext.Value) (err error) {
	if meta != nil || version != "" {
		if m.Version, err = r.version(version); err != nil {
			return err
		}
	}
	if m.Entries, err = r.entries(entries); err != nil {
		return fmt.Errorf("entries: %w", err)
	}
	if meta == nil {
		return nil
	}
	hasRoots := false
	if err := members(meta, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "title":
			m.Title, err = text(v)
		case "updated":
			m.Updated, err = stamp(v)
		case "rid":
			m.RID, err = readRID(v)
		case "roots":
			hasRoots = true
			m.Roots, err = r.roots(v, 1)
		case "mirrors":
			m.Mirrors, err = r.roots(v, 0)
		case "cache":
			m.Cache, err = cache(v)
		case "agents":
			m.Agents, err = r.agents(v)
		default:
			err = r.describes(m, name, v)
		}
		return err
	}); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	switch {
	case m.Title == "":
		return errors.New("manifest: no title")
	case m.Updated.IsZero():
		return errors.New("manifest: no updated")
	case m.RID.IsZero() || m.RID.IsCollection():
		return errors.New("manifest: no rid")
	case !hasRoots:
		return errors.New("manifest: no roots")
	}
	return nil
}

// describes reads a member that no decision rests on. A credential is refused
// wherever it stands.
func (r *reader) describes(m *Manifest, name string, v jsontext.Value) (err error) {
	switch name {
	case "description":
		m.Description, err = text(v)
	case "git":
		m.Git, err = r.provenance(v)
	case "repo":
		m.Repo, err = r.repo(v)
	case "auth":
		m.Auth, err = r.auth(v)
	}
	if err != nil && !errors.Is(err, ErrCredential) {
		r.warn("manifest: %s: %v", name, err)
		return nil
	}
	return err
}

// roots reads root descriptors. One of a kind that is not known, or by a
// transport that is not used, is left out and told of.
func (r *reader) roots(v jsontext.Value, least int) (all []Root, err error) {
	n := 0
	err = items(v, maxRoots, func(i int, v jsontext.Value) error {
		n++
		root, err := r.root(v)
		switch {
		case errors.Is(err, errTransport), errors.Is(err, errUnknownRoot):
			r.warn("root %d: %v", i, err)
			return nil
		case err != nil:
			return err
		}
		all = append(all, root)
		return nil
	})
	if err == nil && n < least {
		err = errors.New("there is none")
	}
	return all, err
}

var errUnknownRoot = errors.New("neither git nor https")

func (r *reader) root(v jsontext.Value) (root Root, err error) {
	err = members(v, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "git":
			root.Git, err = r.gitRoot(v)
		case "https":
			root.HTTPS, err = r.httpsRoot(v)
		}
		return err
	})
	switch {
	case err != nil:
	case root.Git == nil && root.HTTPS == nil:
		err = errUnknownRoot
	case root.Git != nil && root.HTTPS != nil:
		err = errors.New("both git and https")
	}
	return root, err
}

func (r *reader) gitRoot(v jsontext.Value) (*GitRoot, error) {
	g := GitRoot{Path: "."}
	err := members(v, func(name string, v jsontext.Value) error {
		var s string
		var err error
		switch name {
		case "remote":
			if s, err = text(v); err == nil {
				g.Remote, err = ParseRemote(s, r.options)
			}
		case "ref":
			if s, err = text(v); err == nil {
				g.Ref, err = ParseRef(s)
			}
		case "path":
			if s, err = text(v); err == nil {
				g.Path, err = ParsePath(s)
			}
		}
		return err
	})
	if err == nil && (g.Remote.Scheme == "" || g.Ref == "") {
		err = errors.New("remote and ref are required")
	}
	return &g, err
}

func (r *reader) httpsRoot(v jsontext.Value) (*HTTPSRoot, error) {
	var h HTTPSRoot
	err := members(v, func(name string, v jsontext.Value) (err error) {
		if name == "base" {
			if h.Base, err = text(v); err == nil {
				err = r.options.checkBase(h.Base)
			}
		}
		return err
	})
	if err == nil && h.Base == "" {
		err = errors.New("base is required")
	}
	return &h, err
}

func cache(v jsontext.Value) (Cache, error) {
	c := Cache{MaxAge: defaultMaxAge}
	err := members(v, func(name string, v jsontext.Value) error {
		switch name {
		case "maxAge", "staleWhileRevalidate":
		default:
			return nil
		}
		n, err := number(v, 0)
		d := longestMaxAge
		if n < int64(longestMaxAge/time.Second) {
			d = time.Duration(n) * time.Second
		}
		if name == "maxAge" {
			c.MaxAge, c.HasMaxAge = d, true
		} else {
			c.StaleWhileRevalidate = d
		}
		return err
	})
	return c, err
}

func (r *reader) provenance(v jsontext.Value) (*Provenance, error) {
	var p Provenance
	err := members(v, func(name string, v jsontext.Value) (err error) {
		to := map[string]*string{"remote": &p.Remote, "ref": &p.Ref, "commit": &p.Commit, "path": &p.Path, "author": &p.Author}[name]
		switch {
		case to != nil:
			*to, err = text(v)
		case name == "timestamp":
			p.Timestamp, err = stamp(v)
		}
		return err
	})
	if err == nil && p.Remote != "" {
		_, err = ParseRemote(p.Remote, r.options)
	}
	return &p, err
}

func (r *reader) auth(v jsontext.Value) (*Auth, error) {
	var a Auth
	err := members(v, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "required":
			if a.Required = v.Kind() == 't'; !a.Required && v.Kind() != 'f' {
				err = errors.New("neither true nor false")
			}
		case "documentation":
			if a.Documentation, err = text(v); err == nil {
				a.Documentation, err = r.options.checkURL(a.Documentation)
			}
		}
		return err
	})
	return &a, err
}
