package arc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// sitemapNames are where a folder has its sitemap, the first that is there.
func sitemapNames() []string {
	return []string{SitemapFile, ".well-known/" + SitemapFile, YAMLFile, "arc-sitemap.yml"}
}

// sitemapFile is the path of the sitemap of a source that is a file or a folder.
func (s *Source) sitemapFile() (string, error) {
	info, err := os.Stat(s.config.Location)
	if err != nil {
		return "", fmt.Errorf("ARC source: %w", err)
	}
	if !info.IsDir() {
		return s.config.Location, nil
	}
	for _, name := range sitemapNames() {
		path := filepath.Join(s.config.Location, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("ARC source: %s holds none of %q", s.config.Location, sitemapNames())
}

// folder is the folder of a source that is a file: that of the sitemap, or the one
// above .well-known.
func (s *Source) folder() (string, error) {
	path, err := s.sitemapFile()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	if filepath.Base(dir) == ".well-known" {
		dir = filepath.Dir(dir)
	}
	return dir, nil
}

// settling is for how long a file may still be changed within one tick of the
// clock that its time is of.
const settling = 2 * time.Second

// local reads the policy beside a sitemap that is a file, and the sitemap, unless
// it is the very file that is held.
func (r *refresh) local() error {
	path, err := r.s.sitemapFile()
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("ARC source: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("ARC source: %w", err)
	}
	if err := r.localPolicy(); err != nil {
		return err
	}
	mark := validators{ETag: fmt.Sprintf("file %s %d", path, info.Size()), Modified: info.ModTime()}
	if r.state.Entries != "" && r.state.Held.ETag == mark.ETag && r.state.Held.Modified.Equal(mark.Modified) {
		return nil
	}
	if _, err := r.read(f); err != nil {
		return fmt.Errorf("sitemap %s: %w", path, err)
	}
	if age := r.now.Sub(mark.Modified); r.failed || age < settling {
		mark = validators{}
	}
	r.state.Sitemap, r.state.Held, r.state.Deltas = "", mark, nil
	return r.adopt()
}

func (v *view) localPolicy() error {
	dir, err := v.s.folder()
	if err != nil {
		return err
	}
	at := filepath.Join(dir, filepath.FromSlash(PolicyPath))
	f, err := os.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	p, odd, err := ReadPolicy(f, at)
	if err != nil {
		return fmt.Errorf("policy %s: %w", at, err)
	}
	v.heed(p, odd)
	return nil
}

// beside reads the HTML of a page from the folder of the sitemap: the file of the
// URL's path, that with .html behind it, or the index of the folder that it names.
func (v *view) beside(pageURL string) (*body, error) {
	base := v.s.config.BaseURL
	if base == "" {
		origin, err := fetch.Origin(v.root)
		if err != nil {
			return nil, err
		}
		base = origin + "/"
	}
	rest, ok := strings.CutPrefix(pageURL, base)
	rest, _, query := strings.Cut(rest, "?")
	name, err := url.PathUnescape(rest)
	if !ok || query || err != nil || !fs.ValidPath(strings.TrimSuffix("./"+name, "/")[2:]) && name != "" {
		return nil, fmt.Errorf("it has no snapshot, and its URL names no file below %s", base)
	}
	dir, err := v.s.folder()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, candidate := range []string{name, name + ".html", path.Join(name, "index.html"), path.Join(name, "index.htm")} {
		if b, err := readPage(root, candidate); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return nil, fmt.Errorf("it has no snapshot, and its HTML is not beside the sitemap: %w", fs.ErrNotExist)
}

// readPage reads a regular file; its error is fs.ErrNotExist if it is none.
func readPage(root *os.Root, name string) (*body, error) {
	missing := &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	if name == "" || !fs.ValidPath(name) {
		return nil, missing
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, missing // or out of the folder
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, missing
	}
	html, err := io.ReadAll(io.LimitReader(f, MaxPage+1))
	if err == nil && len(html) > MaxPage {
		err = limit("%s: more than %d octets", name, MaxPage)
	}
	return &body{html: html, modified: info.ModTime()}, err
}
