package thirdparty

import (
	"fmt"
	"testing"

	formatlog "github.com/transparency-dev/formats/log"
	formatproof "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
)

// TestFormatsReadsCheckpointsAndProofs parses the published checkpoint, and
// takes an inclusion proof through the file format of C2SP tlog-proof.
func TestFormatsReadsCheckpointsAndProofs(t *testing.T) {
	r := run(t)
	v, err := note.NewVerifier(r.vkey)
	if err != nil {
		t.Fatal(err)
	}
	c := &xmodClient{url: r.url}
	for _, size := range sizes {
		r.growTo(t, size)
		raw, err := c.get("/checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		cp, rest, _, err := formatlog.ParseCheckpoint(raw, origin, v)
		if err != nil || len(rest) != 0 || cp.Size != uint64(size) {
			t.Fatalf("checkpoint %+v, %q behind it, %v", cp, rest, err)
		}
		index := uint64(size) * 2 / 3
		path, err := r.log.Published().Inclusion(index)
		if err != nil {
			t.Fatal(err)
		}
		var read formatproof.TLogProof
		if err := read.Unmarshal(formatproof.TLogProof{Index: index, Hashes: path, Checkpoint: raw}.Marshal()); err != nil {
			t.Fatal(err)
		}
		entry, err := c.get(fmt.Sprintf("/entry/%d.json", index))
		if err != nil {
			t.Fatal(err)
		}
		cp, _, _, err = formatlog.ParseCheckpoint(read.Checkpoint, origin, v)
		if err != nil {
			t.Fatal(err)
		}
		hashes := make([][]byte, len(read.Hashes))
		for i := range hashes {
			hashes[i] = read.Hashes[i][:]
		}
		leaf := rfc6962.DefaultHasher.HashLeaf(entry)
		if err := proof.VerifyInclusion(rfc6962.DefaultHasher, read.Index, cp.Size, leaf, hashes, cp.Hash); err != nil {
			t.Errorf("tlog-proof of %d in %d: %v", index, size, err)
		}
	}
}
