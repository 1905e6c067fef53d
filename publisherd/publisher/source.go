package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Source is one configured collection: a file sources/NAME.yaml.
type Source struct {
	Name string `yaml:"name" json:"name"`
	// Kind is site (a folder of HTML and Markdown), tct (Collaboration Tunnel),
	// scp (Site Content Protocol), rbt (a Rabit burrow) or arc (ARC
	// sitemap).
	Kind string `yaml:"kind" json:"kind"`
	// Location is a folder; for tct, scp and arc also a sitemap or collection
	// file, or the http or https URL of one. For tct and arc a URL whose path does
	// not end in .json (arc: or .yaml) is a page that tells where the sitemap is:
	// that page is asked for anew at each round. For rbt it is a Git repository,
	// here or by https, ssh or user@host:path, a folder with a manifest, or the
	// http or https URL of one.
	Location string `yaml:"location" json:"location"`
	// BaseURL is the URL of a site's folder. For all others it may be empty: it
	// is where the pages are, if that is elsewhere than the location. Of scp,
	// only the host counts; of rbt, it stands for the HTTPS root that the
	// manifest names.
	BaseURL  string `yaml:"base_url,omitempty" json:"base_url,omitempty"`
	StripExt bool   `yaml:"strip_ext,omitempty" json:"strip_ext,omitempty"` // site: URLs without .html
	// SkipClasses and SkipIDs replace a site's default list of class and id
	// words that mark navigation.
	SkipClasses []string `yaml:"skip_classes,omitempty" json:"skip_classes,omitempty"`
	SkipIDs     []string `yaml:"skip_ids,omitempty" json:"skip_ids,omitempty"`

	// Section limits scp to one section; empty takes all.
	Section string `yaml:"section,omitempty" json:"section,omitempty"`

	Git    `yaml:",inline"`
	Remote `yaml:",inline"`
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

// AddSource checks s and writes its file. An existing source of the name is
// replaced only by one of the same kind.
func AddSource(dir string, s Source) error {
	if err := s.Check(dir); err != nil {
		return err
	}
	b, err := yaml.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, "sources", s.Name+".yaml"), b, 0o644)
}

// RemoveSource removes the file of a source, and what it held of a server; its
// journal stays, so that what was acknowledged can still be proven.
func RemoveSource(dir, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(dir, "sources", name+".yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrNoSource, name)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(mirrorDir(dir, name)), keepPreferences(dir, name, content.Preferences{}))
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

// SourceNames lists the names of the configured sources.
func SourceNames(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "sources", "*.yaml"))
	sort.Strings(files)
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".yaml")
	}
	return files, err
}

// Sources lists the configured sources by name.
func Sources(dir string) ([]Source, error) {
	names, err := SourceNames(dir)
	if err != nil {
		return nil, err
	}
	var all []Source
	for _, name := range names {
		s, err := ReadSource(dir, name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
