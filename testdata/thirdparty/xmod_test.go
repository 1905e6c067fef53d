package thirdparty

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// An xmodClient reads a log with golang.org/x/mod/sumdb/note and tlog, as they
// are. What C2SP says beyond them, it does itself: the three lines of a
// checkpoint, and paths without tlog's "tile/8/".
type xmodClient struct {
	url      string
	verifier note.Verifier
}

const tileHeight = 8

func (c *xmodClient) get(path string) ([]byte, error) {
	resp, err := http.Get(c.url + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return b, err
}

func (c *xmodClient) checkpoint() (tree tlog.Tree, err error) {
	raw, err := c.get("/checkpoint")
	if err != nil {
		return tree, err
	}
	n, err := note.Open(raw, note.VerifierList(c.verifier))
	if err != nil {
		return tree, err
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 4 || lines[0] != c.verifier.Name() {
		return tree, fmt.Errorf("checkpoint %q", n.Text)
	}
	if tree.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return tree, err
	}
	h, err := base64.StdEncoding.DecodeString(lines[2])
	if err == nil && len(h) != tlog.HashSize {
		err = errors.New("root of another length")
	}
	if err == nil {
		tree.Hash = tlog.Hash(h)
	}
	return tree, err
}

// Height, ReadTiles and SaveTiles make c a tlog.TileReader.
func (c *xmodClient) Height() int { return tileHeight }

func (c *xmodClient) SaveTiles([]tlog.Tile, [][]byte) {}

func (c *xmodClient) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	all := make([][]byte, len(tiles))
	for i, t := range tiles {
		b, err := c.get("/" + tilePath(t))
		if err != nil {
			return nil, err
		}
		all[i] = b
	}
	return all, nil
}

// tilePath is tlog's own path, without the height that C2SP fixes.
func tilePath(t tlog.Tile) string {
	p := strings.TrimPrefix(t.Path(), "tile/8/")
	return "tile/" + strings.Replace(p, "data/", "entries/", 1)
}

// records reads every entry of the tree by its bundles.
func (c *xmodClient) records(tree tlog.Tree) (all [][]byte, err error) {
	for n := int64(0); n*256 < tree.N; n++ {
		w := int(min(256, tree.N-n*256))
		b, err := c.get("/" + tilePath(tlog.Tile{H: tileHeight, L: -1, N: n, W: w}))
		if err != nil {
			return nil, err
		}
		for range w {
			if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
				return nil, fmt.Errorf("bundle %d is cut short", n)
			}
			size := 2 + int(binary.BigEndian.Uint16(b))
			all, b = append(all, b[2:size]), b[size:]
		}
		if len(b) != 0 {
			return nil, fmt.Errorf("bundle %d has %d octets too many", n, len(b))
		}
	}
	return all, nil
}

// TestXModVerifiesTheLog proves every record under every tree, and each tree
// from each before it.
func TestXModVerifiesTheLog(t *testing.T) { verifyByXMod(t, sizes, 1) }

// verifyByXMod proves every stride-th record.
func verifyByXMod(t *testing.T, sizes []int64, stride int) {
	r := run(t)
	v, err := note.NewVerifier(r.vkey)
	if err != nil {
		t.Fatal(err)
	}
	c := &xmodClient{r.url, v}
	var before []tlog.Tree
	for _, size := range sizes {
		r.growTo(t, size)
		tree, err := c.checkpoint()
		if err != nil || tree.N != size {
			t.Fatalf("checkpoint %+v, %v; want size %d", tree, err, size)
		}
		hashes := tlog.TileHashReader(tree, c)
		if root, err := tlog.TreeHash(size, hashes); err != nil || root != tree.Hash {
			t.Errorf("root at %d: %s, %v", size, root, err)
		}
		for _, old := range before {
			p, err := tlog.ProveTree(size, old.N, hashes)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(p, size, tree.Hash, old.N, old.Hash); err != nil {
				t.Errorf("from %d to %d: %v", old.N, size, err)
			}
		}
		before = append(before, tree)
		records, err := c.records(tree)
		if err != nil {
			t.Fatal(err)
		}
		for n, record := range records {
			if n%stride == 0 || n == len(records)-1 {
				checkRecord(t, c, tree, hashes, int64(n), record)
			}
		}
	}
}

func checkRecord(t *testing.T, c *xmodClient, tree tlog.Tree, hashes tlog.HashReader, n int64, record []byte) {
	t.Helper()
	p, err := tlog.ProveRecord(tree.N, n, hashes)
	if err != nil {
		t.Fatal(err)
	}
	if err := tlog.CheckRecord(p, tree.N, tree.Hash, n, tlog.RecordHash(record)); err != nil {
		t.Errorf("record %d of %d: %v", n, tree.N, err)
	}
	if n%50 != 0 {
		return
	}
	single, err := c.get(fmt.Sprintf("/entry/%d.json", n))
	if err != nil || !bytes.Equal(single, record) {
		t.Errorf("/entry/%d.json is not the record of the bundle: %v", n, err)
	}
}

// TestXModRefusesAChangedLog: the test above would notice.
func TestXModRefusesAChangedLog(t *testing.T) {
	r := run(t)
	v, err := note.NewVerifier(r.vkey)
	if err != nil {
		t.Fatal(err)
	}
	c := &xmodClient{r.url, v}
	r.growTo(t, 300)
	tree, err := c.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	p, err := tlog.ProveRecord(tree.N, 17, tlog.TileHashReader(tree, c))
	if err != nil {
		t.Fatal(err)
	}
	records, err := c.records(tree)
	if err != nil {
		t.Fatal(err)
	}
	records[17][40] ^= 1
	if err := tlog.CheckRecord(p, tree.N, tree.Hash, 17, tlog.RecordHash(records[17])); err == nil {
		t.Error("a changed record was proven")
	}
	tree.Hash[0] ^= 1
	if _, err := tlog.ProveRecord(tree.N, 17, tlog.TileHashReader(tree, c)); err == nil {
		t.Error("tiles were taken for those of another root")
	}
}
