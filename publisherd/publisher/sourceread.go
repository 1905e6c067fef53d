package publisher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/arc"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A reader gives the pages of a collection.
type reader interface {
	Check() error
	Pages(ctx context.Context, known func(location string) ([32]byte, bool), skip func(content.Skipped)) iter.Seq2[content.Page, error]
	Fetch(ctx context.Context, location string) (content.Page, error)
	Extraction() string
}

// mirrorDir is where a source of collections keeps what it holds. All of it
// can be had anew from the source.
func mirrorDir(dir, name string) string { return filepath.Join(dir, "mirrors", name) }

// reader makes the reader of the source's kind. It reads nothing of the source
// yet. What the reader holds outside of memory goes below mirror.
func (s Source) reader(dir, mirror string) (reader, error) {
	if err := checkName(s.Name); err != nil {
		return nil, err
	}
	r, err := s.kind(dir, mirror)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Name, err)
	}
	return r, nil
}

func (s Source) kind(dir, mirror string) (reader, error) {
	if err := errors.Join(s.Remote.check(s), s.Git.check(s)); err != nil {
		return nil, err
	}
	switch s.Kind {
	case "site":
		return s.site(s.path(dir)), nil
	case "tct":
		return s.tct(dir)
	case "scp":
		return s.scp(dir, mirror)
	case "arc":
		return s.arc(dir, mirror)
	case "rbt":
		return s.rbt(dir, mirror)
	case "":
		return nil, errors.New("no kind")
	}
	return nil, fmt.Errorf("kind %.40q is not known; this edition reads: site, tct, scp, rbt, arc", s.Kind)
}

// path is where a local source is.
func (s Source) path(dir string) string {
	if filepath.IsAbs(s.Location) || s.isRemote() {
		return s.Location
	}
	return filepath.Join(dir, s.Location)
}

func (s Source) site(location string) reader {
	return &site.Site{Dir: location, BaseURL: s.BaseURL, StripExt: s.StripExt, Rules: s.rules()}
}

// rules say what of a page's HTML is navigation; nil stands for the defaults.
func (s Source) rules() *site.Rules {
	if len(s.SkipClasses) == 0 && len(s.SkipIDs) == 0 {
		return nil
	}
	rules := site.DefaultRules()
	if len(s.SkipClasses) > 0 {
		rules.Classes = s.SkipClasses
	}
	if len(s.SkipIDs) > 0 {
		rules.IDs = s.SkipIDs
	}
	return &rules
}

func (s Source) tct(dir string) (reader, error) {
	c := tct.SourceConfig{Location: s.path(dir), BaseURL: s.BaseURL}
	if !s.isRemote() {
		return tct.NewSource(c)
	}
	client, err := s.client(dir)
	if err != nil {
		return nil, err
	}
	r := &tctReader{memory: new(sitemapMemory)}
	c.Memory = r.memory
	c.Agent = tct.AgentConfig{Client: client, Origins: s.AllowOrigins, Product: product, IgnoreRobots: s.IgnoreRobots}
	r.Source, err = tct.NewSource(c)
	return r, err
}

func (s Source) scp(dir, mirror string) (reader, error) {
	c := scp.SourceConfig{Location: s.path(dir), Dir: mirror, Now: time.Now, Section: s.Section, Product: product}
	if s.BaseURL != "" {
		host, err := hostOf(s.BaseURL)
		if err != nil {
			return nil, err
		}
		c.Hosts = []string{host}
	}
	if s.isRemote() {
		client, err := s.client(dir)
		if err != nil {
			return nil, err
		}
		own, err := s.origin()
		if err != nil {
			return nil, err
		}
		c.Client, c.Origins = client, append([]string{own}, s.AllowOrigins...)
	}
	return scp.NewSource(c)
}

func (s Source) arc(dir, mirror string) (r reader, err error) {
	c := arc.SourceConfig{
		Location: s.path(dir), Dir: mirror, BaseURL: s.BaseURL, Origins: s.AllowOrigins, Product: product, IgnoreRobots: s.IgnoreRobots,
		Rules: s.rules(), Sample: s.Sample,
	}
	if s.isRemote() {
		if c.Client, err = s.client(dir); err != nil {
			return nil, err
		}
	}
	return arc.NewSource(c)
}

// Check reads the source's configuration and looks whether its location is
// there, unless that is on a server.
func (s Source) Check(dir string) error {
	r, err := s.reader(dir, mirrorDir(dir, s.Name))
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
	Format      string        `json:"format"`
	Fingerprint envelope.Hash `json:"fingerprint"`
	Digest      envelope.Hash `json:"digest"`
	Size        int           `json:"size"`
	Modified    envelope.Time `json:"modified"`
	Warnings    []string      `json:"warnings"`
	Preferences []string      `json:"preferences"` // that the page states itself
}

// A ScanSum ends the lines of a scan. Warnings are about the source as a whole,
// and Preferences what it says about purposes.
type ScanSum struct {
	Pages       int           `json:"pages"`
	Bytes       int64         `json:"bytes"`
	Skipped     []SkippedItem `json:"skipped"`
	Warnings    []string      `json:"warnings"`
	Preferences []string      `json:"preferences"`
}

// Scan reads the whole source and changes nothing, not even what is remembered
// of a server.
func (s Source) Scan(ctx context.Context, dir string, each func(ScanLine) error) (sum ScanSum, err error) {
	sum = ScanSum{Skipped: []SkippedItem{}, Warnings: []string{}, Preferences: []string{}}
	mirror, err := os.MkdirTemp("", "publisherd-scan-*")
	if err != nil {
		return sum, err
	}
	defer os.RemoveAll(mirror)
	r, err := s.reader(dir, mirror)
	if err != nil {
		return sum, err
	}
	defer closeReader(r)
	skip := func(k content.Skipped) { sum.Skipped = append(sum.Skipped, SkippedItem{k.Location, k.Reason}) }
	for p, err := range r.Pages(ctx, func(string) ([32]byte, bool) { return [32]byte{}, false }, skip) {
		if err != nil {
			return sum, fmt.Errorf("source %s: %w", s.Name, err)
		}
		sum.Pages++
		sum.Bytes += int64(len(p.Payload))
		l := ScanLine{
			URL: p.URL, Title: p.Title, Format: p.Format.String(), Fingerprint: p.Fingerprint, Digest: p.Digest,
			Size: len(p.Payload), Modified: envelope.At(p.Modified), Warnings: p.Warnings, Preferences: []string{},
		}
		for _, s := range p.Preferences.Stated() {
			l.Preferences = append(l.Preferences, s.String())
		}
		if l.Warnings == nil {
			l.Warnings = []string{}
		}
		if err := each(l); err != nil {
			return sum, err
		}
	}
	if t, ok := r.(teller); ok {
		told := t.Told()
		sum.Warnings = append(sum.Warnings, told.Warnings...)
		sum.Preferences = append(sum.Preferences, told.Preferences.Lines()...)
	}
	return sum, nil
}
