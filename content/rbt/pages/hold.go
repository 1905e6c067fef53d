package pages

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A hold keeps resources by their SHA-256, and the list of the last run. What is
// read from it is verified again: a file that was changed is as if it was not
// there (TestAHeldFileThatWasChangedIsFetchedAgain).
type hold struct{ dir string }

func openHold(dir string) (*hold, error) {
	return &hold{dir}, os.MkdirAll(dir, 0o700)
}

func (h *hold) path(sum [32]byte) string {
	digits := hex.EncodeToString(sum[:])
	return filepath.Join(h.dir, digits[:2], digits)
}

// has reports whether the resource is held as it was.
func (h *hold) has(sum [32]byte) bool {
	_, err := h.read(sum)
	return err == nil
}

func (h *hold) read(sum [32]byte) ([]byte, error) {
	data, err := os.ReadFile(h.path(sum))
	if err == nil && sha256.Sum256(data) != sum {
		err = fs.ErrNotExist
	}
	return data, err
}

// put keeps a resource. It need not be durable: what a crash tears is read as
// not there.
func (h *hold) put(sum [32]byte, data []byte) error {
	if h.has(sum) {
		return nil
	}
	path := h.path(sum)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

const listFile = "list.jsonl"

// save keeps the list of a run.
func (h *hold) save(l *list) error {
	var b bytes.Buffer
	head, err := json.Marshal(l.head)
	b.Write(append(head, '\n'))
	for _, r := range l.rows {
		line, lineErr := json.Marshal(r)
		err = errors.Join(err, lineErr)
		b.Write(append(line, '\n'))
	}
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(h.dir, listFile), b.Bytes(), 0o600)
}

// list reads it back.
func (h *hold) list() (*list, error) {
	f, err := os.Open(filepath.Join(h.dir, listFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var l list
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for n := 0; s.Scan(); n++ {
		var r row
		if n == 0 {
			err = json.Unmarshal(s.Bytes(), &l.head)
		} else if err = json.Unmarshal(s.Bytes(), &r); err == nil {
			l.rows = append(l.rows, r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", listFile, err)
		}
	}
	return &l, s.Err()
}

// keep removes the resources that no row names. Those of rows stay, so that a
// page can be made again without its server.
func (h *hold) keep(rows []row) error {
	wanted := make(map[string]bool, len(rows))
	for _, r := range rows {
		wanted[hex.EncodeToString(r.Sum[:])] = true
	}
	return filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == listFile || wanted[d.Name()] {
			return err
		}
		return os.Remove(path)
	})
}
