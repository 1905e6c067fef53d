package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/convert"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
)

const pagesSuffix = ".jsonl"

// A writer writes a collection in one format. finish tells how many pages are new or
// changed, and how many are gone.
type writer interface {
	add(p content.Page) (lost []string, err error)
	finish() (written, removed int, err error)
	close()
}

// pageLine is a line of the pages' file.
type pageLine struct {
	indexer.Page
	Payload []byte `json:"payload,omitempty"` // base64; of jsonl
}

// collection writes one collection: its data first, and the lines of its pages.
func (e *run) collection(ctx context.Context, o *indexer.Offer) (err error) {
	id := ID(o)
	w, err := e.writer(ctx, o, id)
	if err != nil {
		return err
	}
	defer w.close()
	lines, err := newLineFile(filepath.Join(e.folder.Dir, exported.PagesFolder), id+pagesSuffix)
	if err != nil {
		return err
	}
	defer lines.close()
	n := 0
	for p, err := range e.r.Pages(o) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		took, err := e.page(w, lines, p)
		if err != nil {
			return err
		}
		if took {
			n++
		}
	}
	written, removed, err := w.finish()
	if err != nil {
		return err
	}
	had, err := lines.replace()
	if err != nil {
		return err
	}
	if e.o.Format == "jsonl" {
		written, removed = had.written, had.removed
	}
	e.report.Written += written
	e.report.Removed += removed
	e.report.Collections = append(e.report.Collections, Collection{id, o.Publisher, o.Series, o.Collection, n})
	return nil
}

// page writes a page. One that the format has no place for is told, and left out.
func (e *run) page(w writer, lines *lineFile, p *indexer.Page) (bool, error) {
	l := pageLine{Page: *p}
	if e.o.Format == "jsonl" {
		l.Payload = p.Payload
	} else {
		c, err := convert.FromPayload(content.Format(p.Format), p.URL, p.Payload, p.ModifiedAt.Time)
		if err != nil {
			return false, err
		}
		if c.Modified.IsZero() {
			c.Modified = p.TakenAt.Time
		}
		lost, err := w.add(c)
		if errors.Is(err, errNoPlace) {
			e.report.Skipped = append(e.report.Skipped, fmt.Sprintf("%s: %v", p.URL, err))
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("page %.200q: %w", p.URL, err)
		}
		for _, l := range lost {
			e.report.Lost[l]++
		}
	}
	e.last(&p.Terms)
	line, err := json.Marshal(l, json.Deterministic(true))
	if err != nil {
		return false, err
	}
	return true, lines.add(line)
}

// A lineFile is a file of lines that takes the place of an older one if it differs.
type lineFile struct {
	path string
	f    *os.File
	out  *bufio.Writer
}

func newLineFile(dir, name string) (*lineFile, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, ".lines-*")
	if err != nil {
		return nil, err
	}
	return &lineFile{filepath.Join(dir, name), f, bufio.NewWriterSize(f, 256<<10)}, nil
}

func (l *lineFile) add(line []byte) error {
	if _, err := l.out.Write(line); err != nil {
		return err
	}
	return l.out.WriteByte('\n')
}

// close removes what replace has not put in place.
func (l *lineFile) close() {
	if l.f != nil {
		l.f.Close()
		os.Remove(l.f.Name())
	}
}

// had counts what differs between two files of lines.
type had struct{ written, removed int }

// replace puts the file in place, unless what is there says the same.
func (l *lineFile) replace() (h had, err error) {
	if err := l.out.Flush(); err != nil {
		return h, err
	}
	h, err = l.compare()
	if err != nil || h == (had{}) && exists(l.path) {
		return h, err
	}
	if err := errors.Join(l.f.Chmod(0o644), l.f.Sync()); err != nil {
		return h, err
	}
	name := l.f.Name()
	err = l.f.Close()
	l.f = nil
	if err == nil {
		err = os.Rename(name, l.path)
	}
	return h, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// compare walks both files side by side: each is by the hash of the URL. It holds a
// line of each.
func (l *lineFile) compare() (h had, err error) {
	if _, err := l.f.Seek(0, io.SeekStart); err != nil {
		return h, err
	}
	older, err := os.Open(l.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return h, err
	}
	var a, b lineReader
	b.in = bufio.NewReader(l.f)
	if older != nil {
		defer older.Close()
		a.in = bufio.NewReader(older)
	}
	if err := errors.Join(a.step(), b.step()); err != nil {
		return h, err
	}
	for a.line != nil || b.line != nil {
		order := bytes.Compare(a.key[:], b.key[:])
		switch {
		case b.line == nil || a.line != nil && order < 0:
			h.removed++
			err = a.step()
		case a.line == nil || order > 0:
			h.written++
			err = b.step()
		default:
			if !bytes.Equal(a.line, b.line) {
				h.written++
			}
			err = errors.Join(a.step(), b.step())
		}
		if err != nil {
			return h, err
		}
	}
	return h, nil
}
