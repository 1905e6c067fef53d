package gitroot

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"
	"go.uber.org/goleak"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An origin is a repository in memory, and a server of it. Its fields say how
// the server behaves; they are set before it is asked.
type origin struct {
	t     *testing.T
	store *memory.Storage
	refs  map[string]plumbing.Hash

	abilities []capability.Capability
	spoil     func(pack []byte) []byte // what is sent in place of a pack
	leaveOut  map[plumbing.Hash]bool   // objects that are in no pack

	seenMu sync.Mutex
	seen   []packp.UploadPackRequest
	sent   int // objects of the last pack
}

func newOrigin(t *testing.T) *origin {
	return &origin{
		t: t, store: memory.NewStorage(), refs: make(map[string]plumbing.Hash),
		abilities: []capability.Capability{capability.Shallow, capability.OFSDelta, capability.Sideband64k, capability.NoProgress},
	}
}

func put(t *testing.T, s storer.EncodedObjectStorer, kind plumbing.ObjectType, content []byte) plumbing.Hash {
	t.Helper()
	o := s.NewEncodedObject()
	o.SetType(kind)
	w, err := o.Writer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	h, err := s.SetEncodedObject(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// tree stores a folder as its entries stand, whatever they are.
func tree(t *testing.T, s storer.EncodedObjectStorer, entries ...object.TreeEntry) plumbing.Hash {
	t.Helper()
	var b bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&b, "%o %s\x00%s", uint32(e.Mode), e.Name, e.Hash[:])
	}
	return put(t, s, plumbing.TreeObject, b.Bytes())
}

// files stores a folder of files. A content that begins with "-> " makes a
// symlink, "submodule" a submodule.
func files(t *testing.T, s storer.EncodedObjectStorer, all map[string]string) plumbing.Hash {
	t.Helper()
	var entries []object.TreeEntry
	folders := make(map[string]map[string]string)
	for name, content := range all {
		if folder, rest, ok := strings.Cut(name, "/"); ok {
			if folders[folder] == nil {
				folders[folder] = make(map[string]string)
			}
			folders[folder][rest] = content
			continue
		}
		e := object.TreeEntry{Name: name, Mode: filemode.Regular}
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			e.Mode, content = filemode.Symlink, target
		}
		if content == "submodule" {
			e.Mode, e.Hash = filemode.Submodule, plumbing.NewHash(strings.Repeat("ab", 20))
		} else {
			e.Hash = put(t, s, plumbing.BlobObject, []byte(content))
		}
		entries = append(entries, e)
	}
	for name, below := range folders {
		entries = append(entries, object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: files(t, s, below)})
	}
	slices.SortFunc(entries, func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return tree(t, s, entries...)
}

// commitTree stores a commit of a tree.
func commitTree(t *testing.T, s storer.EncodedObjectStorer, root plumbing.Hash, subject string, parents ...plumbing.Hash) plumbing.Hash {
	t.Helper()
	who := "A. Writer <writer@example.org> 1700000000 +0100"
	text := "tree " + root.String() + "\n"
	for _, p := range parents {
		text += "parent " + p.String() + "\n"
	}
	text += "author " + who + "\ncommitter " + who + "\n\n" + subject + "\n"
	return put(t, s, plumbing.CommitObject, []byte(text))
}

// commit stores files as the newest commit of refs/heads/main.
func (o *origin) commit(all map[string]string) ID {
	o.t.Helper()
	var parents []plumbing.Hash
	if p, ok := o.refs["refs/heads/main"]; ok {
		parents = append(parents, p)
	}
	h := commitTree(o.t, o.store, files(o.t, o.store, all), "Change the files", parents...)
	o.refs["refs/heads/main"] = h
	return ID(h)
}

// advertise writes the refs.
func (o *origin) advertise(w io.Writer, prefix bool) error {
	adv := packp.NewAdvRefs()
	if prefix {
		adv.Prefix = [][]byte{[]byte("# service=git-upload-pack"), pktline.Flush}
	}
	for name, h := range o.refs {
		adv.References[name] = h
	}
	if main, ok := o.refs["refs/heads/main"]; ok {
		adv.Head = &main
	}
	for _, a := range o.abilities {
		if err := adv.Capabilities.Set(a); err != nil {
			return err
		}
	}
	return adv.Encode(w)
}

// answer reads a request and writes what a server would. Its commits have no
// history that it would not leave out.
func (o *origin) answer(r io.Reader, w io.Writer) error {
	q := packp.NewUploadPackRequest()
	if err := q.UploadRequest.Decode(r); err != nil {
		return err
	}
	lines := pktline.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(string(lines.Bytes()))
		if id, ok := strings.CutPrefix(line, "have "); ok {
			q.Haves = append(q.Haves, plumbing.NewHash(id))
		}
		if line == "done" {
			break
		}
	}
	o.seenMu.Lock()
	o.seen = append(o.seen, *q)
	o.seenMu.Unlock()
	e := pktline.NewEncoder(w)
	if !q.Depth.IsZero() {
		for _, h := range q.Wants {
			if err := e.Encodef("shallow %s\n", h); err != nil {
				return err
			}
		}
		if err := e.Flush(); err != nil {
			return err
		}
	}
	line, have := "NAK\n", make(map[plumbing.Hash]bool)
	for _, h := range q.Haves {
		if o.store.HasEncodedObject(h) == nil {
			line = fmt.Sprintf("ACK %s\n", h)
			o.reach(h, have, true)
		}
	}
	if err := e.EncodeString(line); err != nil {
		return err
	}
	need := make(map[plumbing.Hash]bool)
	for _, h := range q.Wants {
		o.reach(h, need, q.Depth.IsZero())
	}
	maps.DeleteFunc(need, func(h plumbing.Hash, _ bool) bool { return have[h] || o.leaveOut[h] })
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, o.store, false).Encode(slices.Collect(maps.Keys(need)), 10); err != nil {
		return err
	}
	o.seenMu.Lock()
	o.sent = len(need)
	o.seenMu.Unlock()
	data := pack.Bytes()
	if o.spoil != nil {
		data = o.spoil(data)
	}
	if q.Capabilities.Supports(capability.Sideband64k) {
		m := sideband.NewMuxer(sideband.Sideband64k, w)
		if _, err := m.WriteChannel(sideband.ProgressMessage, []byte("Counting\n")); err != nil {
			return err
		}
		for part := range slices.Chunk(data, 32<<10) {
			if _, err := m.Write(part); err != nil {
				return err
			}
		}
		return e.Flush()
	}
	_, err := w.Write(data)
	return err
}

// reach adds what belongs to an object, with or without the history.
func (o *origin) reach(h plumbing.Hash, all map[plumbing.Hash]bool, history bool) {
	found, err := o.store.EncodedObject(plumbing.AnyObject, h)
	if err != nil || all[h] {
		return
	}
	all[h] = true
	switch found.Type() {
	case plumbing.CommitObject:
		c, err := object.DecodeCommit(o.store, found)
		if err != nil {
			return
		}
		o.reach(c.TreeHash, all, history)
		for _, p := range c.ParentHashes {
			if history {
				o.reach(p, all, history)
			}
		}
	case plumbing.TagObject:
		tag, err := object.DecodeTag(o.store, found)
		if err == nil {
			o.reach(tag.Target, all, history)
		}
	case plumbing.TreeObject:
		d, err := object.DecodeTree(o.store, found)
		if err != nil {
			return
		}
		for _, e := range d.Entries {
			o.reach(e.Hash, all, history)
		}
	}
}

// requests are how often a pack was asked for.
func (o *origin) requests() []packp.UploadPackRequest {
	o.seenMu.Lock()
	defer o.seenMu.Unlock()
	return slices.Clone(o.seen)
}

// ServeHTTP is the smart protocol below /repo.git.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/repo.git/info/refs":
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		if err := o.advertise(w, true); err != nil {
			o.t.Error(err)
		}
	case "/repo.git/git-upload-pack":
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		if err := o.answer(r.Body, w); err != nil && r.Context().Err() == nil {
			o.t.Log(err) // a client that has seen enough hangs up
		}
	default:
		http.NotFound(w, r)
	}
}

// serve starts a server by https, and a client that is allowed to ask it.
func serve(t *testing.T, h http.Handler, l Limits) (rbt.Remote, *Client) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	pool := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c, err := New(Config{
		Fetch:  fetch.Config{UserAgent: "test", Allowed: []string{server.URL}, RootCAs: pool, Rate: 1000, Retries: -1},
		Limits: l,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Cleanup(server.CloseClientConnections)
	return remote(t, server.URL+"/repo.git"), c
}

func remote(t *testing.T, s string) rbt.Remote {
	t.Helper()
	r, err := rbt.ParseRemote(s, rbt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens a new state.
func open(t *testing.T, c *Client, r rbt.Remote) *Repository {
	t.Helper()
	repo, err := c.Open(t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

// mustFetch fetches a ref and returns its tree.
func mustFetch(t *testing.T, repo *Repository, ref rbt.Ref) *Tree {
	t.Helper()
	c, err := repo.Fetch(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	all, err := repo.Tree(c.ID, ".")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const main = rbt.Ref("refs/heads/main")

// contents are all files of a tree, as files takes them.
func contents(t *testing.T, all *Tree) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for f, err := range all.Files(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind != Regular {
			got[f.Path] = f.Kind.String()
			continue
		}
		data, _, err := all.Read(f.Path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(data)) != f.Size {
			t.Errorf("%s has %d octets and claims %d", f.Path, len(data), f.Size)
		}
		got[f.Path] = string(data)
	}
	return got
}

// manyCommits gives an origin a history.
func manyCommits(o *origin, n int) (all []ID) {
	for i := range n {
		all = append(all, o.commit(map[string]string{"a.md": fmt.Sprint("revision ", i, strings.Repeat(" word", 200)), "docs/b.md": "B"}))
	}
	return all
}
