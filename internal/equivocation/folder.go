package equivocation

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// What a folder keeps at most: one pair of each place, so many of one signer, and
// so many in all.
const (
	maxOfSigner = 16
	maxKept     = 256
)

// A Folder keeps pairs, a file each, below the folder of an identity. It is files
// and no rows, because cards are met with while no store is open, and because a
// file is what is handed on. Several processes may use it at once.
type Folder string

// In is the folder of the identity in dir.
func In(dir string) Folder { return Folder(filepath.Join(dir, "equivocations")) }

// Keep keeps the pair of two objects whose signatures are true. It reports
// whether that is new: a pair of the same place, or a full folder, keeps nothing,
// and neither is an error. Two objects that are no pair are ErrNone.
func (f Folder) Keep(a, b *envelope.Object) (kept *Kept, err error) {
	p, err := New(a, b)
	if err != nil {
		return nil, err
	}
	raw, err := p.Encode()
	if err != nil {
		return nil, err
	}
	at, err := envelope.Canonical(p.place)
	if err != nil {
		return nil, err
	}
	signer := short(envelope.TaggedHash("signer", []byte(p.place.Signer)))
	name := signer + "-" + short(envelope.TaggedHash("place", at)) + ".json"
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	of := 0
	for _, n := range names {
		if strings.HasPrefix(n, signer+"-") {
			of++
		}
	}
	if slices.Contains(names, name) || of >= maxOfSigner || len(names) >= maxKept {
		return nil, nil
	}
	if err := durable.WriteFile(filepath.Join(string(f), name), raw, 0o600); err != nil {
		return nil, fmt.Errorf("keep equivocation %s: %w", p.ID, err)
	}
	return f.read(name)
}

func short(h envelope.Hash) string { return hex.EncodeToString(h[:8]) }

// Kept is a pair that is kept.
type Kept struct {
	ID envelope.Hash `json:"equivocation_id"`
	Place
	Objects []string      `json:"objects"` // object_ids
	KeptAt  envelope.Time `json:"kept_at"` // of the file
	Path    string        `json:"path"`
}

// List gives what is kept, by the names of the files. A file that cannot be read
// is an error beside the others.
func (f Folder) List() ([]*Kept, error) {
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	var all []*Kept
	var bad []error
	for _, name := range names {
		k, err := f.read(name)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", filepath.Join(string(f), name), err))
			continue
		}
		all = append(all, k)
	}
	return all, errors.Join(bad...)
}

// names lists the files, sorted.
func (f Folder) names() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); !strings.HasPrefix(n, ".") && strings.HasSuffix(n, ".json") {
			names = append(names, n)
		}
	}
	return names, err
}

func (f Folder) read(name string) (*Kept, error) {
	path := filepath.Join(string(f), name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxFile {
		return nil, fmt.Errorf("%d octets, at most %d", info.Size(), MaxFile)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	return &Kept{
		ID: p.ID, Place: p.place, Objects: []string{p.objects[0].ID.String(), p.objects[1].ID.String()},
		KeptAt: envelope.At(info.ModTime().Truncate(time.Second)), Path: path,
	}, nil
}
