package tct

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/serve"
)

// A Tree is an export as Documents. Every payload is checked as it is opened:
// one whose hash is not its own is an error and never served, so that equal
// ETags mean equal octets whatever happened to the files.
type Tree struct {
	// Hide says which pages are served as Protected; nil: none. Their items are
	// in the sitemap of the export, so with a Hide the sitemaps are Protected too.
	Hide func(pageURL string) bool

	root    *os.Root
	mapping Mapping
	prefix  string // of request paths, from the first slash to the last

	etags serve.ETags // of sitemaps
}

// OpenTree opens the folder of an export.
func OpenTree(dir string, m Mapping) (*Tree, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(m.Base, "://")
	_, path, _ := strings.Cut(rest, "/")
	return &Tree{root: root, mapping: m, prefix: "/" + path}, nil
}

// Close closes the folder.
func (t *Tree) Close() error { return t.root.Close() }

// Handler returns a handler for the tree, with its links.
func (t *Tree) Handler() *Handler {
	h := &Handler{Documents: t, Index: t.prefix + SitemapFile}
	if _, err := t.root.Stat(PolicyFile); err == nil {
		h.Policy = t.prefix + PolicyFile
	}
	return h
}

// Open opens a document by the path of a request.
func (t *Tree) Open(ctx context.Context, path string) (*Served, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rest, ok := strings.CutPrefix(path, t.prefix)
	name, isFile := t.mapping.File(t.mapping.Base + rest)
	switch {
	case !ok || !isFile:
		return nil, fs.ErrNotExist
	case name == SitemapFile || isChildFile(name):
		return t.sitemap(name, Sitemap)
	case name == PolicyFile:
		return t.sitemap(name, Descriptor)
	case t.mapping.isOurs(name):
		return t.payload(name)
	}
	return nil, fs.ErrNotExist
}

// open opens a regular file; nothing outside the folder is ever opened.
func (t *Tree) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func (t *Tree) payload(name string) (*Served, error) {
	f, info, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > MaxPayload {
		return nil, fmt.Errorf("%s: %d octets, at most %d", name, info.Size(), MaxPayload)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxPayload+1))
	if err != nil {
		return nil, err
	}
	d, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	sum, err := MethodA(b, d.URL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if FormatHash(sum) != d.Hash {
		return nil, fmt.Errorf("%s: %w: its hash is not its own", name, ErrMalformed)
	}
	return &Served{
		Kind: Payload, Content: nopCloser{bytes.NewReader(b)}, ETag: d.Hash, Canonical: d.URL, Modified: info.ModTime(),
		Protected: t.Hide != nil && t.Hide(d.URL),
	}, nil
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

func (t *Tree) sitemap(name string, kind Kind) (*Served, error) {
	f, info, err := t.open(name)
	if err != nil {
		return nil, err
	}
	etag, err := t.etags.Of(name, f, info, MaxPayload)
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &Served{Kind: kind, Content: f, ETag: etag, Modified: info.ModTime(), Protected: t.Hide != nil && kind == Sitemap}
	// The compressed file is written first; one of another content belongs to
	// what stands here next, or stood here before.
	if z, zipped, err := t.open(name + ".gz"); err == nil {
		if of, err := t.etags.Of(name+".gz", z, zipped, MaxPayload); err == nil && of == etag {
			s.Gzip = z
		} else {
			z.Close()
		}
	}
	return s, nil
}
