package site

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/yuin/goldmark"
)

// ErrNotOffered says that a page itself asks not to be indexed.
var ErrNotOffered = errors.New("the page asks not to be indexed")

// errDraft says so of Markdown.
var errDraft = fmt.Errorf("%w: its front matter says draft", ErrNotOffered)

// An unfit file can be read, but is no page.
type unfit struct{ location, reason string }

func (e *unfit) Error() string { return fmt.Sprintf("%q: %s", e.location, e.reason) }

// maxLine is the greatest length of a title or description, in octets; more is
// cut off.
const maxLine = 4096

// A reader turns files into pages, one after the other. It keeps what it
// allocates for the next file, unless that file was large.
type reader struct {
	root    *os.Root
	known   func(string) ([32]byte, bool)
	maxPage int64
	of      *Rules // what its rules were made of, if it was borrowed

	buf      []byte
	markdown goldmark.Markdown
	extractor
}

// mostOctets is the greatest size of a source file.
func (s *Site) mostOctets() int64 { return cmp.Or(s.MaxPage, DefaultMaxPage) }

// maxKept is the size up to which a reader's buffers are kept, in octets.
const maxKept = 4 << 20

func (s *Site) reader(root *os.Root, known func(string) ([32]byte, bool)) *reader {
	r := &reader{root: root, known: known, maxPage: s.mostOctets()}
	r.rules = s.rules().set()
	return r
}

// idle holds readers whose sites have fetched a page, of any site.
var idle sync.Pool

// borrow is a reader for one page, which is to be given back.
func (s *Site) borrow(root *os.Root) *reader {
	r, ok := idle.Get().(*reader)
	if !ok || r.of != s.Rules {
		r = s.reader(nil, nil)
		r.of = s.Rules
	}
	r.root, r.maxPage = root, s.mostOctets()
	return r
}

func (r *reader) giveBack() {
	r.root = nil
	idle.Put(r)
}

// read makes the page of one entry. If what was read is none, all that is said of
// it is its stamp.
func (r *reader) read(e entry) (content.Page, error) {
	defer r.shrink()
	src, modified, stamp, err := r.settled(e.location)
	if err != nil {
		return content.Page{Stamp: stamp}, err
	}
	page := content.Page{URL: e.url, Location: e.location, SourceHash: sha256.Sum256(src), Stamp: stamp}
	if r.known != nil {
		if old, ok := r.known(e.location); ok && old == page.SourceHash {
			page.Unchanged = true
			return page, nil
		}
	}
	page.Modified = modified.UTC().Truncate(time.Second)
	page, err = r.page(page, kindOf(e.location), src)
	page.Stamp = stamp
	return page, err
}

// page makes the page of what was read.
func (r *reader) page(page content.Page, kind fileKind, src []byte) (content.Page, error) {
	e := entry{location: page.Location, url: page.URL}
	text, decoded, reason := toUTF8(src)
	if reason != "" {
		return content.Page{}, &unfit{e.location, reason}
	}
	if kind == markdownPage {
		if r.markdown == nil {
			r.markdown = newMarkdown()
		}
		var m frontMatter
		if text, m, reason = fromMarkdown(r.markdown, text); reason != "" {
			return content.Page{}, &unfit{e.location, reason}
		}
		if m.draft {
			return content.Page{}, fmt.Errorf("%q: %w", e.location, errDraft)
		}
		// A time later than the file's own is a slip, and must not win for ever.
		if !m.modified.IsZero() && m.modified.Before(page.Modified) {
			page.Modified = m.modified
		}
	} else {
		page.HTMLChecksum = page.SourceHash
		if decoded {
			page.HTMLChecksum = sha256.Sum256(text)
		}
	}
	if len(text) > maxKept {
		r.body.out = slices.Grow(r.body.out[:0], len(text)) // not to be moved as it grows
	}
	words, f := r.extract(text)
	if len(text) > maxKept { // the payload takes as much again as src and text
		r.buf, r.lex = nil, lexer{}
		clear(r.stack[:cap(r.stack)]) // names are cut out of text
		makeRoom(len(text))
	}
	if slices.Contains(f.robots, "noindex") || slices.Contains(f.robots, "none") {
		return content.Page{}, fmt.Errorf("%q: %w", e.location, ErrNotOffered)
	}
	describe(&page, f, len(words))
	page.Format = content.FormatTCT
	page.Payload, page.Fingerprint = tct.EncodeWords(make([]byte, 0, payloadSize(words)+len(page.URL)+len(page.Title)+256), tct.Document{
		URL: page.URL, Title: page.Title, Language: page.Language,
	}, words)
	page.Digest = sha256.Sum256(page.Payload)
	return page, nil
}

// makeRoom gives back what is garbage by now, before a large file has so many octets
// more asked for. Left to itself the collector would let what was read, its words
// and the payload stand beside one another, and those of the file before.
func makeRoom(octets int) {
	if octets > largeFile {
		debug.FreeOSMemory()
	}
}

// payloadSize is about how many octets words take in a payload: of a large page not
// too few, since to move it would take as many again.
func payloadSize(words []byte) int {
	if len(words) <= maxKept {
		return len(words) + len(words)/16
	}
	n := len(words)
	for _, c := range words {
		if c < ' ' || c == '"' || c == '\\' {
			n++ // of control characters words have tabs and line feeds alone
		}
	}
	return n
}

// maxTries bounds how often a file is read that is written to meanwhile.
const maxTries = 3

// settled reads a file again while it moves under the reader's hands. If it
// does so each time, what was read last is taken, and its stamp is zero.
func (r *reader) settled(location string) (src []byte, modified time.Time, stamp content.Stamp, err error) {
	for range maxTries {
		var before, after fs.FileInfo
		if src, before, after, err = r.load(location); err != nil {
			if before != nil {
				stamp = stampOf(before)
			}
			return nil, time.Time{}, stamp, err
		}
		if stamp = stampOf(before); stamp == stampOf(after) && before.Size() == int64(len(src)) {
			return src, after.ModTime(), stamp, nil
		}
		modified = after.ModTime()
	}
	return src, modified, content.Stamp{}, nil
}

// load reads a regular file, through no symbolic link, into the reader's
// buffer, and tells what the file system says of it before and after.
func (r *reader) load(location string) (src []byte, before, after fs.FileInfo, err error) {
	if info, err := r.root.Lstat(location); err != nil {
		return nil, nil, nil, err
	} else if !info.Mode().IsRegular() {
		return nil, nil, nil, &unfit{location, "no regular file"}
	}
	f, err := r.root.Open(location)
	if err != nil {
		return nil, nil, nil, err
	}
	defer f.Close()
	if before, err = f.Stat(); err != nil {
		return nil, nil, nil, err
	}
	if src, err = r.readAll(f, location, before.Size()); err != nil {
		return nil, before, nil, err
	}
	after, err = f.Stat()
	return src, before, after, err
}

// readAll reads an open file that should have size octets.
func (r *reader) readAll(f *os.File, location string, size int64) ([]byte, error) {
	tooLarge := &unfit{location, fmt.Sprintf("larger than %d octets", r.maxPage)}
	if size > r.maxPage {
		return nil, tooLarge
	}
	makeRoom(int(size))
	// One octet more than there should be shows a file that grows.
	r.buf = slices.Grow(r.buf[:0], int(size)+1)
	for {
		n, err := f.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		switch {
		case int64(len(r.buf)) > r.maxPage:
			return nil, tooLarge
		case err == io.EOF:
			return r.buf, nil
		case err != nil:
			return nil, err
		}
		if len(r.buf) == cap(r.buf) {
			r.buf = slices.Grow(r.buf, len(r.buf))
		}
	}
}

// shrink lets go of buffers that a large page has left.
func (r *reader) shrink() {
	defer makeRoom(cap(r.buf) + cap(r.body.out))
	if cap(r.buf) > maxKept {
		r.buf = nil
	}
	if cap(r.body.out)+cap(r.body.indent) > maxKept {
		r.body = writer{}
	}
	if cap(r.aux.out)+cap(r.aux.indent) > maxKept {
		r.aux = writer{}
	}
	r.lex = lexer{}
}

// describe fills in what the page says of itself, and the warnings.
func describe(page *content.Page, f found, words int) {
	warn := func(format string, args ...any) { page.Warnings = append(page.Warnings, fmt.Sprintf(format, args...)) }
	page.Title = f.title
	if page.Title == "" {
		page.Title = f.h1
	}
	if page.Title == "" {
		page.Title = content.LastSegment(page.URL)
		warn("no title and no h1: %q, of its URL, stands in", page.Title)
	}
	page.Description = f.description
	for _, line := range []*string{&page.Title, &page.Description} {
		if len(*line) > maxLine {
			*line = strings.ToValidUTF8((*line)[:maxLine], "")
			warn("title or description cut off at %d octets", maxLine)
		}
	}
	var ok bool
	if page.Language, ok = content.Language(f.lang); !ok {
		warn("%.40q is no language", f.lang)
	}
	if words == 0 {
		warn("no words outside navigation")
	}
	if f.flattened {
		warn("more than %d elements stand open at once", maxDepth)
	}
	for _, p := range f.robots {
		switch p {
		case "all", "index", "follow", "nofollow":
		default:
			warn("robots preference %.80q", p)
		}
	}
	page.Preferences = f.stated.Preferences
	for _, d := range f.stated.Preferences.Denied() {
		warn("it is not offered under a grant of %s: %s", d.Purpose, d.Origin)
	}
	for _, line := range f.stated.Ignored {
		if !strings.Contains(line, "robots directive") { // told above
			warn("%s", line)
		}
	}
}
