package publisher

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// BurrowOptions say what a burrow says of itself.
type BurrowOptions struct {
	// GitRemote, GitRef and GitPath are the root that comes first, which the
	// operator pushes the folder to; an empty remote stands for none.
	GitRemote, GitRef, GitPath string
	Mirrors                    []string // https URLs of folders
	Title, Description         string   // an empty title stands for the source's name
	// Registry is a folder with a registry that is to list the burrow; empty for none.
	Registry string
	// RegistryOrigin is the https URL that the registry's folder is the root of,
	// with a slash at its end: a pointer is written for it; empty for none.
	RegistryOrigin string
	// OriginDir is the folder that is the root of the base URL's origin, where the
	// export is in a deeper one: the burrow's pointer is written there; empty for
	// none.
	OriginDir string
}

// An original is a reader whose pages are files that can be handed out as they
// are.
type original interface {
	Original(ctx context.Context, location string) (src []byte, mediaType string, err error)
}

// rbt writes a burrow: the files of a source that has files, and the payloads
// of any other.
func (x *exporter) rbt(ctx context.Context) error {
	var burrow *rbt.Export
	for p, err := range x.pages(ctx) {
		if err != nil {
			return err
		}
		if burrow == nil { // the source's policy is known only now
			config, err := x.burrow()
			if err != nil {
				return err
			}
			if burrow, err = rbt.OpenExport(config); err != nil {
				return err
			}
			defer burrow.Close()
		}
		r, err := x.resource(ctx, p)
		if err == nil {
			err = burrow.Add(r)
		}
		if err != nil {
			return fmt.Errorf("page %.200q: %w", p.URL, err)
		}
	}
	done, err := burrow.Commit()
	x.report.Pages, x.report.Written, x.report.Removed = done.Entries, done.Written, done.Removed
	if err != nil {
		return err
	}
	x.report.Contradictions = done.Contradictions
	x.report.RID, x.report.Type, x.report.File = done.RID.String(), "manifest", rbt.ManifestFile
	return x.burrowDone()
}

// burrow is what the manifest says beside its entries. What the source denies
// stays denied.
func (x *exporter) burrow() (c rbt.ExportConfig, err error) {
	if o := x.o.RegistryOrigin; o != "" && (!strings.HasPrefix(o, "https://") || strings.Count(o, "/") != 3 || !strings.HasSuffix(o, "/")) {
		return c, fmt.Errorf("registry at %.200q: want the root of an origin, such as https://example.org/", o)
	}
	if x.o.OriginDir != "" && x.o.BaseURL == "" {
		return c, errors.New("the origin's pointer leads to a URL: name that of the folder by --base-url")
	}
	m := rbt.Manifest{Title: x.o.Title, Description: x.o.Description, Updated: x.o.Generated}
	if m.Title == "" {
		m.Title = x.s.Name
	}
	if x.o.GitRemote != "" {
		g := rbt.GitRoot{}
		if g.Remote, err = rbt.ParseRemote(x.o.GitRemote, rbt.Options{}); err == nil {
			g.Ref, err = rbt.ParseRef(x.o.GitRef)
		}
		if err == nil {
			g.Path, err = rbt.ParsePath(x.o.GitPath)
		}
		if err != nil {
			return c, fmt.Errorf("Git root: %w", err)
		}
		m.Roots = append(m.Roots, rbt.Root{Git: &g})
	}
	c = rbt.ExportConfig{Dir: x.o.Dir}
	if x.o.BaseURL != "" {
		m.Roots = append(m.Roots, rbt.Root{HTTPS: &rbt.HTTPSRoot{Base: x.o.BaseURL}})
		if strings.Count(x.o.BaseURL, "/") == 3 {
			c.Pointer = x.o.BaseURL + rbt.ManifestFile
		}
	}
	for _, base := range x.o.Mirrors {
		m.Mirrors = append(m.Mirrors, rbt.Root{HTTPS: &rbt.HTTPSRoot{Base: base}})
	}
	if t, ok := x.source.(teller); ok {
		m.Agents.Uses.Preferences = t.Told().Preferences
		for _, purpose := range rbt.Unsaid(t.Told().Preferences) {
			x.lose([]string{"denial of " + purpose})
		}
	}
	c.Manifest = m
	return c, nil
}

// resource is the file that stands for a page.
func (x *exporter) resource(ctx context.Context, p content.Page) (rbt.Resource, error) {
	r := rbt.Resource{
		Rel: []string{rbt.RelItem}, Title: p.Title, Summary: p.Description, Lang: p.Language, Modified: p.Modified,
	}
	base := x.pagesBase()
	if p.URL == base || strings.EqualFold(p.Location, "readme.md") {
		r.Rel = []string{rbt.RelIndex, rbt.RelAbout}
	}
	if o, ok := x.source.(original); ok {
		data, mediaType, err := o.Original(ctx, p.Location)
		if err != nil {
			return r, err
		}
		if sha256.Sum256(data) != p.SourceHash {
			return r, errors.New("it was changed meanwhile; export again")
		}
		r.Path, r.Type, r.Data = p.Location, mediaType, data
		return r, nil
	}
	// Only the payload is there; what the page states about its own use is not in it.
	if len(p.Preferences.Stated()) > 0 {
		x.lose([]string{"preferences of the page"})
	}
	p, err := x.asTCT(p)
	if err != nil {
		return r, err
	}
	m := tct.Mapping{Base: base}
	name, ok := m.File(m.MURL(p.URL))
	if !ok {
		return r, errors.New("no file can stand for it")
	}
	r.Path, r.Type, r.Data = name, "application/json", p.Payload
	return r, nil
}

// pagesBase is the URL of the folder that the pages lie in.
func (x *exporter) pagesBase() string {
	if x.s.BaseURL == "" {
		return x.o.BaseURL
	}
	return strings.TrimSuffix(x.s.BaseURL, "/") + "/"
}

// burrowDone tells what the manifest lacks, and lists it in the registry.
func (x *exporter) burrowDone() error {
	data, err := os.ReadFile(filepath.Join(x.o.Dir, rbt.ManifestFile))
	if err != nil {
		return err
	}
	m, err := rbt.ParseManifest(data, rbt.Options{})
	if err != nil {
		return err
	}
	if err := m.CheckFull(); err != nil {
		x.report.Short = err.Error()
	}
	if x.o.OriginDir != "" {
		if err := writePointer(x.o.OriginDir, rbt.WellKnownBurrow, &rbt.BurrowPointer{Manifest: x.o.BaseURL + rbt.ManifestFile, Roots: m.Roots}); err != nil {
			return err
		}
	}
	if x.o.Registry == "" {
		return nil
	}
	b := rbt.Burrow{Name: x.s.Name, Title: m.Title, Summary: m.Description, Roots: m.Roots, RID: m.RID, Updated: m.Updated}
	if b.Summary == "" {
		b.Summary = fmt.Sprintf("The %d pages of %s.", x.report.Pages, m.Title)
	}
	if err := register(x.o.Registry, b); err != nil || x.o.RegistryOrigin == "" {
		return err
	}
	o := x.o.RegistryOrigin
	return writePointer(x.o.Registry, rbt.WellKnownWarren, &rbt.WarrenPointer{JSON: o + rbt.RegistryFile, MD: o + rbt.RegistryPageFile})
}

// writePointer writes the document by which an origin says where its burrow, or
// its registry, is (4.2), below the folder that is the origin's root.
func writePointer(dir, name string, p interface{ Marshal() ([]byte, error) }) error {
	data, err := p.Marshal()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, filepath.FromSlash(name))
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(file, data, 0o644)
}

// register puts a burrow into the registry of a folder, in the place that it
// has there or at the end. The Markdown companion is replaced first: the JSON
// is what counts.
func register(dir string, b rbt.Burrow) error {
	file := filepath.Join(dir, rbt.RegistryFile)
	g := rbt.Registry{Title: "Burrows"}
	old, err := os.ReadFile(file)
	if err == nil {
		var read *rbt.Registry
		if read, err = rbt.ParseRegistry(old, rbt.Options{}); err == nil {
			g = *read
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("registry %s: %w", file, err)
	}
	g.Burrows = placed(g.Burrows, b)
	if b.Updated.After(g.Updated) {
		g.Updated = b.Updated
	}
	data, err := g.Marshal()
	if err != nil {
		return fmt.Errorf("registry %s: %w", file, err)
	}
	if bytes.Equal(data, old) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, rbt.RegistryPageFile), g.Markdown(), 0o644); err != nil {
		return err
	}
	return durable.WriteFile(file, data, 0o644)
}

func placed(all []rbt.Burrow, b rbt.Burrow) []rbt.Burrow {
	for i := range all {
		if all[i].Name == b.Name {
			all[i] = b
			return all
		}
	}
	return append(all, b)
}
