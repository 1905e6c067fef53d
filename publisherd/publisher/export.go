package publisher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/convert"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// ErrIncomplete is returned by an export of a source that holds pages which
// cannot be read: without them, they would be gone from the export.
var ErrIncomplete = errors.New("pages cannot be read")

// ExportOptions say what is exported, and where to.
type ExportOptions struct {
	Format string // tct, scp, rbt or arc
	Dir    string // made if it is not there
	// BaseURL is the URL by which a web server hands Dir out; empty stands for
	// the source's own.
	BaseURL string
	// SkipBroken leaves pages that cannot be read out.
	SkipBroken bool
	// Generated is the time that collections of scp, and sitemaps of arc, carry; for
	// scp it must grow from one export to the next. The same source, folder and time give the same octets.
	Generated time.Time

	Snapshot     bool   // scp: write the full state in any case
	Section      string // scp: its section; empty for the source's name
	Nginx        string // tct: folder for the configuration of nginx; empty for none
	KeepListings bool   // tct: export pages that only list others as well

	ARC ARCOptions

	BurrowOptions // rbt
}

// An ExportReport tells what an export did. Its JSON form is that of
// `publisherd export --json`.
type ExportReport struct {
	Collection string `json:"collection"`
	Format     string `json:"format"`
	Dir        string `json:"out"`
	Pages      int    `json:"pages"`
	Written    int    `json:"written"` // pages: new or changed
	Removed    int    `json:"removed"`
	// Type and File are of the collection that scp wrote; empty if nothing has
	// changed.
	Type string `json:"type,omitempty"`
	File string `json:"file,omitempty"`
	// Delta is the delta that arc wrote. Withheld are pages that arc leaves out
	// because they say that they are not for all, and Personal those in which
	// something looks like personal data.
	Delta    string   `json:"delta,omitempty"`
	Withheld []string `json:"withheld,omitempty"`
	Personal []string `json:"personal,omitempty"`
	// RID is of the manifest that rbt wrote, and Short what it lacks of full
	// conformance.
	RID   string `json:"rid,omitempty"`
	Short string `json:"short_of_full,omitempty"`
	// Contradictions tells where texts for agents in the folder (llms.txt,
	// AGENTS.md) say otherwise than the manifest that rbt wrote.
	Contradictions []string `json:"contradictions,omitempty"`
	// Lost says what the conversion loses, with the number of pages that lose it.
	Lost     map[string]int `json:"lost"`
	Listings []string       `json:"listings"` // left out: pages that only list others
	Skipped  []SkippedItem  `json:"skipped"`
}

// An exporter is one call of Export.
type exporter struct {
	s      Source
	o      ExportOptions
	source reader
	report ExportReport
	broken int
}

// Export writes all pages of the source as a tree or as collections that a web
// server can hand out, with their sitemap. What is there already stays as it
// is: of tct only changed files are written, of scp a delta since the last
// export to the folder. Each file is replaced as a whole, and the sitemap last.
//
// It reads the source itself, holds one page and a row for each, and needs no
// store: it may run beside the daemon.
func (s Source) Export(ctx context.Context, dir string, o ExportOptions) (ExportReport, error) {
	x := &exporter{s: s, o: o, report: ExportReport{
		Collection: s.Name, Format: o.Format, Dir: o.Dir,
		Lost: map[string]int{}, Listings: []string{}, Skipped: []SkippedItem{},
	}}
	if err := x.open(dir); err != nil {
		return x.report, err
	}
	mirror, err := os.MkdirTemp("", "publisherd-export-*")
	if err != nil {
		return x.report, err
	}
	defer os.RemoveAll(mirror)
	if x.source, err = s.reader(dir, mirror); err != nil {
		return x.report, err
	}
	defer closeReader(x.source)
	switch o.Format {
	case "tct":
		err = x.tct(ctx)
	case "scp":
		err = x.scp(ctx)
	case "arc":
		err = x.arc(ctx)
	case "rbt":
		err = x.rbt(ctx)
	default:
		err = fmt.Errorf("nothing is exported as %.40q; say tct, scp, rbt or arc", o.Format)
	}
	if err != nil {
		return x.report, fmt.Errorf("export of %s: %w", s.Name, err)
	}
	return x.report, nil
}

// open fills in what stands for empty.
func (x *exporter) open(dir string) error {
	if x.o.BaseURL == "" {
		x.o.BaseURL = x.s.BaseURL
	}
	if x.o.BaseURL == "" && x.s.isRemote() {
		own, err := x.s.origin()
		if err != nil {
			return err
		}
		x.o.BaseURL = own + "/"
	}
	if x.o.BaseURL == "" && x.o.GitRemote == "" {
		return fmt.Errorf("export of %s: no base URL; say by which URL %s is handed out", x.s.Name, x.o.Dir)
	}
	if x.o.Section == "" {
		x.o.Section = x.s.Name
	}
	if x.o.BaseURL == "" {
		return nil
	}
	base, err := content.CanonicalURL(x.o.BaseURL)
	if err != nil {
		return fmt.Errorf("export of %s: base URL: %w", x.s.Name, err)
	}
	if base[len(base)-1] != '/' {
		base += "/"
	}
	x.o.BaseURL = base
	return nil
}

// pages yields the source's pages. It ends with an error if some of them are
// missing that may still be there.
func (x *exporter) pages(ctx context.Context) iter.Seq2[content.Page, error] {
	skip := func(k content.Skipped) {
		x.report.Skipped = append(x.report.Skipped, SkippedItem{k.Location, k.Reason})
		if k.Err != nil && !errors.Is(k.Err, scp.ErrOdd) {
			x.broken++
		}
	}
	return func(yield func(content.Page, error) bool) {
		n := 0
		for p, err := range x.source.Pages(ctx, func(string) ([32]byte, bool) { return [32]byte{}, false }, skip) {
			n++
			if !yield(p, err) || err != nil {
				return
			}
		}
		switch {
		case x.broken > 0 && !x.o.SkipBroken:
			yield(content.Page{}, fmt.Errorf("%w: %d, the first is %s (%s); mend them, or say --skip-broken", ErrIncomplete,
				x.broken, x.report.Skipped[0].Location, x.report.Skipped[0].Reason))
		case n == 0:
			yield(content.Page{}, errors.New("the source holds no page; nothing was written"))
		}
	}
}

// lose counts what a page loses.
func (x *exporter) lose(lost []string) {
	for _, l := range lost {
		x.report.Lost[l]++
	}
}

func (x *exporter) tct(ctx context.Context) error {
	var tree *tct.Export
	for p, err := range x.pages(ctx) {
		if err != nil {
			return err
		}
		if tree == nil { // the source's policy is known only now
			if tree, err = tct.OpenExport(x.tctConfig()); err != nil {
				return err
			}
		}
		if p, err = x.asTCT(p); err != nil {
			return err
		}
		if err := tree.Add(p); err != nil {
			return err
		}
	}
	done, err := tree.Commit()
	x.report.Pages, x.report.Written, x.report.Removed = done.Pages, done.Written, done.Removed
	x.report.Listings = append(x.report.Listings, done.Listings...)
	return err
}

// tctConfig passes the policy of a source on: what it denies stays denied.
func (x *exporter) tctConfig() tct.ExportConfig {
	c := tct.ExportConfig{
		Dir: x.o.Dir, Mapping: tct.Mapping{Base: x.o.BaseURL}, KeepListings: x.o.KeepListings, Nginx: x.o.Nginx,
	}
	if t, ok := x.source.(interface{ Run() *tct.Run }); ok && t.Run().PolicyURL != "" {
		policy := t.Run().Policy
		c.Policy = &policy
	}
	return c
}

// asTCT turns a page into one whose payload is TCT's.
func (x *exporter) asTCT(p content.Page) (content.Page, error) {
	p, lost, err := convert.ToTCT(p)
	x.lose(lost)
	return p, err
}

func (x *exporter) scp(ctx context.Context) error {
	lines := func(yield func([]byte, error) bool) {
		for p, err := range x.pages(ctx) {
			var line []byte
			if err == nil {
				var lost []string
				line, lost, err = convert.ToSCP(p)
				x.lose(lost)
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
	done, err := scp.Export(ctx, scp.ExportConfig{
		Dir: x.o.Dir, BaseURL: x.o.BaseURL, Section: x.o.Section, Generated: x.o.Generated, Snapshot: x.o.Snapshot,
		Packing: scp.Packing{Compression: scp.Zstd},
	}, lines)
	x.report.Pages, x.report.Written, x.report.Removed = int(done.Pages), int(done.Added+done.Changed), int(done.Deleted)
	x.report.Type, x.report.File = string(done.Type), done.File
	return err
}
