package gitroot

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// A packObject is one object of a pack that is made by hand.
type packObject struct {
	kind    plumbing.ObjectType
	claims  int64 // size; negative: the true one
	content []byte
	base    int64 // of an OFS delta: how far back; that of a REF delta is named by the first 20 octets of content
}

// handmade writes a pack as it is told to.
func handmade(count int, objects ...packObject) []byte {
	b := []byte("PACK\x00\x00\x00\x02")
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	var before int64
	for _, o := range objects {
		at, content, named := int64(len(b)), o.content, []byte(nil)
		if o.kind == plumbing.REFDeltaObject {
			named, content = content[:20], content[20:]
		}
		size := o.claims
		if size < 0 {
			size = int64(len(content))
		}
		first := byte(o.kind)<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			b = append(b, first|0x80)
			first = byte(size & 0x7f)
		}
		b = append(append(b, first), named...)
		if o.kind == plumbing.OFSDeltaObject {
			back := at - before
			if o.base != 0 {
				back = o.base
			}
			b = append(b, offsetOf(back)...)
		}
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		w.Write(content)
		w.Close()
		b = append(b, z.Bytes()...)
		before = at
	}
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

// offsetOf writes how far back the base of a delta lies.
func offsetOf(n int64) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{0x80 | byte(n&0x7f)}, out...)
	}
	return out
}

// delta makes a delta that claims a source and a target of these sizes.
func delta(source, target uint64, commands ...byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, source), target), commands...)
}

func TestPacksAreJudgedBeforeTheyAreUsed(t *testing.T) {
	limits := Limits{Pack: 1 << 20, Objects: 100, Object: 1 << 20, Inflated: 3 << 20}
	blob := packObject{plumbing.BlobObject, -1, []byte("hello, world"), 0}
	zeros := make([]byte, 1<<20)
	for _, tt := range []struct {
		name string
		pack []byte
		want error
	}{
		{"no pack", []byte("<html>This is not a pack, and long enough to be one."), ErrProtocol},
		{"nothing", nil, ErrProtocol},
		{"another version", append([]byte("PACK\x00\x00\x00\x03"), handmade(1, blob)[8:]...), ErrProtocol},
		{"more objects than are allowed", handmade(101, blob), ErrTooLarge},
		{"four thousand million objects", handmade(1<<32-1, blob), ErrTooLarge},
		{"fewer objects than it claims", handmade(2, blob), ErrProtocol},
		{"an object that claims 100 GB", handmade(1, packObject{plumbing.BlobObject, 100 << 30, []byte("x"), 0}), ErrTooLarge},
		{"an object that is larger than it claims", handmade(1, packObject{plumbing.BlobObject, 3, zeros, 0}), ErrProtocol},
		{"an object that is smaller than it claims", handmade(1, packObject{plumbing.BlobObject, 9, []byte("x"), 0}), ErrProtocol},
		{"four objects that are too large together", handmade(4, packObject{plumbing.BlobObject, -1, zeros, 0}, packObject{plumbing.BlobObject, -1, zeros, 0},
			packObject{plumbing.BlobObject, -1, zeros, 0}, packObject{plumbing.BlobObject, -1, zeros, 0}), ErrTooLarge},
		{"a delta that makes 2 TB", handmade(2, blob, packObject{plumbing.OFSDeltaObject, -1, delta(12, 2<<40, 0xff), 0}), ErrTooLarge},
		{"a delta that makes more than one object may have", handmade(2, blob, packObject{plumbing.OFSDeltaObject, -1, delta(12, 2<<20, 0xff), 0}), ErrTooLarge},
		{"a delta without lengths", handmade(2, blob, packObject{plumbing.OFSDeltaObject, -1, []byte{0x80}, 0}), ErrProtocol},
		{"a delta of a base that is not there", handmade(2, blob, packObject{plumbing.OFSDeltaObject, -1, delta(12, 5, 0x90, 5), 5}), ErrProtocol},
		{"a delta whose commands end too early", handmade(2, blob, packObject{plumbing.OFSDeltaObject, -1, delta(12, 99, 0x90, 5), 0}), ErrProtocol},
		{"an object of no type", handmade(1, packObject{0, -1, []byte("x"), 0}), ErrProtocol},
		{"a wrong checksum", append(handmade(1, blob)[:30], make([]byte, 20)...), ErrProtocol},
		{"a pack that does not end", bytes.Repeat([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), 100_000), ErrTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOrigin(t)
			manyCommits(o, 1)
			r, c := serve(t, o, limits)
			repo := open(t, c, r)
			good := mustFetch(t, repo, main)
			o.spoil = func([]byte) []byte { return tt.pack }
			manyCommits(o, 2)
			if _, err := repo.Fetch(t.Context(), main); !errors.Is(err, tt.want) {
				t.Errorf("Fetch = %v, want %v", err, tt.want)
			}
			left, err := filepath.Glob(filepath.Join(repo.dir, "objects", "pack", temporary+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
			if len(contents(t, good)) != 2 {
				t.Error("what was held before is not any more")
			}
		})
	}
}

// asItIs completes no pack.
func asItIs(context.Context, *os.File, judgement) error { return nil }

func TestAGoodPackMadeByHandIsTaken(t *testing.T) { // so that the refusals above are not for the maker's faults
	text := []byte("hello, world")
	edited := delta(12, 5, 0x90, 5)
	folder := t.TempDir()
	l := Limits{}
	if err := l.complete(); err != nil {
		t.Fatal(err)
	}
	pack := handmade(2, packObject{plumbing.BlobObject, -1, text, 0}, packObject{plumbing.OFSDeltaObject, -1, edited, 0})
	if err := receive(t.Context(), folder, bytes.NewReader(pack), l, asItIs); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := receive(ctx, folder, bytes.NewReader(pack), l, asItIs); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that has ended: %v", err)
	}
}

func TestAChainOfDeltasHasAnEnd(t *testing.T) {
	objects := []packObject{{plumbing.BlobObject, -1, []byte("hello, world"), 0}}
	for range maxChain + 1 {
		objects = append(objects, packObject{plumbing.OFSDeltaObject, -1, delta(12, 12, 0x90, 12), 0})
	}
	l := Limits{}
	if err := l.complete(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t.Context(), t.TempDir(), bytes.NewReader(handmade(len(objects), objects...)), l, asItIs); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a chain of %d deltas: %v", maxChain+1, err)
	}
}

func TestNoPathLeavesTheTree(t *testing.T) {
	o := newOrigin(t)
	id := o.commit(map[string]string{
		"secret.md": "secret", "docs/a.md": "A", "docs/deep/b.md": "B",
		"docs/link.md": "-> a.md", "docs/up": "-> ../docs", "docs/deep/back.md": "-> ../a.md", "docs/dir": "-> deep",
		"docs/out.md": "-> ../secret.md", "docs/etc": "-> /etc/passwd", "docs/far": "-> ../../../../etc/passwd", "docs/dangling": "-> none",
		"docs/loop1": "-> loop2", "docs/loop2": "-> loop1", "docs/self": "-> self", "docs/deep/sneaky": "-> ../../docs/../secret.md",
		"docs/module": "submodule", "docs/slash": "-> a.md/", "docs/through": "-> deep/../a.md", "folderlink": "-> docs",
	})
	r, c := serve(t, o, Limits{})
	repo := open(t, c, r)
	mustFetch(t, repo, main)
	docs, err := repo.Tree(id, "docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, text string
		want       error
	}{
		{"a.md", "A", nil}, {"deep/b.md", "B", nil}, {"link.md", "A", nil}, {"deep/back.md", "A", nil}, {"dir/b.md", "B", nil}, {"through", "A", nil},
		{"deep/../a.md", "A", nil}, {"./a.md", "A", nil},
		{"../secret.md", "", ErrOutside}, {"deep/../../secret.md", "", ErrOutside}, {"/a.md", "", ErrOutside}, {"a.md\x00", "", ErrOutside},
		{"out.md", "", ErrOutside}, {"up", "", ErrOutside}, {"etc", "", ErrOutside}, {"far", "", ErrOutside}, {"deep/sneaky", "", ErrOutside},
		{"loop1", "", ErrLoop}, {"self", "", ErrLoop}, {strings.Repeat("deep/../", 3000) + "a.md", "", ErrOutside},
		{"dangling", "", ErrNotFound}, {"none", "", ErrNotFound}, {"a.md/x", "", ErrNotFound}, {"slash", "", ErrNotFound},
		{"module", "", ErrSubmodule}, {"module/x", "", ErrSubmodule}, {"deep", "", ErrNotRegular}, {"", "", ErrNotRegular},
	} {
		data, _, err := docs.Read(tt.path, 100)
		if !errors.Is(err, tt.want) || string(data) != tt.text {
			t.Errorf("%.40q is %q, %v, want %q, %v", tt.path, data, err, tt.text, tt.want)
		}
	}
	if _, err := repo.Tree(id, "folderlink"); !errors.Is(err, ErrOutside) {
		t.Errorf("a root behind a symlink: %v", err)
	}
	if _, _, err := docs.Read("a.md", 0); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more octets than are asked for: %v", err)
	}
}

func TestWhatIsNoContentIsSaidToBe(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	o := newOrigin(t)
	o.commit(map[string]string{
		"big.bin": lfsVersion + "oid sha256:" + sum + "\nsize 12345\n", "nearly.txt": lfsVersion + "oid sha256:xyz\nsize 1\n", "module": "submodule", "link": "-> big.bin",
	})
	r, c := serve(t, o, Limits{})
	all := mustFetch(t, open(t, c, r), main)
	for _, path := range []string{"big.bin", "link"} {
		_, _, err := all.Read(path, 1000)
		var pointer *LFSError
		if !errors.As(err, &pointer) || pointer.OID != sum || pointer.Size != 12345 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, _, err := all.Read("nearly.txt", 1000); err != nil {
		t.Errorf("a text that only looks like a pointer: %v", err)
	}
	if f, err := all.Lookup("module"); err != nil || f.Kind != Submodule {
		t.Errorf("the submodule is %+v, %v", f, err)
	}
}

func TestATreeThatIsNoneIsRefused(t *testing.T) {
	o := newOrigin(t)
	blob := put(t, o.store, plumbing.BlobObject, []byte("x"))
	empty := tree(t, o.store)
	file := func(name string) object.TreeEntry {
		return object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: blob}
	}
	deep := tree(t, o.store, file("x"))
	for range 101 {
		deep = tree(t, o.store, object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: deep})
	}
	for name, root := range map[string]plumbing.Hash{
		"..":                            tree(t, o.store, file("..")),
		"a slash in a name":             tree(t, o.store, file("a/b")),
		".GIT":                          tree(t, o.store, file(".GIT")),
		"one name twice":                tree(t, o.store, file("a"), file("a")),
		"a file and a folder, one name": tree(t, o.store, file("a"), file("a.b"), object.TreeEntry{Name: "a", Mode: filemode.Dir, Hash: empty}),
		"out of order":                  tree(t, o.store, file("b"), file("a")),
		"no name":                       tree(t, o.store, file("")),
		"a blob for a folder":           tree(t, o.store, object.TreeEntry{Name: "d", Mode: filemode.Dir, Hash: blob}),
		"101 folders deep":              deep,
		"no tree":                       put(t, o.store, plumbing.TreeObject, []byte("garbage")),
	} {
		t.Run(name, func(t *testing.T) {
			o.refs["refs/heads/main"] = commitTree(t, o.store, root, "Hostile")
			r, c := serve(t, o, Limits{})
			if _, err := open(t, c, r).Fetch(t.Context(), main); !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("Fetch = %v", err)
			}
		})
	}
}

func TestFoldersThatAreOneAnotherAreBounded(t *testing.T) {
	o := newOrigin(t)
	level := tree(t, o.store, object.TreeEntry{Name: "f", Mode: filemode.Regular, Hash: put(t, o.store, plumbing.BlobObject, []byte("x"))})
	for range 10 { // ten to the tenth files, of a dozen objects
		var entries []object.TreeEntry
		for i := range 10 {
			entries = append(entries, object.TreeEntry{Name: fmt.Sprint("d", i), Mode: filemode.Dir, Hash: level})
		}
		level = tree(t, o.store, entries...)
	}
	o.refs["refs/heads/main"] = commitTree(t, o.store, level, "Bomb")
	r, c := serve(t, o, Limits{Files: 1000})
	all := mustFetch(t, open(t, c, r), main)
	n := 0
	var last error
	for _, err := range all.Files(t.Context()) {
		n++
		last = err
	}
	if !errors.Is(last, ErrTooLarge) || n > 1001 {
		t.Errorf("%d files, %v", n, last)
	}
}

func TestARemoteLeadsToNoPrivateAddress(t *testing.T) {
	o := newOrigin(t)
	manyCommits(o, 1)
	inside, _ := serve(t, o, Limits{})
	outside, c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+inside.Host+r.URL.RequestURI(), http.StatusFound)
	}), Limits{})
	plain, err := New(Config{Fetch: fetch.Config{UserAgent: "test", Resolver: resolver(t, "127.0.0.1")}, SSH: SSH{AcceptUnknown: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, tt := range []struct {
		name   string
		client *Client
		remote rbt.Remote
	}{
		{"a redirect to one", c, outside},
		{"one itself", plain, inside},
		{"by ssh", plain, remote(t, "git@127.0.0.1:repo.git")},
		{"a name of one", plain, remote(t, "https://git.example/repo.git")},
		{"a name of one, by ssh", plain, remote(t, "ssh://git@git.example:22/repo.git")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := open(t, tt.client, tt.remote).Fetch(t.Context(), main); !errors.Is(err, fetch.ErrForbiddenAddress) {
				t.Errorf("Fetch = %v", err)
			}
		})
	}
	if len(o.requests()) != 0 {
		t.Error("it was asked")
	}
	if _, err := plain.Open(t.TempDir(), rbt.Remote{Scheme: "http", Host: "example.org", Path: "/x.git"}); err == nil {
		t.Error("plain http is spoken to anybody")
	}
	if _, err := plain.Open(t.TempDir(), rbt.Remote{}); err == nil {
		t.Error("no remote is one")
	}
}

func TestARedirectToNoRepositoryIsRefused(t *testing.T) {
	r, c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			return
		}
		http.Redirect(w, r, "/login", http.StatusFound)
	}), Limits{})
	if _, err := open(t, c, r).Fetch(t.Context(), main); !errors.Is(err, fetch.ErrRedirect) {
		t.Errorf("Fetch = %v", err)
	}
}

func TestAFetchThatTakesTooLongEnds(t *testing.T) {
	o := newOrigin(t)
	manyCommits(o, 1)
	r, c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			io.Copy(io.Discard, r.Body) // only then does the server notice that we hang up
			<-r.Context().Done()
			return
		}
		o.ServeHTTP(w, r)
	}), Limits{Time: 200 * time.Millisecond})
	if _, err := open(t, c, r).Fetch(t.Context(), main); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Fetch = %v", err)
	}
}

// resolver answers every question with one address.
func resolver(t *testing.T, address string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response = true
			if m.Questions[0].Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(address).To4())},
				}}
			}
			if packed, err := m.Pack(); err == nil {
				conn.WriteTo(packed, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
