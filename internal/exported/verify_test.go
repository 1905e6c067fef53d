package exported

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A tampering changes an export; reason is what is told of it, nothing if it is as it
// was signed.
type tampering struct {
	name   string
	change func(m *maker) error
	reason string
}

func tamperings() []tampering {
	replace := func(name, from, to string) func(m *maker) error {
		return func(m *maker) error {
			path := filepath.Join(m.dir, name)
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if !bytes.Contains(raw, []byte(from)) {
				return errors.New(name + " does not hold " + from)
			}
			return os.WriteFile(path, bytes.Replace(raw, []byte(from), []byte(to), 1), 0o644)
		}
	}
	return []tampering{
		{"nothing", func(*maker) error { return nil }, ""},
		{"an empty folder more", func(m *maker) error { return os.Mkdir(filepath.Join(m.dir, "data/d"), 0o755) }, ""},
		{"a file more", func(m *maker) error { return os.WriteFile(filepath.Join(m.dir, "data/c/stray"), nil, 0o644) }, "was not signed"},
		{"a file less", func(m *maker) error { return os.Remove(filepath.Join(m.dir, "data/c/same")) }, "2 files are here, 3 were signed"},
		{"an octet of a page", replace("data/c/page", "1", "2"), "is not as it was signed"},
		{"an octet of a line", replace("pages/c.jsonl", "com/b", "com/c"), "is not as it was signed"},
		{"the sums", replace(SumsFile, "data/c/page", "data/c/pagf"), "not the one that was signed"},
		{"no sums", func(m *maker) error { return os.Remove(filepath.Join(m.dir, SumsFile)) }, "no such file"},
		{"the purpose", replace(ManifestFile, "search.index", "archive.pages"), "export.json"},
		{"an octet of the signature", func(m *maker) error {
			path := filepath.Join(m.dir, ManifestFile)
			raw, err := os.ReadFile(path)
			if err == nil {
				i := bytes.Index(raw, []byte(`"sig`)) + 40
				raw[i] ^= 1
				err = os.WriteFile(path, raw, 0o644)
			}
			return err
		}, "export.json"},
		{"a link in the place of a page", func(m *maker) error {
			path := filepath.Join(m.dir, "data/c/same")
			if err := os.Rename(path, m.dir+".same"); err != nil {
				return err
			}
			return os.Symlink(m.dir+".same", path)
		}, "does not belong into an export"},
		{"a name that a line of the sums can not hold", func(m *maker) error {
			return os.WriteFile(filepath.Join(m.dir, "data/c/a\nb"), nil, 0o644)
		}, "does not belong into an export"},
		{"no manifest", func(m *maker) error { return os.Remove(filepath.Join(m.dir, ManifestFile)) }, "export.json"},
		{"a manifest without end", func(m *maker) error {
			return os.WriteFile(filepath.Join(m.dir, ManifestFile), bytes.Repeat([]byte{' '}, 1<<20), 0o644)
		}, "export.json"},
	}
}

// TestVerifyTellsWhatWasNotSigned changes an export in every way that a folder can be
// changed.
func TestVerifyTellsWhatWasNotSigned(t *testing.T) {
	for _, tt := range tamperings() {
		t.Run(tt.name, func(t *testing.T) {
			m := newMaker(t)
			m.export(1)
			check(t, tt.change(m))
			r := m.verify()
			if tt.reason == "" {
				if r.Verdict != "signed" || len(r.Reasons) != 0 || !r.UsableNow || r.Manifest.Pages.Count != 2 {
					t.Errorf("%+v", r)
				}
				return
			}
			if r.Verdict != "invalid" || r.UsableNow || !strings.Contains(strings.Join(r.Reasons, "; "), tt.reason) {
				t.Errorf("%s, %q, want %q", r.Verdict, r.Reasons, tt.reason)
			}
		})
	}
}

func TestAnExportIsJudgedByItsMakersCardAndTime(t *testing.T) {
	m := newMaker(t)
	m.export(1)
	other := newMaker(t)
	if r := Verify(m.dir, nil, noon); r.Verdict != "invalid" || !strings.Contains(r.Reasons[0], "no card") {
		t.Errorf("without a card: %+v", r)
	}
	if r := Verify(m.dir, []*identity.Card{other.local.Card}, noon); r.Verdict != "invalid" {
		t.Errorf("by the card of another key: %+v", r)
	}
	if r := Verify(m.dir, []*identity.Card{m.local.Card}, noon.Add(time.Hour)); r.Verdict != "signed" || r.UsableNow || len(r.Reasons) != 1 {
		t.Errorf("in the second in which the first permission ends: %+v", r)
	}
}

// FuzzEachLine: the lines are all that there is, or it is an error.
func FuzzEachLine(f *testing.F) {
	f.Add([]byte("a\n\nb\n"))
	f.Add([]byte("a"))
	f.Add(bytes.Repeat([]byte{'x'}, 70<<10))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "lines")
		check(t, os.WriteFile(path, raw, 0o600))
		var all []byte
		err := EachLine(path, func(line []byte) error {
			all = append(append(all, line...), '\n')
			return nil
		})
		if (err == nil) != (len(raw) == 0 || raw[len(raw)-1] == '\n') || err == nil && !bytes.Equal(all, raw) {
			t.Errorf("%q becomes %q, %v", raw, all, err)
		}
	})
}

// FuzzSums: a file of sums is refused, or each of its lines names a path inside.
func FuzzSums(f *testing.F) {
	f.Add([]byte(strings.Repeat("0a", 32) + "  data/c/page\n"))
	f.Add([]byte(strings.Repeat("0a", 32) + "  ../page\n"))
	f.Add([]byte("0a  page\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, SumsFile), raw, 0o600))
		sums, err := readSums(dir, sha256.Sum256(raw))
		if err != nil {
			return
		}
		for name := range sums {
			if filepath.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") || name == "" {
				t.Errorf("%q leads out of the folder", name)
			}
		}
		if _, err := readSums(dir, [32]byte{1}); err == nil {
			t.Error("sums are taken that were not signed")
		}
	})
}

// FuzzExportManifest: a manifest is refused, or it is what the indexer signed, octet by octet
// but for a line feed. Whatever the folder says besides, checking it ends.
func FuzzExportManifest(f *testing.F) {
	m := newMaker(f)
	m.export(1)
	good, err := os.ReadFile(filepath.Join(m.dir, ManifestFile))
	check(f, err)
	f.Add(good)
	f.Add(bytes.TrimSuffix(good, []byte("\n")))
	f.Add(append(bytes.Clone(good), '\n'))
	f.Add(bytes.Replace(good, []byte(`"count":2`), []byte(`"count":3`), 1))
	f.Add([]byte("{}"))
	cards := []*identity.Card{m.local.Card}
	f.Fuzz(func(t *testing.T, raw []byte) {
		check(t, os.WriteFile(filepath.Join(m.dir, ManifestFile), raw, 0o600))
		r := Verify(m.dir, cards, noon)
		same := bytes.Equal(bytes.TrimSuffix(raw, []byte("\n")), bytes.TrimSuffix(good, []byte("\n")))
		if (r.Verdict == "signed") != same {
			t.Errorf("%s: %q of %q", r.Verdict, r.Reasons, raw)
		}
	})
}
