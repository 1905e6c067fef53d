package rbt

import (
	"errors"
	"fmt"
	"mime"
	"path"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Later rabit formats (0.3 and 0.4) turned manifests into menus: specVersion in
// place of rbt, entries with uri and kind, a hash only where the publisher gives
// one, and neither RIDs nor roots. They are read and never written. What names
// no hash cannot be verified, and so no mirror can stand in for it.

// LaterNames are the file names that these formats have besides .burrow.json,
// in the order in which they are looked for.
func LaterNames() []string { return []string{"burrow.json", ".well-known/burrow.json"} }

// laterLine is what a specVersion has to hold, so that nothing else is taken for one.
const laterLine = "rabit/schemas/0."

func laterVersion(later, kind string) error {
	if !strings.Contains(later, laterLine) || !strings.HasSuffix(later, "/"+kind) {
		return fmt.Errorf("%w: %.80q is no known one of a %s", ErrVersion, later, kind)
	}
	return nil
}

// imported reads a later burrow.
func (r *reader) imported(data []byte, m *Manifest, later string, entries, agents, repo jsontext.Value) (err error) {
	if err := laterVersion(later, "burrow"); err != nil {
		return err
	}
	m.Imported = true
	r.warn("%s is a later format: without RIDs, only what names a sha256 can be verified", later)
	base := ""
	err = members(data, func(name string, v jsontext.Value) error {
		switch name {
		case "title":
			m.Title, err = text(v)
		case "description":
			m.Description, err = text(v)
		case "updated":
			m.Updated, err = stamp(v)
		case "baseUri":
			base, err = text(v)
		}
		if err != nil {
			r.warn("%s: %v", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if base != "" && r.options.checkBase(base) != nil {
		return errors.New("baseUri is no https URL that ends with a slash")
	}
	if agents != nil {
		if m.Agents, err = r.agents(agents); err != nil {
			return fmt.Errorf("agents: %w", err)
		}
	}
	if repo != nil {
		if m.Repo, err = r.repo(repo); err != nil {
			r.warn("repo: %v", err)
		}
	}
	ids := make(map[string]bool)
	return items(entries, MaxEntries, func(n int, v jsontext.Value) error {
		e, use, err := r.importedEntry(n, v, base)
		if err == nil && ids[e.ID] {
			err = fmt.Errorf("id %.100q is another's already", e.ID)
		}
		ids[e.ID] = true
		if use {
			m.Entries = append(m.Entries, e)
		}
		return err
	})
}

// importedEntry reads one entry. A link leads out of the burrow, and a folder
// that has no burrow of its own holds nothing that could be found: neither is
// used.
func (r *reader) importedEntry(n int, v jsontext.Value, base string) (e Entry, use bool, err error) {
	e = Entry{Size: -1}
	kind := ""
	err = members(v, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "id":
			e.ID, err = text(v)
		case "kind":
			kind, err = text(v)
		case "uri":
			e.Href, err = r.href(v)
		case "mediaType":
			e.Type, err = mediaType(v)
		case "sizeBytes":
			e.Size, err = number(v, 0)
		case "sha256":
			var s string
			if s, err = text(v); err == nil {
				sum, ok := parseDigest(strings.TrimPrefix(strings.ToLower(s), "sha256:"))
				if e.Hash = &sum; !ok {
					err = fmt.Errorf("%.100q is no SHA-256", s)
				}
			}
		default:
			r.describe(&e, n, name, v)
		}
		return err
	})
	if err == nil && (e.ID == "" || e.Href == "" || kind == "") {
		err = errors.New("id, kind and uri are required")
	}
	if err != nil {
		return e, false, err
	}
	if e.Hash != nil {
		e.RID = SumRID(*e.Hash)
	}
	if base != "" && !strings.Contains(e.Href, "://") {
		e.Href = base + strings.TrimPrefix(e.Href, "./")
	}
	return e, r.importedKind(&e, n, kind), nil
}

func (r *reader) importedKind(e *Entry, n int, kind string) bool {
	switch kind {
	case "file":
		e.Rel = []string{RelItem}
		if e.Type == "" {
			e.Type = mime.TypeByExtension(path.Ext(e.Href))
		}
		if e.Type == "" {
			e.Type = "application/octet-stream"
		}
		return true
	case "burrow", "map":
		e.Rel, e.Type = []string{RelCollection}, DirectoryType
		e.RID, e.Hash, e.Size = RID{}, nil, -1
		href := e.Href
		if kind == "burrow" {
			href = strings.TrimSuffix(href, "/") + "/" + ManifestFile
		}
		e.Children = &Children{Href: href, Limit: MaxEntries, Total: -1}
		return true
	}
	r.warn("entry %d: kind %.40q is not read", n, kind)
	return false
}

// importedRegistry reads a later warren: where its burrows are by URL.
func (r *reader) importedRegistry(data []byte, g *Registry, later string, burrows jsontext.Value) error {
	if err := laterVersion(later, "warren"); err != nil {
		return err
	}
	g.Imported = true
	err := members(data, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "title":
			g.Title, err = text(v)
		case "description":
			g.Description, err = text(v)
		case "updated":
			g.Updated, err = stamp(v)
		}
		return err
	})
	if err != nil || burrows == nil {
		return err
	}
	return items(burrows, MaxEntries, func(n int, v jsontext.Value) error {
		var b Burrow
		uri := ""
		if err := members(v, func(name string, v jsontext.Value) (err error) {
			to := map[string]*string{"id": &b.Name, "title": &b.Title, "description": &b.Summary, "uri": &uri}[name]
			if to != nil {
				*to, err = text(v)
			}
			return err
		}); err != nil {
			return err
		}
		if b.Name == "" || uri == "" {
			return errors.New("id and uri are required")
		}
		if r.options.checkBase(uri) != nil {
			r.warn("entry %d: uri %.200q is no https URL that ends with a slash", n, uri)
			return nil
		}
		b.Roots = []Root{{HTTPS: &HTTPSRoot{uri}}}
		g.Burrows = append(g.Burrows, b)
		return nil
	})
}
