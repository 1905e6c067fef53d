package rbt

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A Registry is what a .warren.json says (section 10).
type Registry struct {
	Version Version
	Schema  string

	Title, Description string
	Updated            time.Time
	RID                RID // zero where it is not named

	Burrows  []Burrow
	Imported bool // as that of Manifest
	Warnings []string
}

// A Burrow is an entry of a registry (10.5).
type Burrow struct {
	Name, Title, Summary string
	Roots                []Root
	RID                  RID // of its manifest; zero where it is not named
	Tags                 []string
	Updated              time.Time
}

// ParseRegistry reads a .warren.json, as ParseManifest reads a manifest.
func ParseRegistry(data []byte, o Options) (*Registry, error) {
	if err := checkText(data, MaxManifest); err != nil {
		return nil, invalid("%w", err)
	}
	r := &reader{options: o}
	var g Registry
	var meta, entries, burrows jsontext.Value
	version, later := "", ""
	err := members(data, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "rbt":
			version, err = text(v)
		case "specVersion":
			later, err = text(v)
		case "$schema":
			g.Schema, err = text(v)
		case "registry":
			meta = v
		case "entries":
			entries = v
		case "burrows":
			burrows = v
		}
		return err
	})
	switch {
	case err != nil:
	case version == "" && meta == nil && later != "":
		err = r.importedRegistry(data, &g, later, burrows)
	case meta == nil:
		err = errors.New("no registry")
	case entries == nil:
		err = errors.New("no entries")
	default:
		err = r.registry(&g, version, meta, entries)
	}
	if err != nil {
		return nil, invalid("%w", err)
	}
	g.Warnings = r.told()
	return &g, nil
}

func (r *reader) registry(g *Registry, version string, meta, entries jsontext.Value) (err error) {
	if g.Version, err = r.version(version); err != nil {
		return err
	}
	if err := members(meta, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "title":
			g.Title, err = text(v)
		case "updated":
			g.Updated, err = stamp(v)
		case "rid":
			g.RID, err = readRID(v)
		case "description":
			g.Description, err = text(v)
		}
		return err
	}); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	if g.Title == "" || g.Updated.IsZero() {
		return errors.New("registry: title and updated are required")
	}
	names := make(map[string]bool)
	return items(entries, MaxEntries, func(n int, v jsontext.Value) error {
		b, err := r.burrow(n, v)
		if err == nil && names[b.Name] {
			err = fmt.Errorf("name %.100q is another's already", b.Name)
		}
		names[b.Name] = true
		g.Burrows = append(g.Burrows, b)
		return err
	})
}

func (r *reader) burrow(n int, v jsontext.Value) (Burrow, error) {
	var b Burrow
	hasRoots := false
	err := members(v, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "name":
			b.Name, err = text(v)
		case "title":
			b.Title, err = text(v)
		case "summary":
			b.Summary, err = text(v)
		case "roots":
			hasRoots = true
			b.Roots, err = r.roots(v, 1)
		case "rid":
			b.RID, err = readRID(v)
		case "tags":
			if b.Tags, err = texts(v); err != nil {
				r.warn("entry %d: tags: %v", n, err)
				b.Tags, err = nil, nil
			}
		case "updated":
			if b.Updated, err = stamp(v); err != nil {
				r.warn("entry %d: updated: %v", n, err)
				err = nil
			}
		}
		return err
	})
	if err == nil && (b.Name == "" || b.Title == "" || b.Summary == "" || !hasRoots) {
		err = errors.New("name, title, summary and roots are required")
	}
	if err == nil && !isSlug(b.Name) {
		r.warn("entry %d: name %.60q is no slug", n, b.Name)
	}
	return b, err
}

// isSlug accepts lower-case letters, digits, and hyphens, dots and underscores
// between them.
func isSlug(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (i == 0 || c != '-' && c != '.' && c != '_') {
			return false
		}
	}
	return s != "" && len(s) <= 128
}
