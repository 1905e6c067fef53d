package thirdparty

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func torchwoodClient(t *testing.T, url string) (*torchwood.TileFetcher, *torchwood.Client) {
	t.Helper()
	f, err := torchwood.NewTileFetcher(url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := torchwood.NewClient(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, c
}

// TestTorchwoodVerifiesTheLog reads every entry of every tree with torchwood's
// client, which hashes it against tiles that it has proven, and proves some.
func TestTorchwoodVerifiesTheLog(t *testing.T) { verifyByTorchwood(t, sizes) }

func verifyByTorchwood(t *testing.T, sizes []int64) {
	r := run(t)
	v, err := note.NewVerifier(r.vkey)
	if err != nil {
		t.Fatal(err)
	}
	f, c := torchwoodClient(t, r.url)
	for _, size := range sizes {
		r.growTo(t, size)
		raw, err := f.ReadEndpoint(t.Context(), "checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		n, err := note.Open(raw, note.VerifierList(v))
		if err != nil {
			t.Fatal(err)
		}
		cp, err := torchwood.ParseCheckpoint(n.Text)
		if err != nil || cp.Origin != origin || cp.N != size || cp.String() != n.Text {
			t.Fatalf("checkpoint %+v, %v", cp, err)
		}
		next := int64(0)
		for next < size { // a partial bundle comes with the second call
			before := next
			for i, entry := range c.Entries(t.Context(), cp.Tree, next) {
				if i != next || len(entry) == 0 {
					t.Fatalf("entry %d after %d", i, next)
				}
				next++
			}
			if err := c.Err(); err != nil || next == before {
				t.Fatalf("entries of %d, from %d: %v", size, before, err)
			}
		}
		for _, i := range []int64{0, size / 2, size - 1} {
			entry, path, err := c.Entry(t.Context(), cp.Tree, i)
			if err != nil {
				t.Fatal(err)
			}
			own, err := r.log.Published().Entry(uint64(i))
			if err != nil || !bytes.Equal(own, entry) {
				t.Errorf("entry %d: %v", i, err)
			}
			if err := tlog.CheckRecord(path, size, cp.Hash, i, tlog.RecordHash(own)); err != nil {
				t.Errorf("proof of %d in %d: %v", i, size, err)
			}
		}
	}
}

// TestTorchwoodRefusesAChangedLog: the test above would notice.
func TestTorchwoodRefusesAChangedLog(t *testing.T) {
	r := run(t)
	r.growTo(t, 300)
	tree := r.log.Published().Tree
	for _, path := range []string{"/tile/entries/000", "/tile/0/000"} {
		_, c := torchwoodClient(t, changing(t, r.url, path))
		for range c.Entries(t.Context(), tlog.Tree{N: 300, Hash: tree.Root}, 0) {
			continue
		}
		if c.Err() == nil {
			t.Errorf("a changed %s was taken", path)
		}
	}
}
