package gitroot

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

const (
	maxHaves = 64
	maxWants = 10_000
	forever  = math.MaxInt32 // as a depth: what was cut off comes after
)

var errIncomplete = errors.New("objects of the commit are missing")

// fetch asks the remote for a commit, and for nothing of what is held. If what it
// sends is not whole together with that, one of the two is in error: then all is
// asked for once more, anew.
func (r *Repository) fetch(ctx context.Context, ref rbt.Ref) (Commit, error) {
	grown, err := r.grown()
	if err != nil {
		return Commit{}, err
	}
	if grown {
		if err := r.reset(); err != nil {
			return Commit{}, err
		}
	}
	c, err := r.ask(ctx, ref)
	if !errors.Is(err, errIncomplete) {
		return c, err
	}
	held, err := r.held()
	if err != nil {
		return Commit{}, err
	}
	if err := r.reset(); err != nil {
		return Commit{}, err
	}
	if len(held) > 0 {
		if c, err = r.ask(ctx, ref); !errors.Is(err, errIncomplete) {
			return c, err
		}
	}
	return Commit{}, fmt.Errorf("%w: it sends a commit without all that belongs to it", ErrProtocol)
}

// ask runs one session.
func (r *Repository) ask(ctx context.Context, ref rbt.Ref) (Commit, error) {
	s, err := r.client.connect(ctx, r.remote)
	if err != nil {
		return Commit{}, err
	}
	defer s.close()
	adv, err := s.advertised(ctx)
	if err != nil {
		return Commit{}, err
	}
	wanted, q, err := choose(adv, ref)
	if err != nil {
		return Commit{}, err
	}
	if c, err := r.lookup(wanted); err == nil {
		return c, nil
	}
	if err := r.haves(adv, &q); err != nil {
		return Commit{}, err
	}
	if err := r.transfer(ctx, s, adv.Capabilities, q); err != nil {
		return Commit{}, err
	}
	return r.hold(ctx, wanted)
}

// lookup returns the held commit that an object is, or that it tags.
func (r *Repository) lookup(wanted plumbing.Hash) (Commit, error) {
	r.storageMu.Lock()
	c, err := r.readCommit(wanted)
	r.storageMu.Unlock()
	if err != nil {
		return Commit{}, err
	}
	return r.Commit(c.ID)
}

// commitOf returns the commit that a ref always means, if it does.
func commitOf(ref rbt.Ref) (ID, bool) {
	id, err := ParseID(string(ref))
	return id, err == nil
}

// choose finds the object that a ref names, and what to ask for to get it.
func choose(adv *packp.AdvRefs, ref rbt.Ref) (plumbing.Hash, request, error) {
	shallow := 0
	if adv.Capabilities.Supports(capability.Shallow) {
		shallow = 1
	}
	one := func(h plumbing.Hash) (plumbing.Hash, request, error) {
		return h, request{wants: []plumbing.Hash{h}, depth: shallow}, nil
	}
	id, fixed := commitOf(ref)
	switch {
	case !fixed && ref == Head && adv.Head != nil:
		return one(*adv.Head)
	case !fixed:
		if h, ok := adv.References[string(ref)]; ok {
			return one(h)
		}
		return plumbing.Hash{}, request{}, fmt.Errorf("%w: %.200q", ErrNoRef, ref)
	}
	h := plumbing.Hash(id)
	for _, tip := range adv.References {
		if tip == h {
			return one(h)
		}
	}
	if adv.Capabilities.Supports(capability.AllowReachableSHA1InWant) || adv.Capabilities.Supports("allow-any-sha1-in-want") {
		return one(h)
	}
	// The server hands out tips alone. The commit must be somewhere behind them.
	q := request{}
	for name, tip := range adv.References {
		if strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/") {
			q.wants = append(q.wants, tip)
		}
	}
	if len(q.wants) == 0 || len(q.wants) > maxWants {
		return plumbing.Hash{}, request{}, fmt.Errorf("%w: %.200q, nor can it be looked for behind %d branches and tags", ErrNoRef, ref, len(q.wants))
	}
	return h, q, nil
}

// haves adds to a request what need not be sent again. Unless the new commit is
// known to descend from one that we have, git leaves out what is in that one only
// of a thin pack.
func (r *Repository) haves(adv *packp.AdvRefs, q *request) error {
	held, err := r.held()
	if err != nil {
		return err
	}
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	cut, err := r.storage.Shallow()
	if err != nil {
		return err
	}
	if len(cut) > 0 && !adv.Capabilities.Supports(capability.Shallow) || len(cut) > maxShallow {
		return nil // the server would take our history to be whole
	}
	if err := r.newestFirst(held); err != nil {
		return fmt.Errorf("%w: %w", errIncomplete, err)
	}
	q.haves, q.shallows = held[:min(len(held), maxHaves)], cut
	if q.depth == 0 && len(cut) > 0 {
		q.depth = forever
	}
	return nil
}

// newestFirst sorts commits that are held. The caller holds storageMu.
func (r *Repository) newestFirst(held []plumbing.Hash) error {
	times := make(map[plumbing.Hash]time.Time)
	for _, h := range held {
		c, err := r.readCommit(h)
		if err != nil {
			return err
		}
		times[h] = c.Time
	}
	slices.SortStableFunc(held, func(a, b plumbing.Hash) int { return times[b].Compare(times[a]) })
	return nil
}

// transfer asks for a pack and puts it in place, and then what it says of where
// the history is cut off.
func (r *Repository) transfer(ctx context.Context, s session, server *capability.List, q request) error {
	message, channel, err := q.encode(server)
	if err != nil {
		return err
	}
	body, err := s.ask(ctx, message)
	if err != nil {
		return err
	}
	defer body.Close()
	a, err := readAnswer(body, q.depth > 0, channel)
	if err != nil {
		return err
	}
	if err := receive(ctx, filepath.Join(r.dir, "objects", "pack"), a.pack, r.limits, r.complete); err != nil {
		return err
	}
	if err := r.reopen(); err != nil {
		return err
	}
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	cut, err := r.storage.Shallow()
	if err != nil {
		return err
	}
	for _, h := range a.shallow {
		if !slices.Contains(cut, h) {
			cut = append(cut, h)
		}
	}
	cut = slices.DeleteFunc(cut, func(h plumbing.Hash) bool { return slices.Contains(a.unshallow, h) })
	return r.storage.SetShallow(cut)
}

// hold checks that all of a commit is there, and only then counts it as held.
func (r *Repository) hold(ctx context.Context, wanted plumbing.Hash) (Commit, error) {
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	c, err := r.readCommit(wanted)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return Commit{}, fmt.Errorf("%w: %s is not behind its branches and tags", ErrNoRef, wanted)
	} else if err != nil {
		return Commit{}, err
	}
	if err := r.whole(ctx, c.tree, make(map[plumbing.Hash]bool), 0); err != nil {
		return Commit{}, err
	}
	// The packs are durable by now; the name that makes them count comes last.
	if err := r.storage.SetReference(plumbing.NewHashReference(heldName(plumbing.Hash(c.ID)), plumbing.Hash(c.ID))); err != nil {
		return Commit{}, err
	}
	return c, nil
}

// whole checks that a tree and all below it are there. The caller holds storageMu.
func (r *Repository) whole(ctx context.Context, tree plumbing.Hash, seen map[plumbing.Hash]bool, depth int) error {
	switch {
	case seen[tree]:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case depth > r.limits.Depth:
		return fmt.Errorf("%w: folders more than %d deep", ErrTooLarge, r.limits.Depth)
	}
	seen[tree] = true
	entries, err := r.readTree(tree)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return fmt.Errorf("%w: tree %s", errIncomplete, tree)
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		if len(seen) > r.limits.Files {
			return fmt.Errorf("%w: more than %d files and folders", ErrTooLarge, r.limits.Files)
		}
		switch kindOf(e) {
		case Folder:
			err = r.whole(ctx, e.Hash, seen, depth+1)
		case Submodule:
		default:
			if seen[e.Hash] {
				continue
			}
			seen[e.Hash] = true
			if r.storage.HasEncodedObject(e.Hash) != nil {
				err = fmt.Errorf("%w: %s", errIncomplete, e.Hash)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readTree reads the entries of one folder. The caller holds storageMu and
// changes nothing of what it gets.
func (r *Repository) readTree(h plumbing.Hash) ([]object.TreeEntry, error) {
	if entries, ok := r.trees.entries[h]; ok {
		return entries, nil
	}
	o, err := r.object(plumbing.TreeObject, h, maxTree)
	if err != nil {
		return nil, err
	}
	tree, err := object.DecodeTree(r.storage, o)
	if err != nil {
		return nil, fmt.Errorf("%w: tree %s: %w", ErrProtocol, h, err)
	}
	if err := checkTree(tree.Entries); err != nil {
		return nil, fmt.Errorf("%w: tree %s: %w", ErrProtocol, h, err)
	}
	r.trees.add(h, tree.Entries)
	return tree.Entries, nil
}
