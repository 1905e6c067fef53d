package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// An entry is a file that is a page, or would be one if its name gave a URL.
type entry struct {
	location string
	url      string
	stamp    content.Stamp // see statFolder
	unnamed  error         // why there is no url
}

// runEntries is how many entries of one folder are handed on at once.
const runEntries = 256

// A walk goes through the whole folder. It holds the names in one folder, and in
// those above it, and nothing of what the files hold.
type walk struct {
	site *Site
	root *os.Root
	base string
	// emit, if not nil, is given the pages in ascending byte order of location, in
	// runs of one folder, which are its own.
	emit func([]entry) error
}

// folder walks one folder. One that cannot be listed, and two files for one URL,
// are errors: a page that is not listed is taken for gone. Octets of a name stand
// each for themselves in a URL, so only files of the same folder can share one.
func (w *walk) folder(ctx context.Context, location string) error {
	names, err := w.names(ctx, location)
	if err != nil {
		return fmt.Errorf("list site folder: %w", err)
	}
	if err := w.checkUnique(location, names); err != nil {
		return err
	}
	var run []entry
	hand := func() error {
		if len(run) == 0 || w.emit == nil {
			return nil
		}
		defer func() { run = nil }()
		return w.emit(run)
	}
	for _, name := range names {
		if below, ok := strings.CutSuffix(name, "/"); ok {
			if err := hand(); err != nil {
				return err
			}
			if err := w.folder(ctx, path.Join(location, below)); err != nil {
				return err
			}
			continue
		}
		if w.emit == nil {
			continue
		}
		e := entry{location: path.Join(location, name)}
		e.url, e.unnamed = w.site.pageURL(w.base, e.location)
		if run = append(run, e); len(run) == runEntries {
			if err := hand(); err != nil {
				return err
			}
		}
	}
	return hand()
}

// names lists a folder's pages, and its folders with a slash at their end: in
// this order all that is below them is in byte order.
func (w *walk) names(ctx context.Context, location string) ([]string, error) {
	dir, err := openFolder(w.root, location)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var names []string
	for {
		found, err := dir.ReadDir(runEntries)
		for _, d := range found {
			switch name := d.Name(); {
			case strings.HasPrefix(name, "."):
			case d.IsDir():
				names = append(names, name+"/")
			case d.Type().IsRegular() && kindOf(name) != noPage:
				names = append(names, name)
			}
		}
		if isEOF(err) {
			break
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

// openFolder opens a folder to be listed. Of a file that an os.Root opened, ReadDir asks
// the system about each entry, one after the other; of one with the same descriptor, not
// where the folder says what is a file. The stamps are asked for side by side later.
func openFolder(root *os.Root, location string) (*os.File, error) {
	opened, err := root.Open(location)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	raw, err := opened.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	if err := raw.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, &os.PathError{Op: "dup", Path: location, Err: failed}
	}
	return os.NewFile(uintptr(fd), opened.Name()), nil
}

// checkUnique names two files of a folder that share a URL: only where an ending
// is left out can they.
func (w *walk) checkUnique(location string, names []string) error {
	first := make(map[string]string)
	for _, name := range names {
		last := w.site.lastOf(name)
		if last == name || strings.HasSuffix(name, "/") {
			continue
		}
		if other, ok := first[last]; ok {
			u, err := w.site.pageURL(w.base, path.Join(location, name))
			if err != nil {
				continue // neither has one
			}
			return fmt.Errorf("%q and %q are both %s", path.Join(location, other), path.Join(location, name), u)
		}
		first[last] = name
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
	return content.CanonicalURL(base + notInName.Replace(dir+s.lastOf(name)))
}

// lastOf is what the name of a page's file gives to its URL.
func (s *Site) lastOf(name string) string {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	switch {
	case stem == "index" && ext == strings.ToLower(ext):
		return ""
	case s.StripExt:
		return stem
	}
	return name
}

// notInName encodes what would be read as something else than a part of a name.
var notInName = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23", `\`, "%5C")

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
