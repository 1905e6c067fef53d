package thirdparty

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
)

// leafHashes cuts a bundle with Tessera's own parser.
func leafHashes(bundle []byte) ([][]byte, error) {
	var b api.EntryBundle
	if err := b.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	hashes := make([][]byte, len(b.Entries))
	for i, e := range b.Entries {
		hashes[i] = rfc6962.DefaultHasher.HashLeaf(e)
	}
	return hashes, nil
}

func tesseraFetcher(t *testing.T, base string) *client.HTTPFetcher {
	t.Helper()
	u, err := url.Parse(base + "/")
	if err != nil {
		t.Fatal(err)
	}
	f, err := client.NewHTTPFetcher(u, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTesseraVerifiesTheLog runs Tessera's fsck over every tree, follows the log
// with its tracker, which proves each from the one before, and proves entries.
func TestTesseraVerifiesTheLog(t *testing.T) { verifyByTessera(t, sizes) }

func verifyByTessera(t *testing.T, sizes []int64) {
	r := run(t)
	v, err := note.NewVerifier(r.vkey)
	if err != nil {
		t.Fatal(err)
	}
	ctx, f := t.Context(), tesseraFetcher(t, r.url)
	var tracker *client.LogStateTracker
	for _, size := range sizes {
		r.growTo(t, size)
		if err := fsck.New(origin, v, f, leafHashes, fsck.Opts{N: 2}).Check(ctx); err != nil {
			t.Errorf("fsck at %d: %v", size, err)
		}
		if tracker == nil {
			tracker, err = client.NewLogStateTracker(ctx, f.ReadTile, nil, v, origin, client.UnilateralConsensus(f.ReadCheckpoint))
		} else {
			_, _, _, err = tracker.Update(ctx)
		}
		if err != nil || tracker.Latest().Size != uint64(size) {
			t.Fatalf("the tracker at %d: %v", size, err)
		}
		pb, err := client.NewProofBuilder(ctx, uint64(size), f.ReadTile)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int64{0, size / 3, size - 1} {
			path, err := pb.InclusionProof(ctx, uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			bundle, err := client.GetEntryBundle(ctx, f.ReadEntryBundle, uint64(i)/256, uint64(size))
			if err != nil {
				t.Fatal(err)
			}
			leaf := rfc6962.DefaultHasher.HashLeaf(bundle.Entries[i%256])
			if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(size), leaf, path, tracker.Latest().Hash); err != nil {
				t.Errorf("entry %d of %d: %v", i, size, err)
			}
			ours, err := r.log.Published().Inclusion(uint64(i))
			if err != nil || len(ours) != len(path) {
				t.Fatalf("our path of %d in %d: %v", i, size, err)
			}
			for k := range ours {
				if !bytes.Equal(ours[k][:], path[k]) {
					t.Errorf("our path of %d in %d differs from Tessera's", i, size)
				}
			}
		}
	}
}

// TestTesseraFindsAChangedLog: the test above would notice.
func TestTesseraFindsAChangedLog(t *testing.T) {
	r := run(t)
	v, err := note.NewVerifier(r.vkey)
	if err != nil {
		t.Fatal(err)
	}
	r.growTo(t, 300)
	for _, path := range []string{"/tile/entries/000", "/tile/0/000", "/tile/entries/001.p/44"} {
		changed := tesseraFetcher(t, changing(t, r.url, path))
		// A worker that finds something ends, and fsck waits for ever once all have.
		if err := fsck.New(origin, v, changed, leafHashes, fsck.Opts{N: 8}).Check(t.Context()); err == nil {
			t.Errorf("a changed %s was not found", path)
		}
	}
}

// changing serves the log at base, with an octet of one file flipped.
func changing(t *testing.T, base, path string) string {
	return serve(t, func(w http.ResponseWriter, req *http.Request) {
		b, err := (&xmodClient{url: base}).get(req.URL.Path)
		if err != nil {
			http.NotFound(w, req)
			return
		}
		if strings.TrimRight(req.URL.Path, "/") == path {
			b[len(b)/2] ^= 1
		}
		w.Write(b)
	})
}
