package identity

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A view is the trust of one moment. It is never changed once it is shown.
type view struct {
	peers       map[envelope.Name]*Peer
	keys        map[envelope.Hash]envelope.KeyRecord
	owners      map[Origin]envelope.Name
	authorities map[Domain]*Authority
	anchors     map[[sha256.Size]byte]Domain // by public key
}

func newView() *view {
	return &view{
		peers:       make(map[envelope.Name]*Peer),
		keys:        make(map[envelope.Hash]envelope.KeyRecord),
		owners:      make(map[Origin]envelope.Name),
		authorities: make(map[Domain]*Authority),
		anchors:     make(map[[sha256.Size]byte]Domain),
	}
}

// A record is what one trust file says: a *Peer or an *Authority.
type record interface {
	// same reports whether the other says the same.
	same(record) bool
	// into adds the record whole, or finds its conflict and adds nothing.
	into(*view) error
}

func (p *Peer) into(v *view) error {
	name := p.Card.Identity
	if _, ok := v.peers[name]; ok {
		return fmt.Errorf("%s stands in two files", name)
	}
	for _, k := range p.Card.Keys {
		if r, ok := v.keys[k.PublicKey.ID()]; ok {
			return fmt.Errorf("public key %s of %s: %w: %s", k.PublicKey.ID(), name, ErrConflict, r.Identity)
		}
	}
	for _, o := range p.Origins {
		if owner, ok := v.owners[o]; ok {
			return fmt.Errorf("origin %s of %s: %w: %s", o, name, ErrConflict, owner)
		}
	}
	v.peers[name] = p
	for _, k := range p.Card.Keys {
		v.keys[k.PublicKey.ID()] = p.Card.record(k)
	}
	for _, o := range p.Origins {
		v.owners[o] = name
	}
	return nil
}

// without is a copy of v that lacks one identity.
func (v *view) without(name envelope.Name) *view {
	c := v.clone()
	delete(c.peers, name)
	maps.DeleteFunc(c.keys, func(_ envelope.Hash, r envelope.KeyRecord) bool { return r.Identity == name })
	maps.DeleteFunc(c.owners, func(_ Origin, n envelope.Name) bool { return n == name })
	return c
}

// withoutAuthority is a copy of v that lacks the authority of one domain.
func (v *view) withoutAuthority(d Domain) *view {
	c := v.clone()
	delete(c.authorities, d)
	maps.DeleteFunc(c.anchors, func(_ [sha256.Size]byte, of Domain) bool { return of == d })
	return c
}

func (v *view) clone() *view {
	return &view{
		peers: maps.Clone(v.peers), keys: maps.Clone(v.keys), owners: maps.Clone(v.owners),
		authorities: maps.Clone(v.authorities), anchors: maps.Clone(v.anchors),
	}
}

// A file is what is known of one trust file.
type file struct {
	info    fs.FileInfo
	settled bool   // info is old enough for a later write to show in it
	parsed  record // what the file says; nil if it is bad
	err     error  // why it is bad
	taken   record // what of it is in the view: parsed, or an earlier good one
}

// settling is how long after its last write a file may be written again
// without its time changing, on any file system we care for.
const settling = 2 * time.Second

// unchanged reports whether info, just taken, shows the file that f was read from.
func (f *file) unchanged(info fs.FileInfo) bool {
	return f.settled && os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime())
}

// refresh reads what changed in the folder and takes it up. A bad file leaves
// in force what was taken of it before, and holds up no other file: above all
// no removal. It returns the refusals if they are others than before.
func (t *Trust) refresh(now time.Time) (news error) {
	files, changed, err := t.scan(now)
	if err == nil {
		t.files = files
		if changed {
			t.view, t.refusals = build(files)
			t.version++
		}
		err = t.refusals
	}
	t.look = now
	t.pause = max(lookEvery, 20*t.now().Sub(now))
	before := t.err
	t.err = err
	if err == nil || (before != nil && before.Error() == err.Error()) {
		return nil
	}
	return err
}

// scan lists the folder, reads the files that are new or may have changed, and
// reports whether any says something else than before. If the folder cannot
// be listed, all is to stay as it was.
func (t *Trust) scan(now time.Time) (files map[string]*file, changed bool, err error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, false, err
	}
	files = make(map[string]*file, len(entries))
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, trustSuffix) && !strings.HasSuffix(name, authoritySuffix) {
			continue
		}
		path, old := filepath.Join(t.dir, name), t.files[name]
		info, err := os.Stat(path) // through a link: what it leads to may be swapped
		if err == nil && old != nil && old.unchanged(info) {
			files[name] = old
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				continue // removed since it was listed
			}
		}
		f := readTrustFile(path, info, err, now)
		if old == nil || !f.follow(old) {
			changed = true
		}
		files[name] = f
	}
	return files, changed || len(files) != len(t.files), nil
}

// readTrustFile reads the file that info, or else statErr, was found for.
func readTrustFile(path string, info fs.FileInfo, statErr error, now time.Time) *file {
	f := &file{info: info, err: statErr}
	if statErr == nil {
		f.settled = now.Sub(info.ModTime()) > settling
		f.parsed, f.err = readRecord(path)
	}
	return f
}

// follow carries over what was taken of the file when it was read before, and
// reports whether the file still says the same.
func (f *file) follow(old *file) (same bool) {
	f.taken = old.taken
	switch {
	case f.err != nil:
		return old.err != nil && old.err.Error() == f.err.Error()
	case old.parsed != nil && f.parsed.same(old.parsed):
		f.parsed = old.parsed
		return true
	}
	return false
}

// readRecord reads a trust file, whose name tells what it holds.
func readRecord(path string) (record, error) {
	if strings.HasSuffix(path, authoritySuffix) {
		a, err := readAuthority(path)
		if err != nil {
			return nil, err
		}
		return a, nil
	}
	p, err := readPeer(path)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func readPeer(path string) (*Peer, error) {
	raw, err := readFile(path, maxTrustFile, 0)
	if err != nil {
		return nil, err
	}
	p, err := decodePeer(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if want := fileName(p.Card.Identity); filepath.Base(path) != want {
		return nil, fmt.Errorf("%s: the file of %s is named %s", path, p.Card.Identity, want)
	}
	return p, nil
}

func (p *Peer) same(r record) bool {
	q, ok := r.(*Peer)
	return ok && p.equal(q)
}

// equal reports whether p and q would be written in the same octets.
func (p *Peer) equal(q *Peer) bool {
	return slices.Equal(p.Card.Object.Raw, q.Card.Object.Raw) && p.Endpoint == q.Endpoint &&
		slices.Equal(p.Origins, q.Origins) && p.AddedAt.Equal(q.AddedAt) &&
		slices.EqualFunc(p.Past, q.Past, func(a, b *Card) bool { return slices.Equal(a.Object.Raw, b.Object.Raw) })
}

// build makes the view of the files and notes in each what was taken of it.
// What stands already comes first, so that a newcomer that conflicts with it
// is the one that is refused.
func build(files map[string]*file) (*view, error) {
	v := newView()
	var problems []error
	var changed []*file
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		if f.err != nil {
			problems = append(problems, f.err)
		}
		if f.parsed != nil && f.parsed != f.taken {
			changed = append(changed, f)
			continue
		}
		f.take(v, f.taken, &problems)
	}
	for _, f := range changed {
		before := f.taken
		if f.take(v, f.parsed, &problems); f.taken == nil {
			f.take(v, before, &problems)
		}
	}
	return v, errors.Join(problems...)
}

// take puts r into v on behalf of f, if it is there and conflicts with nothing.
func (f *file) take(v *view, r record, problems *[]error) {
	f.taken = nil
	if r == nil {
		return
	}
	if err := r.into(v); err != nil {
		*problems = append(*problems, err)
		return
	}
	f.taken = r
}
