package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/gitroot"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/pages"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/walk"
	"github.com/uzpif-oi/uzpif-oi/content/site"
)

// Git is what counts for a source of kind rbt whose burrow is in a repository.
type Git struct {
	// Ref is refs/heads/…, refs/tags/… or a commit in 40 digits; empty is the
	// repository's HEAD. Path is the burrow's folder in it; empty is its root.
	Ref  string `yaml:"ref,omitempty" json:"ref,omitempty"`
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// SSHKeyFile is a private key, readable by its owner only; if it is encrypted,
	// SSHPassphraseFile holds its passphrase, and is as private. KnownHostsFile
	// names the servers that may be talked to, as ssh has it.
	SSHKeyFile        string `yaml:"ssh_key_file,omitempty" json:"ssh_key_file,omitempty"`
	SSHPassphraseFile string `yaml:"ssh_passphrase_file,omitempty" json:"ssh_passphrase_file,omitempty"`
	KnownHostsFile    string `yaml:"known_hosts_file,omitempty" json:"known_hosts_file,omitempty"`
	// Prefer is which of a burrow's roots are asked first: git, https, or listed
	// for their own order; empty is git.
	Prefer string `yaml:"prefer,omitempty" json:"prefer,omitempty"`
	// OnlyHosts, if there are any, are the hosts that may be asked, and NoHosts
	// those that are not, each with all names below it.
	OnlyHosts []string `yaml:"only_hosts,omitempty" json:"only_hosts,omitempty"`
	NoHosts   []string `yaml:"no_hosts,omitempty" json:"no_hosts,omitempty"`
}

// rootOrders are what Prefer may say.
var rootOrders = map[string]walk.Preference{"": walk.GitFirst, "git": walk.GitFirst, "https": walk.HTTPSFirst, "listed": walk.AsListed}

// isGit reports whether the location is a Git repository on a server: it says
// so by ssh, by its name, or by a ref that is asked for.
func (s Source) isGit() bool {
	if s.Kind != "rbt" {
		return false
	}
	r, err := rbt.ParseRemote(s.Location, s.burrowOptions())
	return err == nil && (r.Scheme == "ssh" || strings.HasSuffix(r.Path, ".git") || s.Ref != "")
}

// burrowOptions allow plain http on the origins that the operator named, and on
// this machine where the location is.
func (s Source) burrowOptions() rbt.Options {
	o := rbt.Options{Allowed: s.AllowOrigins}
	if own, err := fetch.Origin(s.Location); err == nil && (isThisMachine(own) || strings.HasPrefix(own, "http:")) {
		o.Allowed = append([]string{own}, o.Allowed...)
	}
	return o
}

func (g *Git) check(s Source) error {
	hosts := g.Prefer != "" || len(g.OnlyHosts) > 0 || len(g.NoHosts) > 0
	ssh := g.SSHKeyFile != "" || g.SSHPassphraseFile != "" || g.KnownHostsFile != ""
	said := g.Ref != "" || g.Path != "" || ssh || hosts
	_, known := rootOrders[g.Prefer]
	switch {
	case said && s.Kind != "rbt":
		return errors.New("ref, path, SSH key, known hosts, preference and hosts concern kind rbt alone")
	case hosts && !s.isRemote():
		return errors.New("a preference and hosts concern a location that is on a server, and this one is not")
	case !known:
		return fmt.Errorf("preference %.40q: want git, https or listed", g.Prefer)
	case g.SSHPassphraseFile != "" && g.SSHKeyFile == "":
		return errors.New("a passphrase opens an SSH key, and none is named")
	case !s.isGit() && ssh:
		return errors.New("an SSH key and known hosts concern a repository on a server, and the location is none")
	case g.Path != "" && s.isRemote() && !s.isGit():
		return errors.New("a path is one in a repository; name the folder by its URL")
	}
	return nil
}

// start says where the walk begins.
func (s Source) start(dir string) (walk.Start, error) {
	ref := gitroot.Head
	if s.Ref != "" {
		var err error
		if ref, err = rbt.ParseRef(s.Ref); err != nil {
			return walk.Start{}, err
		}
	}
	path, err := rbt.ParsePath(s.Git.Path)
	switch {
	case err != nil:
		return walk.Start{}, err
	case s.isGit():
		remote, err := rbt.ParseRemote(s.Location, s.burrowOptions())
		return walk.Start{Roots: []rbt.Root{{Git: &rbt.GitRoot{Remote: remote, Ref: ref, Path: path}}}}, err
	case s.isRemote():
		return walk.Start{URL: s.Location}, nil
	}
	return walk.Start{Local: &walk.Local{Dir: s.path(dir), Ref: ref, Path: path}}, nil
}

// An rbtReader is a source of kind rbt with the clients that are its own.
type rbtReader struct {
	*pages.Source
	client *fetch.Client
	git    *gitroot.Client
}

// Close ends idle connections.
func (r *rbtReader) Close() error {
	if r.client != nil {
		r.client.Close()
		r.git.Close()
	}
	return nil
}

func (s Source) rbt(dir, mirror string) (reader, error) {
	start, err := s.start(dir)
	if err != nil {
		return nil, err
	}
	c := pages.Config{Dir: mirror, Site: *s.site("").(*site.Site), Walk: s.walk(start)}
	r := new(rbtReader)
	if s.isRemote() {
		f, err := s.clientConfig(dir)
		if err != nil {
			return nil, err
		}
		if r.client, err = fetch.New(walk.Polite(f)); err != nil {
			return nil, err
		}
		if r.git, err = gitroot.New(s.gitConfig(dir, f)); err != nil {
			return nil, err
		}
		c.Walk.Client, c.Walk.Git = r.client, r.git
	}
	r.Source, err = pages.New(c)
	return r, err
}

// walk is how the burrow is gone through.
func (s Source) walk(start walk.Start) walk.Config {
	return walk.Config{
		Start: start, Options: s.burrowOptions(), Product: product, IgnoreRobots: s.IgnoreRobots, Now: time.Now,
		Prefer: rootOrders[s.Prefer], OnlyHosts: s.OnlyHosts, NoHosts: s.NoHosts,
	}
}

func (s Source) gitConfig(dir string, f fetch.Config) gitroot.Config {
	c := gitroot.Config{Fetch: f, SSH: gitroot.SSH{KeyFile: below(dir, s.SSHKeyFile), PassphraseFile: below(dir, s.SSHPassphraseFile), KnownHosts: below(dir, s.KnownHostsFile)}}
	for _, o := range s.AllowOrigins {
		if strings.HasPrefix(o, "ssh://") {
			c.SSH.Allowed = append(c.SSH.Allowed, o)
		}
	}
	if r, err := rbt.ParseRemote(s.Location, s.burrowOptions()); err == nil && r.Scheme == "ssh" {
		if origin := gitroot.Origin(r); isThisMachine(origin) {
			c.SSH.Allowed = append(c.SSH.Allowed, origin)
		}
	}
	return c
}

// below is a file that is named relative to the publisher's folder.
func below(dir, file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// gitFolder is where a repository of this machine keeps its refs; "" for a
// folder that is no repository.
func gitFolder(path string) string {
	for _, dir := range []string{filepath.Join(path, ".git"), path} {
		if _, err := os.Stat(filepath.Join(dir, "HEAD")); !errors.Is(err, fs.ErrNotExist) {
			return dir
		}
	}
	return ""
}

// watched are the folders of a local source that tell of changes: those that
// are watched with all below them, and those that are watched alone. Of a
// repository it is the refs: what is not committed does not count.
func (s Source) watched(dir string) (deep, alone []string) {
	folder := s.folder(dir)
	switch git := gitFolder(folder); {
	case folder == "":
		return nil, nil
	case s.Kind == "rbt" && git != "":
		return []string{filepath.Join(git, "refs")}, []string{git}
	}
	return []string{folder}, nil
}

// Absolute makes the location of a source on this machine absolute.
func (s *Source) Absolute() error {
	if s.isRemote() || strings.Contains(s.Location, "://") {
		return nil
	}
	location, err := filepath.Abs(s.Location)
	if err != nil {
		return fmt.Errorf("location: %w", err)
	}
	s.Location = location
	return nil
}
