package publisher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Source is one configured collection: a file sources/NAME.yaml.
type Source struct {
	Name     string `yaml:"name" json:"name"`
	Kind     string `yaml:"kind" json:"kind"`         // site
	Location string `yaml:"location" json:"location"` // folder
	BaseURL  string `yaml:"base_url,omitempty" json:"base_url,omitempty"`
	StripExt bool   `yaml:"strip_ext,omitempty" json:"strip_ext,omitempty"` // URLs without .html
	// SkipClasses and SkipIDs replace the default list of class and id words
	// that mark navigation.
	SkipClasses []string `yaml:"skip_classes,omitempty" json:"skip_classes,omitempty"`
	SkipIDs     []string `yaml:"skip_ids,omitempty" json:"skip_ids,omitempty"`
}

// ErrNoSource is returned for a source that is not configured.
var ErrNoSource = errors.New("no such source")

// checkName accepts what can be a file's name and a part of a key.
func checkName(name string) error {
	if name == "" || len(name) > 64 {
		return fmt.Errorf("name %.80q: 1 to 64 characters", name)
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (i == 0 || (c != '-' && c != '_' && c != '.')) {
			return fmt.Errorf("name %.80q: lower-case letters, digits, and - _ . behind the first character", name)
		}
	}
	return nil
}

// A reader gives the pages of a collection.
type reader interface {
	Check() error
	Pages(ctx context.Context, known func(location string) ([32]byte, bool), skip func(content.Skipped)) iter.Seq2[content.Page, error]
	Fetch(ctx context.Context, location string) (content.Page, error)
}

// reader makes the reader of the source's kind, and the version of its
// extraction.
func (s Source) reader(dir string) (reader, string, error) {
	if err := checkName(s.Name); err != nil {
		return nil, "", err
	}
	location := s.Location
	if !filepath.IsAbs(location) {
		location = filepath.Join(dir, location)
	}
	switch s.Kind {
	case "site":
		return s.site(location)
	case "":
		return nil, "", fmt.Errorf("source %s: no kind", s.Name)
	}
	return nil, "", fmt.Errorf("source %s: kind %.40q is not known; this edition reads: site", s.Name, s.Kind)
}

// AddSource checks s and writes its file. An existing source of the name is
// replaced only by one of the same kind.
func AddSource(dir string, s Source) error {
	r, _, err := s.reader(dir)
	if err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return fmt.Errorf("source %s: %w", s.Name, err)
	}
	b, err := yaml.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, "sources", s.Name+".yaml"), b, 0o644)
}

// RemoveSource removes the file of a source; its journal stays, so that what
// was acknowledged can still be proven.
func RemoveSource(dir, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(dir, "sources", name+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrNoSource, name)
	}
	return err
}

// ReadSource reads one source.
func ReadSource(dir, name string) (Source, error) {
	if err := checkName(name); err != nil {
		return Source{}, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "sources", name+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return Source{}, fmt.Errorf("%w: %s", ErrNoSource, name)
	}
	if err != nil {
		return Source{}, err
	}
	var s Source
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil {
		return Source{}, fmt.Errorf("source %s: %w", name, err)
	}
	if s.Name != name {
		return Source{}, fmt.Errorf("source %s: the file names %q", name, s.Name)
	}
	return s, nil
}

// Sources lists the configured sources by name.
func Sources(dir string) ([]Source, error) {
	files, err := filepath.Glob(filepath.Join(dir, "sources", "*.yaml"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	var all []Source
	for _, f := range files {
		s, err := ReadSource(dir, strings.TrimSuffix(filepath.Base(f), ".yaml"))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (s Source) site(location string) (reader, string, error) {
	r := &site.Site{Dir: location, BaseURL: s.BaseURL, StripExt: s.StripExt}
	if len(s.SkipClasses) > 0 || len(s.SkipIDs) > 0 {
		rules := site.DefaultRules()
		if len(s.SkipClasses) > 0 {
			rules.Classes = s.SkipClasses
		}
		if len(s.SkipIDs) > 0 {
			rules.IDs = s.SkipIDs
		}
		r.Rules = &rules
	}
	return r, r.Extraction(), nil
}

// Check reads the source's configuration and looks whether its location is
// there.
func (s Source) Check(dir string) error {
	r, _, err := s.reader(dir)
	if err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return fmt.Errorf("source %s: %w", s.Name, err)
	}
	return nil
}

// A ScanLine is one page as `publisherd source scan` shows it.
type ScanLine struct {
	URL         string        `json:"url"`
	Title       string        `json:"title"`
	Fingerprint envelope.Hash `json:"fingerprint"`
	Digest      envelope.Hash `json:"digest"`
	Size        int           `json:"size"`
	Modified    envelope.Time `json:"modified"`
	Warnings    []string      `json:"warnings"`
}

// A ScanSum ends the lines of a scan.
type ScanSum struct {
	Pages   int           `json:"pages"`
	Bytes   int64         `json:"bytes"`
	Skipped []SkippedItem `json:"skipped"`
}

// Scan reads the whole source and changes nothing.
func (s Source) Scan(ctx context.Context, dir string, each func(ScanLine) error) (ScanSum, error) {
	sum := ScanSum{Skipped: []SkippedItem{}}
	r, _, err := s.reader(dir)
	if err != nil {
		return sum, err
	}
	skip := func(k content.Skipped) { sum.Skipped = append(sum.Skipped, SkippedItem{k.Location, k.Reason}) }
	for p, err := range r.Pages(ctx, func(string) ([32]byte, bool) { return [32]byte{}, false }, skip) {
		if err != nil {
			return sum, fmt.Errorf("source %s: %w", s.Name, err)
		}
		sum.Pages++
		sum.Bytes += int64(len(p.Payload))
		l := ScanLine{
			URL: p.URL, Title: p.Title, Fingerprint: p.Fingerprint, Digest: p.Digest, Size: len(p.Payload),
			Modified: envelope.At(p.Modified), Warnings: p.Warnings,
		}
		if l.Warnings == nil {
			l.Warnings = []string{}
		}
		if err := each(l); err != nil {
			return sum, err
		}
	}
	return sum, nil
}
