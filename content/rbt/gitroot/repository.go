package gitroot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

const (
	maxPacks     = 256      // in a state folder; then it is begun anew
	cachedOctets = 32 << 20 // of objects, in memory
	maxCommit    = 1 << 20  // octets of a commit or tag
	maxTree      = 64 << 20 // octets of a tree
	maxTags      = 8        // tags of tags
	heldPrefix   = "refs/held/"
)

// A Repository is one remote's state on disk, or a repository of this machine.
// It may be used by several goroutines; Fetch keeps the others waiting only
// while it puts a pack in place.
type Repository struct {
	client *Client // nil for a local one
	remote rbt.Remote
	dir    string // of the state, or of the local repository
	limits Limits

	fetchMu sync.Mutex // one Fetch at a time

	storageMu sync.Mutex
	storage   *filesystem.Storage
	trees     treeCache
}

// A Commit is what is known of a commit. What it says of author and time is the
// committer's own claim.
type Commit struct {
	ID      ID
	Author  string // name <address>
	Time    time.Time
	Subject string // the first line of its message, at most 200 octets

	tree plumbing.Hash
}

// Open opens the state of a remote in a folder of its own, and makes it if it is
// not there. It asks the remote nothing yet.
func (c *Client) Open(dir string, remote rbt.Remote) (*Repository, error) {
	switch {
	case remote.Scheme == "":
		return nil, errors.New("no remote")
	case remote.Scheme == "http" && !c.allowed[Origin(remote)]:
		return nil, fmt.Errorf("remote %s: plain http is for allowed origins alone; use https or ssh", remote)
	}
	r := &Repository{client: c, remote: remote, dir: dir, limits: c.limits}
	if err := r.initialise(); err != nil {
		return nil, fmt.Errorf("state of %s: %w", remote, err)
	}
	return r, nil
}

// OpenLocal opens a repository of this machine, bare or with a work tree, to
// read it where it lies. The path is the operator's, never a manifest's.
func OpenLocal(dir string, l Limits) (*Repository, error) {
	if err := l.complete(); err != nil {
		return nil, err
	}
	r := &Repository{dir: dir, limits: l}
	if err := r.reopen(); err != nil {
		return nil, fmt.Errorf("repository %s: %w", dir, err)
	}
	return r, nil
}

// Close gives back what the repository holds of the machine.
func (r *Repository) Close() error {
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	return r.storage.Close()
}

// initialise makes what is missing of the state, and removes what an earlier
// process did not finish.
func (r *Repository) initialise() error {
	packs := filepath.Join(r.dir, "objects", "pack")
	if err := os.MkdirAll(packs, 0o700); err != nil {
		return err
	}
	unfinished, err := filepath.Glob(filepath.Join(packs, temporary+"*"))
	if err != nil {
		return err
	}
	for _, name := range unfinished {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return r.reopen()
}

// reopen takes note of packs that are new. The caller holds no lock.
func (r *Repository) reopen() error {
	fs := osfs.New(r.dir)
	if r.client == nil {
		local, err := git.PlainOpenWithOptions(r.dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
		if err != nil {
			return err
		}
		opened, ok := local.Storer.(*filesystem.Storage)
		if !ok {
			return errors.New("no repository on disk")
		}
		fs = opened.Filesystem()
	}
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	if r.storage != nil {
		r.storage.Close()
	}
	r.storage = filesystem.NewStorageWithOptions(fs, cache.NewObjectLRU(cachedOctets), filesystem.Options{MaxOpenDescriptors: 16})
	r.trees = treeCache{}
	return nil
}

// reset begins the state anew.
func (r *Repository) reset() error {
	r.storageMu.Lock()
	r.storage.Close()
	r.storageMu.Unlock()
	for _, name := range []string{"refs", "shallow", "objects"} { // what stands for commits before what they are made of
		if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	return r.initialise()
}

// grown reports whether the state is to be begun anew.
func (r *Repository) grown() (bool, error) {
	names, err := os.ReadDir(filepath.Join(r.dir, "objects", "pack"))
	if err != nil {
		return false, err
	}
	var octets int64
	packs := 0
	for _, name := range names {
		info, err := name.Info()
		if err != nil {
			return false, err
		}
		octets += info.Size()
		if strings.HasSuffix(name.Name(), ".pack") {
			packs++
		}
	}
	return packs >= maxPacks || octets > r.limits.State, nil
}

// Commit returns a commit that is held: all of its tree is there.
func (r *Repository) Commit(id ID) (Commit, error) {
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	if r.client != nil {
		if _, err := r.storage.Reference(heldName(plumbing.Hash(id))); err != nil {
			return Commit{}, fmt.Errorf("commit %s: %w", id, ErrNoCommit)
		}
	}
	c, err := r.readCommit(plumbing.Hash(id))
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return Commit{}, fmt.Errorf("commit %s: %w", id, ErrNoCommit)
	}
	return c, err
}

func heldName(h plumbing.Hash) plumbing.ReferenceName {
	return plumbing.ReferenceName(heldPrefix + h.String())
}

// held are the commits that the state holds in whole.
func (r *Repository) held() (all []plumbing.Hash, err error) {
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	refs, err := r.storage.IterReferences()
	if err != nil {
		return nil, err
	}
	err = refs.ForEach(func(ref *plumbing.Reference) error {
		if strings.HasPrefix(ref.Name().String(), heldPrefix) {
			all = append(all, ref.Hash())
		}
		return nil
	})
	return all, err
}

// readCommit reads a commit, or that which a tag names. The caller holds storageMu.
func (r *Repository) readCommit(h plumbing.Hash) (Commit, error) {
	for range maxTags {
		o, err := r.object(plumbing.AnyObject, h, maxCommit)
		if err != nil {
			return Commit{}, err
		}
		switch o.Type() {
		case plumbing.CommitObject:
			c, err := object.DecodeCommit(r.storage, o)
			if err != nil {
				return Commit{}, fmt.Errorf("commit %s: %w", h, err)
			}
			subject, _, _ := strings.Cut(c.Message, "\n")
			return Commit{
				ID: ID(h), tree: c.TreeHash, Time: c.Committer.When.UTC(),
				Author: cutText(c.Author.Name + " <" + c.Author.Email + ">"), Subject: cutText(subject),
			}, nil
		case plumbing.TagObject:
			tag, err := object.DecodeTag(r.storage, o)
			if err != nil {
				return Commit{}, fmt.Errorf("tag %s: %w", h, err)
			}
			h = tag.Target
		default:
			return Commit{}, fmt.Errorf("%w: %s is a %s, and no commit", ErrNoRef, h, o.Type())
		}
	}
	return Commit{}, fmt.Errorf("%w: more than %d tags of tags", ErrNoRef, maxTags)
}

func cutText(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }

// object reads an object that must fit into memory. The caller holds storageMu.
func (r *Repository) object(t plumbing.ObjectType, h plumbing.Hash, limit int64) (plumbing.EncodedObject, error) {
	size, err := r.storage.EncodedObjectSize(h)
	if err != nil && (r.client != nil || !errors.Is(err, plumbing.ErrObjectNotFound)) {
		return nil, err // a local one may lie in another repository, that this one borrows from
	}
	if size > limit {
		return nil, fmt.Errorf("%w: object %s of %d octets, at most %d", ErrTooLarge, h, size, limit)
	}
	o, err := r.storage.EncodedObject(t, h)
	if err == nil && o.Size() > limit {
		return nil, fmt.Errorf("%w: object %s of %d octets, at most %d", ErrTooLarge, h, o.Size(), limit)
	}
	return o, err
}

// fetchLocal looks up what a ref of a local repository names.
func (r *Repository) fetchLocal(ref rbt.Ref) (Commit, error) {
	if err := r.reopen(); err != nil {
		return Commit{}, err
	}
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	id, fixed := commitOf(ref)
	h := plumbing.Hash(id)
	if !fixed {
		found, err := storer.ResolveReference(r.storage, plumbing.ReferenceName(cmp.Or(ref, "HEAD")))
		if errors.Is(err, plumbing.ErrReferenceNotFound) {
			return Commit{}, fmt.Errorf("%w: %.200q", ErrNoRef, ref)
		} else if err != nil {
			return Commit{}, err
		}
		h = found.Hash()
	}
	c, err := r.readCommit(h)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return Commit{}, fmt.Errorf("%w: %.200q", ErrNoRef, ref)
	}
	return c, err
}

// Fetch brings what a ref names now into the state, and returns its commit. Only
// what is not held already is transferred, and no history where the server lets
// us leave it out. A commit that is held costs no request. Errors that a caller
// may tell apart are ErrNoRef, ErrAuth, ErrHostKey, ErrTooLarge, ErrProtocol,
// fetch.ErrForbiddenAddress, *fetch.StatusError and context.DeadlineExceeded;
// whatever it is, what was held before still is.
func (r *Repository) Fetch(ctx context.Context, ref rbt.Ref) (Commit, error) {
	r.fetchMu.Lock()
	defer r.fetchMu.Unlock()
	if r.client == nil {
		c, err := r.fetchLocal(ref)
		if err != nil {
			return Commit{}, fmt.Errorf("repository %s: %w", r.dir, err)
		}
		return c, nil
	}
	if id, ok := commitOf(ref); ok {
		if c, err := r.Commit(id); err == nil {
			return c, nil
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.Time, fmt.Errorf("not done within %v: %w", r.limits.Time, context.DeadlineExceeded))
	defer cancel()
	c, err := r.fetch(ctx, ref)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Commit{}, fmt.Errorf("git fetch %.200q from %s: %w", ref, r.remote, err)
	}
	return c, nil
}

// Status returns the HTTP status that an error of Fetch stands for; 0 if none.
func Status(err error) int {
	var status *fetch.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	if errors.Is(err, ErrNoRef) {
		return http.StatusNotFound
	}
	return 0
}
