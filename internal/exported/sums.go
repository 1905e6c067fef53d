package exported

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// WriteSums writes the sums of every file of a folder, by name, and returns the
// hash and the number of its lines. It holds a line for each file.
func WriteSums(dir string) (sum [32]byte, files uint64, err error) {
	names, err := filesOf(dir)
	if err != nil {
		return sum, 0, err
	}
	h := sha256.New()
	path := filepath.Join(dir, SumsFile)
	// Replaced, and not written into: the octets belong to the older export as well.
	f, err := os.CreateTemp(dir, ".sums-*")
	if err != nil {
		return sum, 0, err
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriter(io.MultiWriter(f, h))
	for _, name := range names {
		of, err := sumOf(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			f.Close()
			return sum, 0, err
		}
		fmt.Fprintf(w, "%x  %s\n", of, name) // a Writer keeps its error until Flush
	}
	err = errors.Join(w.Flush(), f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return [32]byte(h.Sum(nil)), uint64(len(names)), err
}

// filesOf lists the files that the sums are of. A name that a line could not hold is
// an error, and so is what is no file.
func filesOf(dir string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() || name == SumsFile || name == ManifestFile || name == markFile:
			return nil
		case !d.Type().IsRegular() || strings.ContainsAny(name, "\n\r\\"):
			return fmt.Errorf("%q does not belong into an export", name)
		}
		names = append(names, name)
		return nil
	})
	slices.Sort(names)
	return names, err
}

func sumOf(path string) (sum [32]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [32]byte(h.Sum(nil)), nil
}

// readSums reads the sums by name, if their own hash is the one that is named.
func readSums(dir string, want [32]byte) (map[string][32]byte, error) {
	info, err := os.Lstat(filepath.Join(dir, SumsFile))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSums {
		return nil, fmt.Errorf("%s is no file of at most %d octets", SumsFile, maxSums)
	}
	raw, err := os.ReadFile(filepath.Join(dir, SumsFile))
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(raw) != want {
		return nil, fmt.Errorf("%s is not the one that was signed", SumsFile)
	}
	sums := make(map[string][32]byte)
	for line := range strings.Lines(string(raw)) {
		digits, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		sum, err := hex.DecodeString(digits)
		if !ok || err != nil || len(sum) != sha256.Size || !fs.ValidPath(name) {
			return nil, fmt.Errorf("%s: a line that is none: %.200q", SumsFile, line)
		}
		sums[name] = [32]byte(sum)
	}
	return sums, nil
}
