package rbt

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// A Root says where a burrow is: exactly one of Git and HTTPS is set (5.2).
type Root struct {
	Git   *GitRoot
	HTTPS *HTTPSRoot
}

// A GitRoot is a folder of a repository, at a ref.
type GitRoot struct {
	Remote Remote
	Ref    Ref
	// Path is the folder: slash-separated, "." for the repository's own.
	Path string
}

// An HTTPSRoot is a URL that ends with a slash.
type HTTPSRoot struct{ Base string }

// Kind is "git" or "https", as reports name it; "" for the zero root.
func (r Root) Kind() string {
	switch {
	case r.Git != nil:
		return "git"
	case r.HTTPS != nil:
		return "https"
	}
	return ""
}

// String names the root in a line of a log.
func (r Root) String() string {
	switch {
	case r.Git != nil:
		return fmt.Sprintf("git %s %s /%s", r.Git.Remote, r.Git.Ref, strings.TrimPrefix(r.Git.Path, "."))
	case r.HTTPS != nil:
		return "https " + r.HTTPS.Base
	}
	return ""
}

// A Remote is where a Git repository is. It holds no password.
type Remote struct {
	Scheme string // "https", "ssh", or "http" if an Option allows its origin
	User   string // of ssh; may be empty
	Host   string // with its port, if there is one
	Path   string
	short  bool // written user@host:path
}

// errTransport says that a remote is sound but not of a transport that is used.
var errTransport = errors.New("git:// is not authenticated and is not used")

// maxRemote is the greatest length of a remote, a ref or a path, in octets.
const maxRemote = 4 << 10

// ParseRemote accepts https and ssh URLs and user@host:path. Whatever git, or a
// shell, could take for something else than a remote is refused, and so is a
// password.
func ParseRemote(s string, o Options) (Remote, error) {
	if len(s) > maxRemote {
		return Remote{}, fmt.Errorf("a remote of %d octets, at most %d", len(s), maxRemote)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7F || s[i] == '\\' {
			return Remote{}, errors.New("a remote with white space, control or other octets that no URL holds")
		}
	}
	scheme, rest, isURL := strings.Cut(s, "://")
	if !isURL {
		return parseShort(s)
	}
	switch r := (Remote{Scheme: scheme}); scheme {
	case "https", "http":
		if _, err := o.checkURL(s); err != nil {
			return Remote{}, err
		}
		host, p, _ := strings.Cut(rest, "/")
		if r.Host, r.Path = host, "/"+p; p == "" || strings.ContainsAny(p, "?#") {
			return Remote{}, errors.New("a remote without a path, or with a query or fragment")
		}
		return r, nil
	case "ssh":
		host, p, _ := strings.Cut(rest, "/")
		if user, h, ok := strings.Cut(host, "@"); ok {
			if r.User, host = user, h; user == "" {
				return Remote{}, errors.New("a remote without a name before its @")
			}
		}
		r.Host, r.Path = host, "/"+p
		return r, r.checkSSH()
	case "git":
		return Remote{}, errTransport
	}
	return Remote{}, fmt.Errorf("a remote by %.20q; https and ssh are read", scheme)
}

// parseShort reads user@host:path.
func parseShort(s string) (Remote, error) {
	at, p, ok := strings.Cut(s, ":")
	user, host, isAt := strings.Cut(at, "@")
	if !ok || !isAt || user == "" || strings.HasPrefix(p, ":") {
		return Remote{}, errors.New("a remote that is neither a URL nor user@host:path")
	}
	r := Remote{Scheme: "ssh", User: user, Host: host, Path: p, short: true}
	return r, r.checkSSH()
}

// checkSSH keeps out what a program behind the remote could take for an option.
func (r Remote) checkSSH() error {
	host, port, hasPort := strings.Cut(r.Host, ":")
	switch {
	case strings.Contains(r.User, ":"):
		return fmt.Errorf("%w: a remote names a password", ErrCredential)
	case !isName(r.User) && r.User != "", !isName(host), hasPort && (port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != ""):
		return errors.New("a remote whose user or host is none")
	case strings.Trim(r.Path, "/") == "" || strings.HasPrefix(strings.TrimLeft(r.Path, "/"), "-") || strings.ContainsAny(r.Path, "'\"`$;&|<>(){}[]*?!#%@"):
		return errors.New("a remote whose path is none")
	}
	return nil
}

// isName accepts what users and hosts are called.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '-' && c != '_') {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// String returns what ParseRemote read.
func (r Remote) String() string {
	user := r.User
	if user != "" {
		user += "@"
	}
	if r.short {
		return user + r.Host + ":" + r.Path
	}
	return r.Scheme + "://" + user + r.Host + r.Path
}

// A Ref is a full name such as refs/heads/main, or a commit in 40 lower-case
// hexadecimal digits.
type Ref string

// IsCommit reports whether the ref is a commit.
func (r Ref) IsCommit() bool { return len(r) == 40 && isLowerHex(string(r)) }

// ParseRef accepts both forms of 5.2.1; a name has to be one that git itself
// allows.
func ParseRef(s string) (Ref, error) {
	if r := Ref(s); r.IsCommit() {
		return r, nil
	}
	rest, ok := strings.CutPrefix(s, "refs/")
	if !ok || rest == "" || len(s) > maxRemote {
		return "", fmt.Errorf("ref %.80q: want refs/… or a commit of 40 lower-case digits", s)
	}
	bad := strings.Contains(s, "..") || strings.Contains(s, "@{") || strings.HasSuffix(s, ".") || strings.ContainsAny(s, " ~^:?*[\\\x7f")
	for part := range strings.SplitSeq(s, "/") {
		bad = bad || part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".lock")
	}
	for i := range len(s) {
		bad = bad || s[i] < ' '
	}
	if bad {
		return "", fmt.Errorf("ref %.80q is no name that git allows", s)
	}
	return Ref(s), nil
}

// ParsePath reads the folder of a Git root, which may begin and end with a
// slash. The result is "." or a path that fs.ValidPath accepts.
func ParsePath(s string) (string, error) {
	p := strings.Trim(s, "/")
	if p == "" {
		p = "."
	}
	if len(s) > maxRemote || !fs.ValidPath(p) || strings.ContainsAny(p, "\\\x00") || path.Clean(p) != p {
		return "", fmt.Errorf("path %.80q does not stay inside the repository", s)
	}
	return p, nil
}

// Options are what an operator allows beyond the text. The zero value allows
// nothing.
type Options struct {
	// Allowed are origins, as fetch.Origin prints them, whose URLs may be of
	// plain http. It is the operator's own list, and must never hold what a
	// document said.
	Allowed []string
}

// checkURL accepts an absolute URL that may be fetched from, and returns its
// canonical form. Where an address lies is judged when it is dialled.
func (o Options) checkURL(raw string) (string, error) {
	u, err := content.CanonicalURL(raw)
	if err != nil {
		var rule *content.URLError
		if errors.As(err, &rule) && rule.Rule == content.RuleUserinfo {
			return "", fmt.Errorf("%w: a URL names a user", ErrCredential) // and it is not repeated
		}
		return "", err
	}
	if strings.HasPrefix(u, "http:") {
		host, _, _ := strings.Cut(strings.TrimPrefix(u, "http://"), "/") // u is canonical
		origin := "http://" + host
		for _, a := range o.Allowed {
			if a == origin {
				return u, nil
			}
		}
		return "", fmt.Errorf("%.200q is not https", u)
	}
	return u, nil
}

// checkBase accepts the base of an HTTPS root.
func (o Options) checkBase(base string) error {
	if _, err := o.checkURL(base); err != nil {
		return err
	}
	if u, err := url.Parse(base); err != nil || !strings.HasSuffix(base, "/") || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return fmt.Errorf("base %.200q does not end with a slash, or has a query", base)
	}
	return nil
}
