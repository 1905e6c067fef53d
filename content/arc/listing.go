package arc

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// A listing is the entries of a sitemap by ascending URL, in a file: a record for
// each, its URL, a tab, its line, and a line feed. A line that begins with "!"
// is the reason why an entry could not be used. In memory are the rows.
type listing struct {
	file *os.File
	rows []row
	refs atomic.Int32 // the file is closed when the last one lets go
}

// A row is where the record of an entry is.
type row struct {
	url    string
	offset int64
	length int // of its line
}

func (l *listing) release() {
	if l != nil && l.refs.Add(-1) == 0 {
		l.file.Close()
	}
}

// openListing reads where the records of a file are.
func openListing(path string) (*listing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &listing{file: f}
	in := bufio.NewReaderSize(f, 1<<20)
	var at int64
	for {
		url, err := in.ReadString('\t')
		if err == io.EOF && url == "" {
			l.refs.Store(1)
			return l, nil
		}
		var length int64
		if err == nil {
			length, err = skipLine(in)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s is not whole: %w", path, err)
		}
		l.rows = append(l.rows, row{url[:len(url)-1], at + int64(len(url)), int(length)})
		at += int64(len(url)) + length + 1
	}
}

// skipLine reads over a line, and returns its length without the line feed.
func skipLine(in *bufio.Reader) (n int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		n += int64(len(part))
		if err == nil {
			return n - 1, nil
		}
		if err != bufio.ErrBufferFull {
			return 0, err
		}
	}
}

// line reads the line of a row.
func (l *listing) line(r row) ([]byte, error) {
	line := make([]byte, r.length)
	_, err := l.file.ReadAt(line, r.offset)
	return line, err
}

// find returns the row of a URL.
func (l *listing) find(url string) (row, bool) {
	i, ok := slices.BinarySearchFunc(l.rows, url, func(r row, url string) int { return cmp.Compare(r.url, url) })
	if !ok {
		return row{}, false
	}
	return l.rows[i], true
}

// entry reads a row. The reason is not empty if its entry could not be used.
func (l *listing) entry(r row) (e Entry, unusable string, err error) {
	line, err := l.line(r)
	if err != nil {
		return e, "", err
	}
	if len(line) > 0 && line[0] == '!' {
		return e, string(line[1:]), nil
	}
	e, err = ParseEntry(line)
	return e, "", err
}

// A draft takes entries as they come, on disk, and gives a listing. It holds a
// row for each.
type draft struct {
	spool *os.File
	out   *bufio.Writer
	rows  []draftRow
	at    int64
}

type draftRow struct {
	row
	withdrawn bool
	n         int // in the order of the sitemap
}

func newDraft(dir string) (*draft, error) {
	f, err := os.CreateTemp(dir, "draft-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &draft{spool: f, out: bufio.NewWriterSize(f, 256<<10)}, nil
}

func (d *draft) close() { d.spool.Close() }

// add takes an entry.
func (d *draft) add(e Entry) error { return d.put(e.URL, e.Line, e.Withdrawn() != "") }

// fail takes an entry that could not be used.
func (d *draft) fail(url string, reason error) error {
	text := strings.ReplaceAll(fmt.Sprintf("!%.500s", reason), "\n", " ")
	return d.put(url, []byte(text), false)
}

func (d *draft) put(url string, line []byte, withdrawn bool) error {
	d.rows = append(d.rows, draftRow{row{url, d.at, len(line)}, withdrawn, len(d.rows)})
	n, err := d.out.Write(line)
	d.at += int64(n)
	return err
}

// finish writes the listing to a file, and makes it durable. Of several entries
// of one page the first counts, but one that withdraws it wins.
func (d *draft) finish(path string, double func(url string)) error {
	if err := d.out.Flush(); err != nil {
		return err
	}
	slices.SortFunc(d.rows, func(a, b draftRow) int {
		first := 0
		if a.withdrawn != b.withdrawn {
			first = 1
			if a.withdrawn {
				first = -1
			}
		}
		return cmp.Or(cmp.Compare(a.url, b.url), first, cmp.Compare(a.n, b.n))
	})
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 256<<10)
	var line []byte
	for i, r := range d.rows {
		if i > 0 && d.rows[i-1].url == r.url {
			double(r.url)
			continue
		}
		line = slices.Grow(line[:0], r.length)[:r.length]
		if _, err = d.spool.ReadAt(line, r.offset); err != nil {
			break
		}
		out.WriteString(r.url)
		out.WriteByte('\t')
		out.Write(line)
		if err = out.WriteByte('\n'); err != nil {
			break
		}
	}
	return errors.Join(err, out.Flush(), f.Sync(), f.Close())
}

// gone is the error for a page that is not listed.
func gone(location string) error {
	return &fs.PathError{Op: "fetch", Path: location, Err: fs.ErrNotExist}
}

// skipped is what is told of an entry that gives no page.
func skipped(location, reason string, err error) content.Skipped {
	return content.Skipped{Location: location, Reason: reason, Err: err}
}
