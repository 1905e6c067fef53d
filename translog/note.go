package translog

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// ErrNote: not a checkpoint note of this log.
var ErrNote = errors.New("not a checkpoint note of this log")

// maxNote bounds a note with all its cosignatures, in octets.
const maxNote = 64 << 10

// A Tree is what a checkpoint says: how many entries, under which root, of the
// log that Origin names.
type Tree struct {
	Origin string
	Size   uint64
	Root   [32]byte
}

// text is the body of a C2SP tlog-checkpoint: three lines, no extensions.
func (t Tree) text() string {
	return t.Origin + "\n" + strconv.FormatUint(t.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(t.Root[:]) + "\n"
}

// parseTree accepts exactly what text prints.
func parseTree(text string) (Tree, error) {
	var t Tree
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return t, errors.New("not three lines")
	}
	size, err := strconv.ParseUint(lines[1], 10, 64)
	if err != nil || size > envelope.MaxInteger {
		return t, fmt.Errorf("malformed size %.30q", lines[1])
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != len(t.Root) {
		return t, fmt.Errorf("malformed root %.60q", lines[2])
	}
	t = Tree{Origin: lines[0], Size: size, Root: [32]byte(root)}
	if t.text() != text {
		return t, errors.New("size or root not in canonical form")
	}
	if t.Size == 0 && t.Root != emptyRoot() {
		return t, errors.New("size 0 with another root than that of the empty tree")
	}
	return t, nil
}

// VerifierKey is the C2SP note verifier key of a log: origin, key hash and
// public key. The origin is the key's name: not empty, no spaces, no plus.
func VerifierKey(origin string, pub ed25519.PublicKey) (string, error) {
	if origin == "" || strings.ContainsAny(origin, "+ \t\r\n") {
		return "", fmt.Errorf("origin %.80q: empty, or with a space or plus", origin)
	}
	vkey, err := note.NewEd25519VerifierKey(origin, pub)
	if err != nil {
		return "", err
	}
	_, err = note.NewVerifier(vkey)
	return vkey, err
}

// noteSigner signs checkpoint notes; it is a note.Signer.
type noteSigner struct {
	origin string
	hash   uint32
	key    ed25519.PrivateKey
}

func newNoteSigner(origin string, key ed25519.PrivateKey) (*noteSigner, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("note key of %d octets, want %d", len(key), ed25519.PrivateKeySize)
	}
	pub := key.Public().(ed25519.PublicKey)
	if _, err := VerifierKey(origin, pub); err != nil {
		return nil, err
	}
	const algEd25519 = 1
	h := sha256.Sum256(slices.Concat([]byte(origin), []byte{'\n', algEd25519}, pub))
	return &noteSigner{origin, binary.BigEndian.Uint32(h[:]), key}, nil
}

func (s *noteSigner) Name() string                    { return s.origin }
func (s *noteSigner) KeyHash() uint32                 { return s.hash }
func (s *noteSigner) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(s.key, msg), nil }

// SignNote is the signed note of t: C2SP tlog-checkpoint under signed-note,
// with a plain Ed25519 signature by the key named t.Origin.
func SignNote(t Tree, key ed25519.PrivateKey) ([]byte, error) {
	s, err := newNoteSigner(t.Origin, key)
	if err != nil {
		return nil, err
	}
	return s.note(t)
}

func (s *noteSigner) note(t Tree) ([]byte, error) {
	return note.Sign(&note.Note{Text: t.text()}, s)
}

// OpenNote verifies a signed note by the log's verifier key vkey and returns
// the checkpoint in it. The origin must be the key's name; signatures by other
// keys, such as cosignatures, are ignored. Errors: ErrNote.
func OpenNote(raw []byte, vkey string) (Tree, error) {
	if len(raw) > maxNote {
		return Tree{}, fmt.Errorf("%w: %d octets, at most %d", ErrNote, len(raw), maxNote)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return Tree{}, fmt.Errorf("verifier key: %w", err)
	}
	n, err := note.Open(bytes.Clone(raw), note.VerifierList(v))
	if err != nil {
		return Tree{}, fmt.Errorf("%w: %w", ErrNote, err)
	}
	for _, s := range n.Sigs {
		// Package note takes several spellings of one signature.
		if b, err := base64.StdEncoding.DecodeString(s.Base64); err != nil || base64.StdEncoding.EncodeToString(b) != s.Base64 {
			return Tree{}, fmt.Errorf("%w: signature not in canonical form", ErrNote)
		}
	}
	t, err := parseTree(n.Text)
	if err != nil {
		return Tree{}, fmt.Errorf("%w: %w", ErrNote, err)
	}
	if t.Origin != v.Name() {
		return Tree{}, fmt.Errorf("%w: origin %.80q, key of %.80q", ErrNote, t.Origin, v.Name())
	}
	return t, nil
}
