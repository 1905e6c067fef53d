package witness

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// maxNote bounds a note with all its signatures, in octets.
const maxNote = 64 << 10

// Skew is how far a witness's clock may be ahead of ours, and, when it has just
// signed, behind it.
const Skew = 2 * time.Minute

// ErrCosignature: a line by a key of the policy that is not its cosignature.
var ErrCosignature = errors.New("cosignature does not verify")

// keyring finds keys by name and hash, as note.Open asks for them.
type keyring []Key

func (r keyring) Verifier(name string, hash uint32) (note.Verifier, error) {
	for _, k := range r {
		if k.name == name && k.hash == hash {
			return k, nil
		}
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

func (r keyring) cosignatures(raw []byte, now time.Time) ([]Cosignature, error) {
	if len(raw) > maxNote {
		return nil, fmt.Errorf("a note of %d octets, at most %d", len(raw), maxNote)
	}
	n, err := note.Open(bytes.Clone(raw), r)
	var none *note.UnverifiedNoteError
	var bad *note.InvalidSignatureError
	switch {
	case errors.As(err, &none):
		return nil, nil
	case errors.As(err, &bad):
		return nil, fmt.Errorf("%w: of %.80q", ErrCosignature, bad.Name)
	case err != nil:
		return nil, err
	}
	all := make([]Cosignature, 0, len(n.Sigs))
	for _, s := range n.Sigs {
		i := slices.IndexFunc(r, func(k Key) bool { return k.name == s.Name && k.hash == s.Hash })
		c, err := cosignatureOf(r[i], s)
		if err != nil {
			return nil, fmt.Errorf("%w: of %.80q: %w", ErrCosignature, s.Name, err)
		}
		if c.At.After(now.Add(Skew)) {
			return nil, fmt.Errorf("%w: of %.80q: signed in the future, at %s", ErrCosignature, s.Name, c.At.Format(time.RFC3339))
		}
		all = append(all, c)
	}
	return all, nil
}

// Cosignatures are those in a signed note that witnesses of the policy made up
// to now; lines by others do not count. That the note is a checkpoint, and of
// which log, is for the caller to check. Errors: ErrCosignature; a note of
// another form.
func (p *Policy) Cosignatures(raw []byte, now time.Time) ([]Cosignature, error) {
	keys := make(keyring, len(p.Witnesses))
	for i, w := range p.Witnesses {
		keys[i] = w.Key
	}
	return keys.cosignatures(raw, now)
}

// textOf splits a signed note in front of its signature lines.
func textOf(raw []byte) ([]byte, error) {
	end := bytes.LastIndex(raw, []byte("\n\n"))
	if end < 0 || len(raw) > maxNote {
		return nil, errors.New("not a signed note")
	}
	return raw[:end+1], nil
}
