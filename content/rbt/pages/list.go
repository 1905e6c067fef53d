package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/walk"
)

// A row is a resource that gives a page.
type row struct {
	Location string    `json:"location"`
	Sum      [32]byte  `json:"sum"`
	Type     string    `json:"type"`
	Title    string    `json:"title,omitzero"`
	Modified time.Time `json:"modified,omitzero"`
}

// A list is what a walk found, by ascending location. It is held in memory, and
// therefore bounded: a million pages of usual names and titles have room.
type list struct {
	head    head
	rows    []row
	skipped []content.Skipped
	octets  int // of rows and skipped, about
}

const (
	maxList   = 512 << 20 // octets of a list
	maxReason = 500       // octets of why one resource gives no page
	perRow    = 200       // octets that a row has beside its texts, about
)

// A head is what is known of the burrow as a whole.
type head struct {
	Base string    `json:"base"` // URL of the root; "" if no root says
	Time time.Time `json:"time"` // of the commit, or of the manifest
}

func (l *list) lookup(location string) (row, bool) {
	i, ok := slices.BinarySearchFunc(l.rows, location, func(r row, at string) int { return cmp.Compare(r.Location, at) })
	if !ok {
		return row{}, false
	}
	return l.rows[i], true
}

// essence is the media type without parameters, in lower case.
func essence(mediaType string) string {
	t, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return ""
	}
	return t
}

// givesPage reports whether a resource of a media type can give a page.
func givesPage(mediaType string) bool {
	switch essence(mediaType) {
	case "text/html", "text/markdown", "text/plain", "application/json":
		return true
	}
	return false
}

// list walks the burrow, and holds what is new of it.
func (s *Source) list(ctx context.Context, h *hold) (*list, error) {
	s.told = content.Told{}
	c := s.config.Walk
	c.State = filepath.Join(s.config.Dir, "walk")
	c.Known, c.Wants = h.has, func(e *rbt.Entry) bool { return givesPage(e.Type) }
	w, err := walk.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	s.told.Preferences.Join(w.Manifest.Agents.Uses.Preferences)
	l := &list{head: head{Base: baseOf(w), Time: w.Manifest.Updated}}
	if w.Commit != nil {
		l.head.Time = w.Commit.Time
	}
	for item, err := range w.Items(ctx) {
		if err != nil {
			return nil, err
		}
		if err := l.take(h, item); err != nil {
			return nil, err
		}
	}
	s.report = w.Report
	s.told.Warnings = append(s.told.Warnings, w.Manifest.Warnings...)
	s.told.Warnings = append(s.told.Warnings, w.Report.Warnings...)
	if w.Incomplete {
		return nil, s.incomplete()
	}
	l.sort()
	return l, h.save(l)
}

// incomplete tells the first problem with a document.
func (s *Source) incomplete() error {
	for _, p := range s.report.Problems {
		if p.Category == rbt.EntryNotFound || len(p.Attempts) == 0 {
			continue
		}
		return fmt.Errorf("%w: %s %.200s: %s", ErrIncomplete, p.Category, p.Href, p.Attempts[len(p.Attempts)-1].Error)
	}
	return ErrIncomplete
}

// baseOf is the URL of the burrow's root, as it is read from or said to be.
func baseOf(w *walk.Walk) string {
	roots := append([]rbt.Root{w.Root}, w.Manifest.Roots...)
	for _, r := range roots {
		if r.HTTPS != nil {
			return r.HTTPS.Base
		}
	}
	return ""
}

// take notes one item.
func (l *list) take(h *hold, item walk.Item) error {
	if l.octets += perRow + len(item.Path) + len(item.URL) + len(item.Entry.Href) + len(item.Entry.Title); l.octets > maxList {
		return fmt.Errorf("%w: names and titles of more than %d octets", rbt.ErrLimit, maxList)
	}
	r := row{Location: item.Path, Sum: item.Sum, Type: essence(item.Entry.Type), Title: item.Entry.Title, Modified: item.Entry.Modified}
	if r.Location == "" {
		r.Location = item.URL
	}
	if r.Location == "" { // it leads nowhere, and there is no page of that name
		r.Location = item.Entry.Href
	}
	pass := func(why string, err error) {
		if len(why) > maxReason {
			why = strings.ToValidUTF8(why[:maxReason], "") + " …"
		}
		if err != nil { // without all that it wraps, which may be an error of each of many roots
			c := rbt.CategoryOf(err)
			err = &rbt.Error{Category: c, Err: errors.New(strings.TrimPrefix(why, string(c)+": "))}
		}
		l.octets += len(why)
		l.skipped = append(l.skipped, content.Skipped{Location: r.Location, Reason: why, Err: err})
	}
	switch {
	case item.Err != nil:
		pass(item.Err.Error(), item.Err)
	case item.Ignored:
		pass("its publisher has agents pass it over", nil)
	case !givesPage(r.Type):
		pass(fmt.Sprintf("%s gives no page", r.Type), nil)
	case item.Unchanged:
		if sum, ok := item.Entry.RID.Sum(); ok {
			r.Sum = sum
		}
		l.rows = append(l.rows, r)
	default:
		if err := rbt.CheckType(r.Type, item.Data); err != nil {
			pass(err.Error(), err)
			return nil
		}
		l.rows = append(l.rows, r)
		return h.put(r.Sum, item.Data)
	}
	return nil
}

// sort orders the rows; of several entries at one place the first counts.
func (l *list) sort() {
	slices.SortStableFunc(l.rows, func(a, b row) int { return cmp.Compare(a.Location, b.Location) })
	l.rows = slices.CompactFunc(l.rows, func(a, b row) bool {
		if a.Location != b.Location {
			return false
		}
		if a.Sum != b.Sum {
			err := errors.New("two entries name it, with different octets; the first counts")
			l.skipped = append(l.skipped, content.Skipped{Location: b.Location, Reason: err.Error()})
		}
		return true
	})
	slices.SortStableFunc(l.skipped, func(a, b content.Skipped) int { return strings.Compare(a.Location, b.Location) })
}
