package remote

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testOrigin = "log.example/2026"

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), 9))
}

func testVkey(t testing.TB) string {
	t.Helper()
	vkey, err := translog.VerifierKey(testOrigin, testKey().Public().(ed25519.PublicKey))
	check(t, err)
	return vkey
}

// A fake is the public side of a log whose entries are made up by their index,
// in memory, so that it may be large.
type fake struct {
	size   uint64
	levels [][]byte // hashes of each level, full tiles and the partial one alike
	entry  func(i uint64) []byte
	asked  atomic.Int64
	change func(path string, body []byte) []byte // nil leaves answers alone
}

func newFake(size uint64) *fake {
	return newFakeOf(size, func(i uint64) []byte { return fmt.Appendf(nil, "entry %d of a made-up log", i) })
}

func newFakeOf(size uint64, entry func(i uint64) []byte) *fake {
	f := &fake{size: size, entry: entry}
	var hashes []byte
	for i := range size {
		h := translog.LeafHash(f.entry(i))
		hashes = append(hashes, h[:]...)
	}
	for len(hashes) > 0 {
		f.levels = append(f.levels, hashes)
		var above []byte
		for i := 0; i+32*translog.TileWidth <= len(hashes); i += 32 * translog.TileWidth {
			h := translog.TileRoot(hashes[i : i+32*translog.TileWidth])
			above = append(above, h[:]...)
		}
		hashes = above
	}
	return f
}

// tree is computed from the leaves alone.
func (f *fake) tree() translog.Tree {
	leaves := make([][32]byte, f.size)
	for i := range leaves {
		leaves[i] = [32]byte(f.levels[0][32*i:])
	}
	return translog.Tree{Origin: testOrigin, Size: f.size, Root: translog.SetOf(leaves).Root}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked.Add(1)
	body, ok := f.body(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if f.change != nil {
		body = f.change(r.URL.Path, body)
	}
	w.Write(body)
}

// body understands what TileURL prints for fewer than 1,000 tiles.
func (f *fake) body(path string) ([]byte, bool) {
	rest, ok := strings.CutPrefix(path, "/tile/")
	level, rest, _ := strings.Cut(rest, "/")
	number, width, partial := strings.Cut(rest, ".p/")
	index, err := strconv.ParseUint(number, 10, 64)
	w := translog.TileWidth
	if partial {
		w, err = strconv.Atoi(width)
	}
	if !ok || err != nil {
		return nil, false
	}
	if level == "entries" {
		var b []byte
		for i := index * translog.TileWidth; i < index*translog.TileWidth+uint64(w); i++ {
			e := f.entry(i)
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(e))), e...)
		}
		return b, index*translog.TileWidth+uint64(w) <= f.size
	}
	l, err := strconv.Atoi(level)
	first := int(index) * translog.TileWidth * 32
	if err != nil || l >= len(f.levels) || first+32*w > len(f.levels[l]) {
		return nil, false
	}
	return bytes.Clone(f.levels[l][first : first+32*w]), true
}

// clientOf is a client of h that does not wait long.
func clientOf(t testing.TB, h http.Handler, o Options) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := New(server.URL, testVkey(t), o)
	check(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestEntriesGoOnWhereTheyStopped(t *testing.T) {
	for _, size := range []uint64{0, 1, 255, 256, 257, 512, 1000, 256*256 + 300} {
		f := newFake(size)
		c := clientOf(t, f, Options{})
		tree := f.tree()
		next := uint64(0)
		for next < size {
			stop := min(size, next+max(1, size*2/5)) // somewhere within a bundle
			for e, err := range c.Entries(t.Context(), next, size, tree) {
				check(t, err)
				if e.Index != next || !bytes.Equal(e.Raw, f.entry(next)) {
					t.Fatalf("size %d: entry %d is %d, %q", size, next, e.Index, e.Raw)
				}
				if next++; next == stop {
					break
				}
			}
		}
		if asked := uint64(f.asked.Load()); asked > 60+size/64 {
			t.Errorf("size %d: %d requests", size, asked)
		}
		for _, err := range c.Entries(t.Context(), size, size+1, tree) {
			if err == nil {
				t.Errorf("size %d: there is an entry behind the last", size)
			}
		}
	}
}

// TestNoFalseEntryIsYielded changes every answer of a log in turn, and every
// entry that is yielded all the same is a true one.
func TestNoFalseEntryIsYielded(t *testing.T) {
	f := newFake(256*256 + 2*256 + 7)
	tree := f.tree()
	var mu sync.Mutex // guards paths and changed
	paths, changed := make(map[string]bool), ""
	f.change = func(path string, body []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		paths[path] = true
		if path == changed {
			body[len(body)/2] ^= 4
		}
		return body
	}
	c := clientOf(t, f, Options{Ahead: 2})
	const from = 256*254 + 3
	// read gives how many entries are yielded, and the error behind them.
	read := func(path string, tree translog.Tree) (n int, failed error) {
		mu.Lock()
		changed = path
		mu.Unlock()
		for e, err := range c.Entries(t.Context(), from, tree.Size, tree) {
			if failed = err; err == nil && !bytes.Equal(e.Raw, f.entry(e.Index)) {
				t.Errorf("%s was changed, and entry %d is yielded as %q", path, e.Index, e.Raw)
			}
			n++
		}
		return n, failed
	}
	if _, err := read("", tree); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	all := slices.Collect(maps.Keys(paths))
	mu.Unlock()
	if len(all) < 9 {
		t.Fatalf("only %d answers: %v", len(all), all)
	}
	for _, path := range all {
		if n, err := read(path, tree); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s was changed, and %d entries are yielded: %v", path, n, err)
		}
	}
	tree.Root[0] ^= 1
	if n, err := read("", tree); n != 1 || !errors.Is(err, ErrTree) {
		t.Errorf("under another root: %d entries, %v", n, err)
	}
}

// TestMemoryAheadIsBounded stops to read: nothing more is asked for.
func TestMemoryAheadIsBounded(t *testing.T) {
	f := newFake(100 * 256)
	c := clientOf(t, f, Options{Ahead: 4})
	for e, err := range c.Entries(t.Context(), 0, f.size, f.tree()) {
		check(t, err)
		if e.Index == 300 {
			time.Sleep(200 * time.Millisecond)
			if n := f.asked.Load(); n > 14 {
				t.Errorf("%d requests for two bundles", n)
			}
			break
		}
	}
}

func TestACheckpointThatHasNotChangedIsNotSentAgain(t *testing.T) {
	tree := translog.Tree{Origin: testOrigin, Size: 0, Root: translog.SetOf(nil).Root}
	note, err := translog.SignNote(tree, testKey())
	check(t, err)
	sent, held := 0, 0
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == `"one"` {
			held++
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent++
		w.Header().Set("ETag", `"one"`)
		w.Write(note)
	}), Options{})
	for range 3 {
		got, raw, err := c.Checkpoint(t.Context())
		if err != nil || got != tree || !bytes.Equal(raw, note) {
			t.Fatalf("%+v, %q, %v", got, raw, err)
		}
	}
	if sent != 1 || held != 2 {
		t.Errorf("sent %d times, not modified %d times", sent, held)
	}
}

func TestAProofOfOtherSizesIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, answer string }{
		{"other sizes", `{"from":3,"hashes":[],"to":9}`},
		{"no sizes", `{}`},
		{"a hash of another form", `{"from":3,"hashes":["00"],"to":7}`},
		{"more than is asked for", `{"from":3,"hashes":[],"to":7,"x":1}`},
		{"not canonical", `{"to":7,"from":3,"hashes":[]}`},
		{"no JSON", `proof`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.answer) }), Options{})
			if path, err := c.Consistency(t.Context(), 3, 7); err == nil {
				t.Errorf("Consistency = %v", path)
			}
		})
	}
}

func BenchmarkEntries(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 1150) // as long as those of an indexer
	f := newFakeOf(200*256, func(uint64) []byte { return body })
	c := clientOf(b, f, Options{})
	tree := f.tree()
	b.ResetTimer()
	for b.Loop() {
		for _, err := range c.Entries(b.Context(), 0, f.size, tree) {
			check(b, err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(f.size)/b.Elapsed().Seconds(), "entries/s")
}
