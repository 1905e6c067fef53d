package witness

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

// algCosignature is the signature type of Ed25519 cosignatures, version 1.
const algCosignature = 4

// A Key is a witness's public key under its name. It is a note.Verifier of
// Ed25519 cosignatures. The zero Key verifies nothing.
type Key struct {
	name string
	hash uint32
	pub  [ed25519.PublicKeySize]byte
}

// NewKey is the key pub of the witness of that name.
func NewKey(name string, pub ed25519.PublicKey) (Key, error) {
	if !validName(name) {
		return Key{}, fmt.Errorf("witness name %.80q: empty, or with a space or plus", name)
	}
	if len(pub) != ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("key of %s has %d octets, want %d", name, len(pub), ed25519.PublicKeySize)
	}
	h := sha256.New()
	h.Write([]byte(name + "\n"))
	h.Write([]byte{algCosignature})
	h.Write(pub)
	return Key{name, binary.BigEndian.Uint32(h.Sum(nil)), [ed25519.PublicKeySize]byte(pub)}, nil
}

func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.Contains(name, "+") &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

// ParseKey accepts exactly what String prints: a C2SP verifier key of signature
// type 0x04.
func ParseKey(vkey string) (Key, error) {
	name, rest, _ := strings.Cut(vkey, "+")
	_, key64, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(key64)
	if err != nil || len(raw) == 0 {
		return Key{}, fmt.Errorf("malformed verifier key %.120q", vkey)
	}
	if raw[0] != algCosignature {
		return Key{}, fmt.Errorf("verifier key %.120q is of type 0x%02x, want 0x04 (Ed25519 cosignatures)", vkey, raw[0])
	}
	k, err := NewKey(name, raw[1:])
	if err != nil {
		return Key{}, err
	}
	if k.String() != vkey {
		return Key{}, fmt.Errorf("malformed verifier key %.120q", vkey)
	}
	return k, nil
}

// String is the key in the form of C2SP signed-note.
func (k Key) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.name, k.hash, base64.StdEncoding.EncodeToString(append([]byte{algCosignature}, k.pub[:]...)))
}

// Name is the name under which the witness signs.
func (k Key) Name() string { return k.name }

// KeyHash is the key's short name in a signature line.
func (k Key) KeyHash() uint32 { return k.hash }

// Verify reports whether sig, 8 octets of time and a signature, is the
// witness's cosignature of text.
func (k Key) Verify(text, sig []byte) bool {
	at, ok := timeOf(sig)
	return ok && k.name != "" && ed25519.Verify(k.pub[:], message(at, text), sig[8:])
}

// message is what a witness signs: that it had seen this checkpoint, and none
// that contradicts it, at a time in Unix seconds.
func message(at uint64, text []byte) []byte {
	return append([]byte("cosignature/v1\ntime "+strconv.FormatUint(at, 10)+"\n"), text...)
}

func timeOf(sig []byte) (uint64, bool) {
	if len(sig) != 8+ed25519.SignatureSize {
		return 0, false
	}
	at := binary.BigEndian.Uint64(sig)
	return at, at <= math.MaxInt64
}

// Cosign makes the signature line, with its line feed, by which the owner of
// key cosigns a note of that text at a time.
func Cosign(name string, key ed25519.PrivateKey, text string, at time.Time) (string, error) {
	if len(key) != ed25519.PrivateKeySize || at.Unix() < 0 {
		return "", errors.New("cosign: a key or time of another form")
	}
	k, err := NewKey(name, key.Public().(ed25519.PublicKey))
	if err != nil {
		return "", err
	}
	t := uint64(at.Unix())
	sig := binary.BigEndian.AppendUint32(nil, k.hash)
	sig = binary.BigEndian.AppendUint64(sig, t)
	sig = append(sig, ed25519.Sign(key, message(t, []byte(text)))...)
	return signatureLine(name, base64.StdEncoding.EncodeToString(sig)), nil
}

func signatureLine(name, b64 string) string { return "— " + name + " " + b64 + "\n" }

// A Cosignature is one that was verified.
type Cosignature struct {
	Key  Key
	At   time.Time // when the witness signed, by its own clock
	Line string    // of the note, with its line feed
}

// cosignatureOf reads a signature that Key.Verify has accepted.
func cosignatureOf(k Key, s note.Signature) (Cosignature, error) {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(raw) < 4 || base64.StdEncoding.EncodeToString(raw) != s.Base64 {
		return Cosignature{}, errors.New("signature not in canonical form")
	}
	at, ok := timeOf(raw[4:])
	if !ok {
		return Cosignature{}, errors.New("signature without a time")
	}
	return Cosignature{k, time.Unix(int64(at), 0).UTC(), signatureLine(s.Name, s.Base64)}, nil
}
