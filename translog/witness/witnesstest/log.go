package witnesstest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// A Log signs checkpoints of a tree whose leaves are made of a word.
type Log struct {
	Origin, VKey string

	t    testing.TB
	tree *testonly.Tree
	key  note.Signer
}

// NewLog is a log of size leaves, made of word. All have one origin and key.
func NewLog(t testing.TB, size int, word string) *Log {
	t.Helper()
	l := &Log{Origin: "log.example", t: t, tree: testonly.New(rfc6962.DefaultHasher)}
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	var err error
	if l.VKey, err = note.NewEd25519VerifierKey(l.Origin, private.Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	hash := l.VKey[len(l.Origin)+1:][:8]
	seed := base64.StdEncoding.EncodeToString(append([]byte{1}, private.Seed()...))
	if l.key, err = note.NewSigner("PRIVATE+KEY+" + l.Origin + "+" + hash + "+" + seed); err != nil {
		t.Fatal(err)
	}
	for i := range size {
		l.tree.AppendData(fmt.Appendf(nil, "%s %d", word, i))
	}
	return l
}

// Root is that of the tree of a size.
func (l *Log) Root(size uint64) []byte { return l.tree.HashAt(size) }

// Text is the body of the checkpoint of a size.
func (l *Log) Text(size uint64) string {
	return fmt.Sprintf("%s\n%d\n%s\n", l.Origin, size, base64.StdEncoding.EncodeToString(l.tree.HashAt(size)))
}

// Submission is the checkpoint of a size, to be cosigned.
func (l *Log) Submission(size uint64) witness.Submission {
	l.t.Helper()
	raw, err := note.Sign(&note.Note{Text: l.Text(size)}, l.key)
	if err != nil {
		l.t.Fatal(err)
	}
	return witness.Submission{Note: raw, Size: size, Prove: func(from uint64) ([][32]byte, error) {
		path, err := l.tree.ConsistencyProof(from, size)
		out := make([][32]byte, len(path))
		for i, h := range path {
			out[i] = [32]byte(h)
		}
		return out, err
	}}
}
