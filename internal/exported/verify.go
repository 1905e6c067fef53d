package exported

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Report is what Verify found.
type Report struct {
	Verdict  string          `json:"verdict"` // signed, or invalid
	Reasons  []string        `json:"reasons"`
	Manifest translog.Export `json:"manifest,omitzero"`
	IssuedAt envelope.Time   `json:"issued_at,omitzero"`
	// FirstEnd is when the first page's permission ends, and UsableNow whether that
	// is to come.
	FirstEnd  envelope.Time `json:"first_end,omitzero"`
	UsableNow bool          `json:"usable_now"`
}

// IsExport reports whether a path is an export's folder.
func IsExport(path string) bool {
	info, err := os.Lstat(filepath.Join(path, ManifestFile))
	return err == nil && info.Mode().IsRegular()
}

// Verify checks an export by the card of the indexer that made it: its signature, as
// of its own time, every file, and the tree over its pages. It holds the sums.
func Verify(dir string, cards []*identity.Card, now time.Time) *Report {
	r := &Report{Verdict: "invalid", Reasons: []string{}}
	if err := r.verify(dir, cards); err != nil {
		r.Reasons = append(r.Reasons, err.Error())
		return r
	}
	r.Verdict, r.UsableNow = "signed", now.Before(r.FirstEnd.Time)
	if !r.UsableNow {
		r.Reasons = append(r.Reasons, fmt.Sprintf("The permission of at least one page ended at %s: export again, and use this no longer.", r.FirstEnd))
	}
	return r
}

func (r *Report) verify(dir string, cards []*identity.Card) error {
	if err := r.open(dir, cards); err != nil {
		return fmt.Errorf("%s: %w", ManifestFile, err)
	}
	sums, err := readSums(dir, r.Manifest.Sums)
	if err != nil {
		return err
	}
	names, err := filesOf(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := sums[name]; !ok {
			return fmt.Errorf("%q was not signed", name)
		}
	}
	if len(names) != len(sums) || uint64(len(names)) != r.Manifest.Files {
		return fmt.Errorf("%d files are here, %d were signed", len(names), r.Manifest.Files)
	}
	for _, name := range names {
		sum, err := sumOf(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if sum != sums[name] {
			return fmt.Errorf("%q is not as it was signed", name)
		}
	}
	pages, err := pagesOf(dir, names)
	if err == nil && pages != r.Manifest.Pages {
		err = fmt.Errorf("the %d pages are not those whose root was signed", pages.Count)
	}
	return err
}

// open checks the manifest's own signature.
func (r *Report) open(dir string, cards []*identity.Card) error {
	f, err := os.Open(filepath.Join(dir, ManifestFile))
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, envelope.MaxSize+2))
	if err != nil {
		return err
	}
	raw = []byte(strings.TrimSuffix(string(raw), "\n"))
	o, err := envelope.Parse(raw)
	if err != nil {
		return err
	}
	if o.Type != envelope.Export {
		return fmt.Errorf("it is of type %s", o.Type)
	}
	i := slices.IndexFunc(cards, func(c *identity.Card) bool { return c.Identity == o.Signer })
	if i < 0 {
		return fmt.Errorf("no card of %s was given", o.Signer)
	}
	if o, err = envelope.Authenticate(raw, &r.Manifest, envelope.Expecting(envelope.Export, cards[i], o.IssuedAt)); err != nil {
		return err
	}
	r.IssuedAt, r.FirstEnd = envelope.At(o.IssuedAt), envelope.At(o.ExpiresAt)
	return r.Manifest.Validate()
}

// PagesOf makes the set of all pages of an export.
func PagesOf(dir string) (translog.Set, error) {
	names, err := filesOf(dir)
	if err != nil {
		return translog.Set{}, err
	}
	return pagesOf(dir, names)
}

// pagesOf makes the set of all lines of the pages' files, by name.
func pagesOf(dir string, names []string) (translog.Set, error) {
	h := translog.NewSetHasher()
	for _, name := range names {
		if !strings.HasPrefix(name, PagesFolder+"/") {
			continue
		}
		if err := EachLine(filepath.Join(dir, filepath.FromSlash(name)), func(line []byte) error {
			h.Add(line)
			return nil
		}); err != nil {
			return translog.Set{}, err
		}
	}
	return h.Set(), nil
}

// EachLine hands out the lines of a file, without their line feeds. It holds one.
func EachLine(path string, visit func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return fmt.Errorf("%s: a line of more than %d octets", path, maxLine)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				return fmt.Errorf("%s: its last line does not end", path)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(line[:len(line)-1]); err != nil {
			return err
		}
		line = line[:0]
	}
}
