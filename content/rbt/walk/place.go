package walk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/gitroot"
)

// A place is a root that things can be read from. It is opened when something
// is first read.
type place interface {
	// read returns the octets of a path below the root, at most limit.
	read(ctx context.Context, target rbt.Target, limit int64) ([]byte, error)
	// document reads a manifest or page, which may be kept between two walks.
	document(ctx context.Context, target rbt.Target) ([]byte, error)
	// url is where a path is on the web; "" if the root is not there.
	url(target rbt.Target) string
	// kind is git or https, as reports have it.
	kind() string
	root() rbt.Root
}

// A webPlace is an HTTPS root.
type webPlace struct {
	base  string
	walk  *Walk
	cache *cache
}

func (p *webPlace) read(ctx context.Context, target rbt.Target, limit int64) ([]byte, error) {
	r, err := p.walk.web.get(ctx, p.url(target), fetch.Conditions{}, limit)
	if err != nil {
		return nil, err
	}
	return r.data, nil
}

func (p *webPlace) document(ctx context.Context, target rbt.Target) ([]byte, error) {
	return p.cache.document(ctx, &p.walk.web, p.url(target))
}

func (p *webPlace) url(target rbt.Target) string { return rbt.URLOf(p.base, target) }
func (p *webPlace) kind() string                 { return "https" }
func (p *webPlace) root() rbt.Root               { return rbt.Root{HTTPS: &rbt.HTTPSRoot{Base: p.base}} }

// A gitPlace is a Git root. All that it reads is of one commit.
type gitPlace struct {
	git   *rbt.GitRoot // nil for a local one
	local *Local
	walk  *Walk

	tree *gitroot.Tree // once it has been fetched
	err  error         // why it could not be; it is not tried again in this walk
}

func (p *gitPlace) open(ctx context.Context) (*gitroot.Tree, error) {
	if p.tree == nil && p.err == nil {
		p.tree, p.err = p.fetch(ctx)
	}
	return p.tree, p.err
}

// fetch brings the commit here. What fails below git is tried again.
func (p *gitPlace) fetch(ctx context.Context) (*gitroot.Tree, error) {
	repo, ref, path, err := p.repository()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		commit, err := repo.Fetch(ctx, ref)
		if err == nil {
			return repo.Tree(commit.ID, path)
		}
		if attempt == tries || ctx.Err() != nil || !passing(err) {
			return nil, err
		}
		if err := p.walk.config.Sleep(ctx, firstPause<<(attempt-1)); err != nil {
			return nil, err
		}
	}
}

func (p *gitPlace) repository() (repo *gitroot.Repository, ref rbt.Ref, path string, err error) {
	w := p.walk
	if p.local != nil {
		repo, err = w.repository(p.local.Dir, func() (*gitroot.Repository, error) { return gitroot.OpenLocal(p.local.Dir, gitroot.Limits{}) })
		return repo, p.local.Ref, cmp.Or(p.local.Path, "."), err
	}
	if w.config.Git == nil || w.config.State == "" {
		return nil, "", "", errNoGit
	}
	if !w.web.isOurs("https://" + p.git.Remote.Host) {
		return nil, "", "", fmt.Errorf("%w: %s", errHost, p.git.Remote)
	}
	name := sha256.Sum256([]byte(p.git.Remote.String()))
	repo, err = w.repository(p.git.Remote.String(), func() (*gitroot.Repository, error) {
		return w.config.Git.Open(filepath.Join(w.config.State, "git", hex.EncodeToString(name[:8])), p.git.Remote)
	})
	return repo, p.git.Ref, p.git.Path, err
}

// repository opens each repository once.
func (w *Walk) repository(name string, open func() (*gitroot.Repository, error)) (*gitroot.Repository, error) {
	if repo := w.repositories[name]; repo != nil {
		return repo, nil
	}
	repo, err := open()
	if err == nil {
		w.repositories[name] = repo
	}
	return repo, err
}

func (p *gitPlace) read(ctx context.Context, target rbt.Target, limit int64) ([]byte, error) {
	tree, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	data, _, err := tree.Read(target.Path, limit)
	return data, err
}

func (p *gitPlace) document(ctx context.Context, target rbt.Target) ([]byte, error) {
	return p.read(ctx, target, rbt.MaxManifest)
}

func (p *gitPlace) url(rbt.Target) string { return "" }
func (p *gitPlace) kind() string          { return "git" }
func (p *gitPlace) root() rbt.Root        { return rbt.Root{Git: p.git} }
