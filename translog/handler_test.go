package translog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func ask(h http.Handler, method, url string, header ...string) *http.Response {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func get(t testing.TB, h http.Handler, url string) (int, []byte) {
	t.Helper()
	resp := ask(h, "GET", url)
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b
}

// published600 is a log of 620 entries of which 600 are published.
func published600(t *testing.T) *rig {
	r := open(t, durabletest.New(), nil)
	r.grow(t, 1, true)
	r.publishNow(t)
	r.grow(t, 599, false)
	r.publishNow(t)
	r.grow(t, 20, false)
	return r
}

func TestNothingBeyondThePublishedTreeIsServed(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.Handler()
	for _, tt := range []struct {
		path string
		code int
	}{
		{"/checkpoint", 200},
		{"/signed-checkpoint.json", 200},
		{"/signed-checkpoint/0.json", 200},
		{"/signed-checkpoint/1.json", 200},
		{"/signed-checkpoint/600.json", 200},
		{"/signed-checkpoint/599.json", 404}, // was not published
		{"/signed-checkpoint/620.json", 404},
		{"/entry/0.json", 200},
		{"/entry/599.json", 200},
		{"/entry/600.json", 404}, // released, not published
		{"/entry/620.json", 404},
		{"/tile/0/000", 200},
		{"/tile/0/001", 200},
		{"/tile/0/001.p/255", 200}, // a prefix of the full one
		{"/tile/0/002", 404},
		{"/tile/0/002.p/88", 200},
		{"/tile/0/002.p/1", 200},
		{"/tile/0/002.p/89", 404},
		{"/tile/0/003.p/1", 404},
		{"/tile/1/000.p/2", 200},
		{"/tile/1/000.p/3", 404},
		{"/tile/1/000", 404},
		{"/tile/2/000.p/1", 404},
		{"/tile/63/000.p/1", 404},
		{"/tile/0/x999/x999/x999/x999/x999/999.p/1", 404},
		{"/tile/entries/001", 200},
		{"/tile/entries/002.p/88", 200},
		{"/tile/entries/002.p/89", 404},
		{"/tile/entries/002", 404},
		{"/proof/inclusion?index=0&size=1", 200},
		{"/proof/inclusion?index=599&size=600", 200},
		{"/proof/inclusion?size=600&index=599", 200},
		{"/proof/inclusion?index=600&size=600", 404},
		{"/proof/inclusion?index=599&size=601", 404},
		{"/proof/consistency?from=0&to=600", 200},
		{"/proof/consistency?from=600&to=600", 200},
		{"/proof/consistency?from=1&to=601", 404},
		{"/proof/consistency?from=2&to=1", 404},
		{"/", 404},
		{"/tile/", 400},
		{"/tile/0", 400},
		{"/tile/0/0", 400},
		{"/tile/00/000", 400},
		{"/tile/64/000", 400},
		{"/tile/-1/000", 400},
		{"/tile/0/000.p/0", 400},
		{"/tile/0/000.p/256", 400},
		{"/tile/0/000.p/01", 400},
		{"/tile/0/x000/000", 400},
		{"/tile/0/001/000", 400},
		{"/tile/0/x001", 400},
		{"/tile/0/1000", 400},
		{"/tile/0/x001/x001/x001/x001/x001/x001/000", 400},
		{"/entry/00.json", 400},
		{"/entry/+1.json", 400},
		{"/entry/-1.json", 400},
		{"/entry/1", 400},
		{"/entry/9007199254740992.json", 400},
		{"/entry/1.json/x", 404},
		{"/signed-checkpoint/x.json", 400},
		{"/proof/inclusion", 400},
		{"/proof/inclusion?index=0", 400},
		{"/proof/inclusion?index=0&size=", 400},
		{"/proof/inclusion?index=0&size=1&size=1", 400},
		{"/proof/inclusion?index=0&size=1&more=1", 400},
		{"/proof/inclusion?index=0x0&size=1", 400},
		{"/proof/inclusion?index=%zz&size=1", 400},
		{"/proof/consistency?index=0&size=1", 400},
	} {
		if code, body := get(t, h, tt.path); code != tt.code {
			t.Errorf("%s: %d, want %d: %.80s", tt.path, code, tt.code, body)
		}
	}
}

func TestEveryPartialTileIsAPrefixOfTheFull(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.Handler()
	_, full := get(t, h, "/tile/0/001")
	_, bundle := get(t, h, "/tile/entries/001")
	if len(full) != tileSize {
		t.Fatalf("the full tile has %d octets", len(full))
	}
	rest := bundle
	for w := 1; w <= tileWidth; w++ {
		n := 2 + int(binary.BigEndian.Uint16(rest))
		if h := LeafHash(rest[2:n]); !bytes.Equal(h[:], full[32*(w-1):32*w]) {
			t.Errorf("entry %d of the bundle does not hash to its place in the tile", w-1)
		}
		rest = rest[n:]
		if w == tileWidth {
			break
		}
		if _, part := get(t, h, fmt.Sprintf("/tile/0/001.p/%d", w)); !bytes.Equal(part, full[:32*w]) {
			t.Errorf("the tile of width %d is not a prefix", w)
		}
		if _, part := get(t, h, fmt.Sprintf("/tile/entries/001.p/%d", w)); !bytes.Equal(part, bundle[:len(bundle)-len(rest)]) {
			t.Errorf("the bundle of width %d is not a prefix", w)
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d octets behind the bundle", len(rest))
	}
}

func TestServedProofsVerify(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.Handler()
	tree := func(size uint64) Tree {
		root, err := r.Published().RootAt(size)
		if err != nil {
			t.Fatal(err)
		}
		return Tree{testOrigin, size, root}
	}
	_, note := get(t, h, "/checkpoint")
	if got, err := OpenNote(note, testVkey(t)); err != nil || got != tree(600) {
		t.Fatalf("/checkpoint = %+v, %v", got, err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Uint64Range(1, 600).Draw(rt, "size")
		i := rapid.Uint64Range(0, size-1).Draw(rt, "index")
		_, raw := get(t, h, fmt.Sprintf("/proof/inclusion?index=%d&size=%d", i, size))
		_, entry := get(t, h, fmt.Sprintf("/entry/%d.json", i))
		var in InclusionProof
		if err := envelope.DecodeCanonical(raw, &in); err != nil {
			rt.Fatal(err)
		}
		if err := in.Verify(LeafHash(entry), tree(size)); err != nil || in.Index != i {
			rt.Fatal(err)
		}
		_, raw = get(t, h, fmt.Sprintf("/proof/consistency?from=%d&to=%d", i, size))
		var con ConsistencyProof
		if err := envelope.DecodeCanonical(raw, &con); err != nil {
			rt.Fatal(err)
		}
		if err := con.Verify(tree(i), tree(size)); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestALogThatCannotBeReadSaysSo(t *testing.T) {
	r := published600(t)
	h := r.Handler()
	r.close(t)
	if code, body := get(t, h, "/entry/0.json"); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get(t, h, "/checkpoint"); code != http.StatusOK {
		t.Errorf("/checkpoint, which needs no store: %d", code)
	}
}

func TestAnEntryThatIsMissingIsOurFault(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.Handler()
	b := r.store.NewBatch()
	if err := b.Delete(entryKey(5)); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/entry/5.json", "/tile/entries/000"} {
		if code, body := get(t, h, path); code != http.StatusInternalServerError || strings.Contains(string(body), "5") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func FuzzTilePath(f *testing.F) {
	for _, s := range []string{"0/000", "entries/x001/x234/067.p/5", "7/255.p/255"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parseTilePath(s); err == nil && p.String() != s {
			t.Errorf("%q reads as %+v, which prints %q", s, p, p)
		}
	})
}

func TestTilePathsArePrintedAndRead(t *testing.T) {
	for s, want := range map[string]tilePath{
		"0/000":                     {0, 0, 256},
		"0/x001/x234/067":           {0, 1234067, 256},
		"entries/x001/234.p/8":      {entriesLevel, 1234, 8},
		"63/999.p/255":              {63, 999, 255},
		"1/x010/000":                {1, 10000, 256},
		"0/x999/x999/x999/x999/999": {0, 999999999999999, 256},
	} {
		if got, err := parseTilePath(s); err != nil || got != want || want.String() != s {
			t.Errorf("%s: %+v, %v; prints %s", s, got, err, want)
		}
	}
}
