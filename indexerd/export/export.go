package export

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Options say what is exported, and where to.
type Options struct {
	Purpose    grants.Purpose
	ThirdParty bool   // for others than the indexer itself: what policy lets be passed on
	Format     string // one of Formats
	Dir        string // made if it is not there
	// BaseURL is the URL by which Dir is handed out, canonical and with a slash at its
	// end; empty: the files stand for the publisher's own site.
	BaseURL string
	// Publisher and Collection leave all others out, unless they are empty.
	Publisher  envelope.Name
	Collection string
	// Generated is the time that the formats carry; for scp it must grow.
	Generated time.Time
}

// Formats are those that can be asked for.
func Formats() []string { return []string{"scp", "tct", "jsonl", "rbt", "arc"} }

// emptyLife is how long an export says of itself that nothing may be used.
const emptyLife = 24 * time.Hour

// attempts bounds how often an export is written while permissions end meanwhile.
const attempts = 3

// ErrEnding is returned when permissions ended each time that the export was written.
var ErrEnding = errors.New("permissions kept ending while the export was written")

// A Report tells what an export did. Its JSON form is that of `indexerd export --json`.
type Report struct {
	Dir         string                 `json:"out"`
	Format      string                 `json:"format"`
	Purpose     grants.Purpose         `json:"purpose"`
	Pages       uint64                 `json:"pages"`
	Root        envelope.Hash          `json:"root"`
	Written     int                    `json:"written"`
	Removed     int                    `json:"removed"`
	LogOrigin   string                 `json:"log_origin"`
	Checkpoint  translog.CheckpointRef `json:"checkpoint"`
	Manifest    envelope.Hash          `json:"manifest"`
	FirstEnd    envelope.Time          `json:"first_end"` // from then on it has to be made again
	Until       envelope.Time          `json:"until"`     // from then on none of it may be used
	Collections []Collection           `json:"collections"`
	Lost        map[string]int         `json:"lost"`
	Skipped     []string               `json:"skipped"` // pages that the format has no place for
}

// A Collection is one of an export.
type Collection struct {
	ID         string        `json:"id"`
	Publisher  envelope.Name `json:"publisher"`
	Series     string        `json:"series"`
	Collection string        `json:"collection"`
	Pages      int           `json:"pages"`
}

// A run is one attempt.
type run struct {
	o      Options
	x      *indexer.Indexer
	r      *indexer.Reading
	folder *exported.Folder
	report *Report
	offers []indexer.Offer
	moment uint64
	body   translog.Export
	first  time.Time
	until  time.Time
}

// Write writes an export, or brings the one that is there up to date. It holds what
// the format's own writer holds, a row for each page of one collection, and the page
// at hand.
func Write(ctx context.Context, x *indexer.Indexer, o Options) (*Report, error) {
	if !slices.Contains(Formats(), o.Format) {
		return nil, fmt.Errorf("nothing is exported as %.40q; say one of %s", o.Format, strings.Join(Formats(), ", "))
	}
	if o.BaseURL != "" {
		if err := content.IsCanonical(o.BaseURL); err != nil || !strings.HasSuffix(o.BaseURL, "/") || strings.Contains(o.BaseURL, "?") {
			return nil, fmt.Errorf("base URL %.200q: want a canonical URL with a slash at its end", o.BaseURL)
		}
	}
	var err error
	for range attempts {
		var report *Report
		report, err = attempt(ctx, x, o)
		// A key that is gone was destroyed since the permission was looked at: what
		// it sealed may be read no more, and the next look says so.
		if !errors.Is(err, ErrEnding) && !errors.Is(err, indexer.ErrNoDataKey) {
			return report, err
		}
	}
	return nil, err
}

func attempt(ctx context.Context, x *indexer.Indexer, o Options) (_ *Report, err error) {
	e := &run{o: o, x: x, report: &Report{
		Dir: o.Dir, Format: o.Format, Purpose: o.Purpose, Lost: map[string]int{}, Collections: []Collection{}, Skipped: []string{},
	}}
	if e.r, err = x.Reading(o.Purpose, o.ThirdParty); err != nil {
		return nil, err
	}
	defer func() { e.r.Close() }()
	if e.folder, err = exported.Begin(o.Dir); err != nil {
		return nil, err
	}
	if err := e.write(ctx); err != nil {
		return nil, errors.Join(err, e.folder.Abandon())
	}
	return e.report, nil
}

func (e *run) write(ctx context.Context) (err error) {
	if e.moment, err = e.r.Moment(); err != nil {
		return err
	}
	if err := e.choose(); err != nil {
		return err
	}
	if err := e.sweep(); err != nil {
		return err
	}
	for i := range e.offers {
		if err := e.collection(ctx, &e.offers[i]); err != nil {
			return fmt.Errorf("collection %s of %s: %w", e.offers[i].Collection, e.offers[i].Publisher, err)
		}
	}
	if err := e.sign(); err != nil {
		return err
	}
	// What is durable before anybody can open the folder: that it was handed out.
	for i := range e.offers {
		if err := e.r.HandOut(&e.offers[i]); err != nil {
			return err
		}
	}
	if err := e.folder.Ready(); err != nil {
		return err
	}
	err = e.r.Place(ctx, e.offers, e.moment, e.first, e.folder.Exchange)
	if errors.Is(err, indexer.ErrEnding) {
		return ErrEnding
	}
	if err != nil {
		return err
	}
	return e.folder.Finish()
}

// choose takes the series that are open and asked for, by publisher and name.
func (e *run) choose() error {
	all, err := e.r.Offers()
	if err != nil {
		return err
	}
	for _, o := range all {
		if (e.o.Publisher == "" || o.Publisher == e.o.Publisher) && (e.o.Collection == "" || o.Collection == e.o.Collection) {
			e.offers = append(e.offers, o)
			e.body.Grants = append(e.body.Grants, o.Grants...)
			e.body.Policies = append(e.body.Policies, o.Policies...)
		}
	}
	// By the names of their files, so that the manifest's root is over these in order.
	slices.SortFunc(e.offers, func(a, b indexer.Offer) int { return cmp.Compare(ID(&a), ID(&b)) })
	e.body.Grants, e.body.Policies = indexer.Ascending(e.body.Grants), indexer.Ascending(e.body.Policies)
	if n := max(len(e.body.Grants), len(e.body.Policies)); n > translog.MaxExportGrants {
		return fmt.Errorf("%d grants or policies; one export names at most %d: export each publisher by itself", n, translog.MaxExportGrants)
	}
	return nil
}

// ID names the collection in paths: by its own name as far as that can be, and by
// what tells it from all others.
func ID(o *indexer.Offer) string {
	sum := sha256.Sum256([]byte(string(o.Publisher) + "\x00" + o.Series))
	var b strings.Builder
	for _, c := range strings.ToLower(o.Collection) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteRune(c)
		}
		if b.Len() == 32 {
			break
		}
	}
	return strings.TrimLeft(b.String()+"-", "-") + hex.EncodeToString(sum[:6])
}

// sweep removes collections that are none of this export.
func (e *run) sweep() error {
	keep := make(map[string]bool)
	for i := range e.offers {
		keep[ID(&e.offers[i])] = true
	}
	for _, folder := range []string{exported.PagesFolder, exported.DataFolder} {
		names, err := os.ReadDir(filepath.Join(e.folder.Dir, folder))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, n := range names {
			if keep[strings.TrimSuffix(n.Name(), pagesSuffix)] {
				continue
			}
			path := filepath.Join(e.folder.Dir, folder, n.Name())
			if folder == exported.PagesFolder {
				gone := 0
				if err := exported.EachLine(path, func([]byte) error { gone++; return nil }); err != nil {
					return err
				}
				e.report.Removed += gone
			}
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
		os.Remove(filepath.Join(e.folder.Dir, folder)) // fails where it is not empty
	}
	return nil
}

// sign writes the sums, and the manifest that names them.
func (e *run) sign() error {
	sums, files, err := exported.WriteSums(e.folder.Dir)
	if err != nil {
		return err
	}
	pages, err := exported.PagesOf(e.folder.Dir)
	if err != nil {
		return err
	}
	now := e.r.Now()
	if e.first.IsZero() {
		e.first, e.until = now.Add(emptyLife), now.Add(emptyLife)
	}
	if !now.Before(e.first) {
		return ErrEnding
	}
	b := &e.body
	b.LogOrigin, b.Checkpoint = e.r.Checkpoint()
	b.Format, b.Purpose, b.ThirdParty = e.o.Format, string(e.o.Purpose), e.o.ThirdParty
	b.Sums, b.Files, b.Pages, b.Until = sums, files, pages, envelope.At(e.until)
	o, err := e.x.SignExport(b, now, e.first)
	if err != nil {
		return err
	}
	r := e.report
	r.Pages, r.Root, r.LogOrigin, r.Checkpoint, r.Manifest = pages.Count, pages.Root, b.LogOrigin, b.Checkpoint, o.ID
	r.FirstEnd, r.Until = envelope.At(e.first), b.Until
	return durable.WriteFile(filepath.Join(e.folder.Dir, exported.ManifestFile), append(slices.Clone(o.Raw), '\n'), 0o644)
}

// last notes until when a page may be kept.
func (e *run) last(t *indexer.Terms) {
	end := t.CopyUntil.Time
	if t.ExpiresAt.Before(end) {
		end = t.ExpiresAt.Time
	}
	if e.first.IsZero() || end.Before(e.first) {
		e.first = end
	}
	if end.After(e.until) {
		e.until = end
	}
}
