package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// An entry is a file that is a page.
type entry struct {
	location string
	url      string
	stamp    content.Stamp // see stat
}

// list walks the whole folder and returns its pages in ascending byte order of
// location; it holds their names, and nothing of their content. A folder that
// cannot be listed, and two files for one URL, are errors: a page that is
// missing from the list is taken for gone.
func (s *Site) list(ctx context.Context, root *os.Root, base string, skip func(content.Skipped)) ([]entry, error) {
	var pages []entry
	var skipped []content.Skipped
	err := fs.WalkDir(root.FS(), ".", func(location string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			return err
		case location == ".":
			return nil
		case strings.HasPrefix(d.Name(), ".") && d.IsDir():
			return fs.SkipDir
		case strings.HasPrefix(d.Name(), ".") || !d.Type().IsRegular() || kindOf(location) == noPage:
			return nil
		}
		u, err := s.pageURL(base, location)
		if err != nil {
			skipped = append(skipped, content.Skipped{Location: location, Reason: "its name gives no URL", Err: err})
			return nil
		}
		pages = append(pages, entry{location: location, url: u})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list site folder: %w", err)
	}
	if err := checkUnique(pages); err != nil {
		return nil, err
	}
	slices.SortFunc(pages, func(a, b entry) int { return cmp.Compare(a.location, b.location) })
	for _, f := range skipped {
		skip(f)
	}
	return pages, nil
}

// checkUnique sorts pages by URL, and names two files that share one.
func checkUnique(pages []entry) error {
	slices.SortFunc(pages, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.url, b.url), cmp.Compare(a.location, b.location))
	})
	for i := 1; i < len(pages); i++ {
		if pages[i].url == pages[i-1].url {
			return fmt.Errorf("%q and %q are both %s", pages[i-1].location, pages[i].location, pages[i].url)
		}
	}
	return nil
}

// fileKind tells what a file holds.
type fileKind uint8

const (
	noPage fileKind = iota
	htmlPage
	markdownPage
)

// kindOf goes by a name's ending, in upper or lower case.
func kindOf(location string) fileKind {
	switch strings.ToLower(path.Ext(location)) {
	case ".html", ".htm":
		return htmlPage
	case ".md":
		return markdownPage
	}
	return noPage
}

// mediaTypeOf is that of a page's file.
func mediaTypeOf(location string) string {
	if kindOf(location) == markdownPage {
		return "text/markdown"
	}
	return "text/html"
}

// pageURL returns the URL of a page: index files stand for their folder, and
// octets that a path cannot hold are percent-encoded.
func (s *Site) pageURL(base, location string) (string, error) {
	dir, name := path.Split(location)
	ext := path.Ext(name)
	switch {
	case strings.TrimSuffix(name, ext) == "index" && ext == strings.ToLower(ext):
		name = ""
	case s.StripExt:
		name = strings.TrimSuffix(name, ext)
	}
	return content.CanonicalURL(base + notInName.Replace(dir+name))
}

// notInName encodes what would be read as something else than a part of a name.
var notInName = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23", `\`, "%5C")

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
