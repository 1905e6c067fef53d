package rbt

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxHref is the greatest length of a reference, in octets.
const maxHref = 8 << 10

// A Target is where a reference leads: to a path below the burrow's root, or to
// a URL of its own.
type Target struct {
	Path  string // slash-separated and decoded; it is "" where URL is set
	Query string // of a path, as it is written; a Git root has no use for it
	IsDir bool   // the reference ends with a slash
	URL   string // canonical
}

// href reads a reference that is one by its form. A fragment, which names no
// resource of its own, is left away when it is resolved.
func (r *reader) href(v jsontext.Value) (string, error) {
	s, err := text(v)
	if err != nil {
		return "", err
	}
	if len(s) > maxHref {
		return "", fmt.Errorf("%w: a reference of %d octets, at most %d", ErrLimit, len(s), maxHref)
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("%.100q is no URI reference", s)
	}
	if u.User != nil {
		return "", fmt.Errorf("%w: a reference names a user", ErrCredential)
	}
	return s, nil
}

// ResolveHref resolves a reference that stands in the document at the path doc,
// such as docs/.burrow.json, below the burrow's root. As RFC 3986 has it, the
// document's own place is the base, not the root. An error wraps ErrHref: the
// reference leaves the root, or leads neither to a path nor to an https URL.
func ResolveHref(doc, href string, o Options) (Target, error) {
	bad := func(why string) (Target, error) { return Target{}, fmt.Errorf("%w %.200q: %s", ErrHref, href, why) }
	if len(href) > maxHref {
		return bad("too long")
	}
	u, err := url.Parse(href)
	switch {
	case err != nil:
		return Target{}, fmt.Errorf("%w: no URI reference", ErrHref)
	case u.Scheme != "":
		canonical, err := o.checkURL(href)
		if err != nil {
			return Target{}, fmt.Errorf("%w: %w", ErrHref, err)
		}
		return Target{URL: canonical}, nil
	case u.Host != "" || u.User != nil || strings.HasPrefix(href, "/"):
		return bad("it begins with a slash, and so says nothing about the root")
	}
	raw := u.EscapedPath()
	if raw == "" {
		return bad("no path")
	}
	p := path.Dir(doc)
	for segment := range strings.SplitSeq(strings.TrimSuffix(raw, "/"), "/") {
		s, err := url.PathUnescape(segment)
		switch {
		case err != nil || strings.ContainsAny(s, "/\\\x00") || s == "":
			return bad("a segment that is no name")
		case s == ".." && p == ".":
			return bad("it leaves the root")
		case segment != s && (s == ".." || s == "."):
			return bad("dots that are encoded")
		case s == "..":
			p = path.Dir(p)
		case s != ".":
			p = path.Join(p, s)
		}
	}
	if !fs.ValidPath(p) {
		return bad("no path")
	}
	return Target{Path: p, Query: u.RawQuery, IsDir: strings.HasSuffix(raw, "/") || p == "."}, nil
}

// LocalPath resolves a reference from the root that has to be a path, as those
// of repo have (13.3.2).
func LocalPath(href string) (string, error) {
	t, err := ResolveHref(ManifestFile, href, Options{})
	if err == nil && (t.URL != "" || t.Query != "" || t.IsDir) {
		err = fmt.Errorf("%w %.200q: no path of a file below the root", ErrHref, href)
	}
	return t.Path, err
}

// URLOf is the URL of a target below an HTTPS root's base.
func URLOf(base string, t Target) string {
	if t.URL != "" {
		return t.URL
	}
	u := base + escapePath(t.Path)
	if t.Path == "." {
		u = base
	} else if t.IsDir {
		u += "/"
	}
	if t.Query != "" {
		u += "?" + t.Query
	}
	return u
}

// HrefOf writes a path as a relative reference from the root.
func HrefOf(name string) string {
	escaped := escapePath(name)
	if first, _, _ := strings.Cut(escaped, "/"); strings.Contains(first, ":") { // it would be read as a scheme
		return "./" + escaped
	}
	return escaped
}

// escapePath percent-encodes each segment of a path.
func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
