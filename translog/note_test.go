package translog

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

func TestNotesAreReadByXModAndByUs(t *testing.T) {
	vkey := testVkey(t)
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		tree := Tree{testOrigin, rapid.Uint64Range(1, 1<<53-1).Draw(t, "size"), [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "root"))}
		raw, err := SignNote(tree, testKey(2))
		if err != nil {
			t.Fatal(err)
		}
		n, err := note.Open(raw, note.VerifierList(v))
		if err != nil {
			t.Fatal(err)
		}
		// ParseTree of x/mod knows one origin, its own.
		theirs, err := tlog.ParseTree([]byte(strings.Replace(n.Text, testOrigin, "go.sum database tree", 1)))
		if err != nil || uint64(theirs.N) != tree.Size || theirs.Hash != tree.Root {
			t.Fatalf("x/mod reads %+v, %v", theirs, err)
		}
		if ours, err := OpenNote(raw, vkey); err != nil || ours != tree {
			t.Fatalf("OpenNote = %+v, %v; want %+v", ours, err, tree)
		}
	})
}

func TestOneFlippedBitSpoilsANote(t *testing.T) {
	vkey := testVkey(t)
	raw, err := SignNote(Tree{testOrigin, 7, [32]byte{1}}, testKey(2))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(raw) {
		raw[i/8] ^= 1 << (i % 8)
		if got, err := OpenNote(raw, vkey); !errors.Is(err, ErrNote) {
			t.Errorf("with bit %d flipped: %+v, %v", i, got, err)
		}
		raw[i/8] ^= 1 << (i % 8)
	}
}

func TestNotesOfAnotherFormAreRefused(t *testing.T) {
	vkey := testVkey(t)
	root := strings.Repeat("A", 43) + "="
	for _, tt := range []struct{ name, text string }{
		{"an extension line", testOrigin + "\n5\n" + root + "\nmore\n"},
		{"no root", testOrigin + "\n5\n"},
		{"a zero in front", testOrigin + "\n05\n" + root + "\n"},
		{"a plus in front", testOrigin + "\n+5\n" + root + "\n"},
		{"a negative size", testOrigin + "\n-5\n" + root + "\n"},
		{"a size above 2^53-1", testOrigin + "\n9007199254740992\n" + root + "\n"},
		{"base64 that is not canonical", testOrigin + "\n5\n" + strings.Repeat("A", 42) + "B=\n"},
		{"base64url", testOrigin + "\n5\n" + "_" + strings.Repeat("A", 42) + "=\n"},
		{"a short root", testOrigin + "\n5\nAAAA\n"},
		{"size 0 with another root", testOrigin + "\n0\n" + root + "\n"},
		{"the origin of another log", "other.example\n5\n" + root + "\n"},
		{"carriage returns", testOrigin + "\r\n5\r\n" + root + "\r\n"},
	} {
		s, err := newNoteSigner(testOrigin, testKey(2))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := note.Sign(&note.Note{Text: tt.text}, s)
		if err != nil {
			continue // such a note cannot even be made
		}
		if got, err := OpenNote(raw, vkey); !errors.Is(err, ErrNote) {
			t.Errorf("%s: OpenNote = %+v, %v", tt.name, got, err)
		}
	}
}

func TestNotesNeedTheLogsOwnKey(t *testing.T) {
	tree := Tree{testOrigin, 0, emptyRoot()}
	raw, err := SignNote(tree, testKey(2))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := VerifierKey(testOrigin, testKey(9).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenNote(raw, stranger); !errors.Is(err, ErrNote) {
		t.Errorf("under another key: %v", err)
	}
	// A line by a key that nobody knows, such as a witness's, is no obstacle.
	witness, err := newNoteSigner("witness.example", testKey(9))
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(raw, note.VerifierList(mustVerifier(t, testVkey(t))))
	if err != nil {
		t.Fatal(err)
	}
	both, err := note.Sign(n, witness)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := OpenNote(both, testVkey(t)); err != nil || got != tree {
		t.Errorf("with a cosignature: %+v, %v", got, err)
	}
	if _, err := OpenNote(append(bytes.Clone(raw), make([]byte, maxNote)...), testVkey(t)); !errors.Is(err, ErrNote) {
		t.Errorf("a note that is too long: %v", err)
	}
	for _, origin := range []string{"", "a b", "a+b", "a\nb"} {
		if _, err := SignNote(Tree{Origin: origin}, testKey(2)); err == nil {
			t.Errorf("a note was signed for origin %q", origin)
		}
	}
}

func mustVerifier(t *testing.T, vkey string) note.Verifier {
	t.Helper()
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func FuzzTreeText(f *testing.F) {
	f.Add(Tree{testOrigin, 12, [32]byte{1}}.text())
	f.Add(Tree{testOrigin, 0, emptyRoot()}.text())
	f.Fuzz(func(t *testing.T, s string) {
		if tree, err := parseTree(s); err == nil && tree.text() != s {
			t.Errorf("%q reads as %+v, which prints %q", s, tree, tree.text())
		}
	})
}
