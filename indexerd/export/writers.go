package export

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/arc"
	"github.com/uzpif-oi/uzpif-oi/content/convert"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
)

// errNoPlace says that a format has no place for a page.
var errNoPlace = errors.New("the format has no place for it")

// writer opens the writer of one collection.
func (e *run) writer(ctx context.Context, o *indexer.Offer, id string) (writer, error) {
	if e.o.Format == "jsonl" {
		return noData{}, nil
	}
	dir := filepath.Join(e.folder.Dir, exported.DataFolder, id)
	base := e.o.BaseURL + exported.DataFolder + "/" + id + "/"
	own, err := ownBase(o)
	switch {
	case e.o.BaseURL == "" && err != nil:
		return nil, err
	case e.o.BaseURL == "":
		base = own
	case err != nil:
		own = base
	}
	switch e.o.Format {
	case "tct":
		policy := Policy(o)
		x, err := tct.OpenExport(tct.ExportConfig{Dir: dir, Mapping: tct.Mapping{Base: base}, KeepListings: true, Policy: &policy})
		return &tctWriter{x}, err
	case "scp":
		return newSCP(ctx, scp.ExportConfig{
			Dir: dir, BaseURL: base, Section: id, Generated: e.o.Generated, Packing: scp.Packing{Compression: scp.Zstd}, Forget: true,
		}), nil
	case "rbt":
		m := rbt.Manifest{Title: o.Collection, Updated: e.o.Generated, Roots: []rbt.Root{{HTTPS: &rbt.HTTPSRoot{Base: base}}}}
		if m.Title == "" {
			m.Title = id
		}
		m.Agents.Uses = statement(o)
		x, err := rbt.OpenExport(rbt.ExportConfig{Dir: dir, Manifest: m})
		return &rbtWriter{x, tct.Mapping{Base: own}}, err
	}
	x, err := arc.OpenExport(arc.ExportConfig{Dir: dir, BaseURL: base, Generated: e.o.Generated, Forget: true})
	return &arcWriter{x: x}, err
}

// ownBase is the root of the publisher's site: of the first prefix of the scope.
func ownBase(o *indexer.Offer) (string, error) {
	if len(o.Scope.Prefixes) == 0 {
		return "", errors.New("its scope has no prefix; name a base URL")
	}
	u, err := url.Parse(o.Scope.Prefixes[0])
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + u.Host + "/", nil
}

// Policy is the policy descriptor of TCT that says what grants and policies allow.
// Its times are the newest grant's, so that it stays the same as long as they do.
func Policy(o *indexer.Offer) tct.Policy {
	said := func(p grants.Purpose) content.Answer {
		if o.Terms.Purposes.Has(p) {
			return content.Yes
		}
		return content.No
	}
	required := func(b bool) content.Answer {
		if b {
			return content.Yes
		}
		return content.No
	}
	return tct.Policy{
		Profile: tct.PolicyProfile, Version: 1, Effective: o.IssuedAt, Updated: o.IssuedAt, TermsOfService: o.Terms.TermsURL,
		AllowAIInput: said(grants.RAGRetrieve), AllowAITrain: said(grants.AITrain), AllowSearchIndexing: said(grants.SearchIndex),
		AttributionRequired: required(o.Terms.Attribution.Required || o.Terms.Attribution.Text != ""),
		LinkBackRequired:    required(o.Terms.Attribution.LinkBack), NoticeRequired: content.No,
	}
}

// statement says of every purpose whether it is allowed.
func statement(o *indexer.Offer) (s preferences.Statement) {
	for _, purpose := range preferences.Permitted() {
		a := content.No
		if slices.Contains(o.Terms.Purposes.Strings(), purpose) {
			a = content.Yes
		}
		s.Preferences.State(purpose, a, "the grant")
	}
	return s
}

// noData writes nothing: all is in the lines.
type noData struct{}

func (noData) add(content.Page) ([]string, error) { return nil, nil }
func (noData) finish() (int, int, error)          { return 0, 0, nil }
func (noData) close()                             {}

type tctWriter struct{ x *tct.Export }

func (w *tctWriter) add(p content.Page) ([]string, error) {
	p, lost, err := convert.ToOwnTCT(p)
	if err != nil {
		return nil, err
	}
	return lost, w.x.Add(p)
}

func (w *tctWriter) finish() (int, int, error) {
	done, err := w.x.Commit()
	return done.Written, done.Removed, err
}
func (w *tctWriter) close() {}

type rbtWriter struct {
	x       *rbt.Export
	mapping tct.Mapping
}

func (w *rbtWriter) add(p content.Page) ([]string, error) {
	p, lost, err := convert.ToTCT(p)
	if err != nil {
		return nil, err
	}
	name, ok := w.mapping.File(w.mapping.MURL(p.URL))
	if !ok {
		return nil, fmt.Errorf("%w: no file can stand for it", errNoPlace)
	}
	return lost, w.x.Add(rbt.Resource{
		Path: name, Type: "application/json", Rel: []string{rbt.RelItem}, Data: p.Payload, Title: p.Title, Summary: p.Description, Lang: p.Language, Modified: p.Modified,
	})
}

func (w *rbtWriter) finish() (int, int, error) {
	done, err := w.x.Commit()
	return done.Written, done.Removed, err
}
func (w *rbtWriter) close() { w.x.Close() }

type arcWriter struct {
	x *arc.Export
}

func (w *arcWriter) add(p content.Page) ([]string, error) {
	var lost []string
	if p.Format == content.FormatSCP {
		var err error
		if p, lost, err = convert.ToTCT(p); err != nil {
			return nil, err
		}
	}
	return lost, w.x.Add(p)
}

func (w *arcWriter) finish() (int, int, error) {
	done, err := w.x.Commit()
	return done.Written, done.Removed, err
}
func (w *arcWriter) close() { w.x.Close() }

// An scpWriter hands pages to an export that asks for them.
type scpWriter struct {
	lines chan []byte
	done  chan struct{}
	err   error
	r     scp.ExportReport
	stop  context.CancelFunc
}

// newSCP starts the export in a goroutine that finish or close waits for.
func newSCP(ctx context.Context, c scp.ExportConfig) *scpWriter {
	ctx, stop := context.WithCancel(ctx)
	w := &scpWriter{lines: make(chan []byte), done: make(chan struct{}), stop: stop}
	go func() {
		defer close(w.done)
		w.r, w.err = scp.Export(ctx, c, w.each(ctx))
	}()
	return w
}

func (w *scpWriter) each(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			select {
			case line, more := <-w.lines:
				if !more || !yield(line, nil) {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

func (w *scpWriter) add(p content.Page) ([]string, error) {
	if p.Modified.IsZero() {
		p.Modified = time.Unix(0, 0).UTC()
	}
	line, lost, err := convert.ToSCP(p)
	if err != nil {
		return nil, err
	}
	select {
	case w.lines <- line:
		return lost, nil
	case <-w.done:
		return nil, w.err
	}
}

func (w *scpWriter) finish() (int, int, error) {
	close(w.lines)
	<-w.done
	return int(w.r.Added + w.r.Changed), int(w.r.Deleted), w.err
}

func (w *scpWriter) close() {
	w.stop()
	<-w.done
}
