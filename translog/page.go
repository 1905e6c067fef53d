package translog

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
	"github.com/uzpif-oi/uzpif-oi/internal/sheet"
)

// latestEntries is how many of the newest entries the page of a log lists.
const latestEntries = 20

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageStyle     = sheet.Base + pageCSS
	pageTemplates = template.Must(template.New("pages").Parse(pageHTML))
	// pagePolicy lets a page have its own style and icon, and nothing else: no
	// script, no form, no frame, nothing from anywhere.
	pagePolicy = "default-src 'none'; style-src '" + sheet.Hash(pageStyle) + "'; img-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// A Site is what the pages for people tell of a log besides what is in it.
type Site struct {
	// URL is where the log is read, as the indexer's card has it. Empty, the
	// pages write LOG_URL in its place.
	URL string
}

// HandlerWithPages is Handler with pages for people, who may never have heard
// of such a log:
//
//	/               what this log is, how it stands, and how to check it
//	/entry/<index>  one entry, in words
//
// They link to card.json, grant/<id>.json and revocation beside them, which
// the caller serves, and only by relative links, so that the log may be
// mounted anywhere.
func (l *Log) HandlerWithPages(s Site) http.Handler {
	p := &pages{log: l, url: strings.TrimRight(s.URL, "/")}
	mux := l.mux(p.serveEntry)
	mux.Handle("/{$}", l.serving(p.serveLog))
	return ReadOnly(mux)
}

// pages makes the pages for people. It keeps the newest page of the log, which
// changes only with what is published.
type pages struct {
	log *Log
	url string

	// keptMu guards kept and of, the view that it was made from.
	keptMu sync.Mutex
	kept   []byte
	of     *envelope.Object
}

// A frame is what all pages have.
type frame struct {
	Title       string
	Style       template.CSS
	Up          string // relative way to the page of the log
	Indexer     envelope.Name
	SizeWords   string
	EntriesWord string
}

func (p *pages) frame(v View, title, up string) frame {
	return frame{
		Title: title, Style: template.CSS(pageStyle), Up: up, Indexer: p.log.cfg.Indexer,
		SizeWords: grouped(v.Tree.Size), EntriesWord: plural.Of(v.Tree.Size, "entry", "entries"),
	}
}

// render makes a page that is asked for again whenever the log may have grown.
func render(name string, data any) (Document, error) {
	var b bytes.Buffer
	if err := pageTemplates.ExecuteTemplate(&b, name, data); err != nil {
		return Document{}, fmt.Errorf("page %s: %w", name, err)
	}
	return Document{Body: b.Bytes(), Type: typeHTML, Keep: Changing, Compress: true, Policy: pagePolicy}, nil
}

// A logPage is the data of the page of the log.
type logPage struct {
	frame
	Origin, URL, Base, VKey string
	Size                    string
	Root                    envelope.Hash
	Published               pageTime
	Since                   *pageTime // the first entry
	Day, Week               string    // growth; empty if nothing is known
	Continues               *Continues
	Latest                  []entryLine
}

// An entryLine is one entry in a list.
type entryLine struct {
	Index  uint64
	Number string
	Words  words
	Pages  string // "44 pages", empty if none
	Time   pageTime
}

func (p *pages) serveLog(v View, _ *http.Request) (Document, error) {
	p.keptMu.Lock()
	defer p.keptMu.Unlock()
	if p.of != v.Checkpoint {
		d, err := p.makeLog(v)
		if err != nil {
			return Document{}, err
		}
		p.kept, p.of = d.Body, v.Checkpoint
	}
	return Document{Body: p.kept, Type: typeHTML, Keep: Changing, Compress: true, Policy: pagePolicy}, nil
}

func (p *pages) makeLog(v View) (Document, error) {
	size := v.Tree.Size
	data := logPage{
		frame: p.frame(v, "Transparency log of "+string(p.log.cfg.Indexer), ""), Origin: v.Tree.Origin, URL: p.url, Base: p.url,
		VKey: p.log.vkey, Size: grouped(size), Root: v.Tree.Root, Published: pageTime{v.Checkpoint.IssuedAt},
	}
	if p.url == "" {
		data.Base = "LOG_URL"
	}
	var c Checkpoint
	if err := v.Checkpoint.DecodeBody(&c); err != nil {
		return Document{}, fmt.Errorf("checkpoint: %w", err)
	}
	data.Continues = c.Continues
	for i := size; i > 0 && size-i < latestEntries; i-- {
		line, err := v.line(i - 1)
		if err != nil {
			return Document{}, err
		}
		data.Latest = append(data.Latest, line)
	}
	if err := data.grow(v); err != nil {
		return Document{}, err
	}
	return render("log", data)
}

// grow finds how much the log has grown lately. The times of entries never go
// back, so that some dozens of them show it, however many there are.
func (d *logPage) grow(v View) error {
	if v.Tree.Size == 0 {
		return nil
	}
	first, err := v.issued(0)
	if err != nil {
		return err
	}
	d.Since = &pageTime{first}
	for _, past := range []struct {
		growth *string
		age    time.Duration
	}{{&d.Day, 24 * time.Hour}, {&d.Week, 7 * 24 * time.Hour}} {
		since := v.Checkpoint.IssuedAt.Add(-past.age)
		before := sort.Search(int(v.Tree.Size), func(i int) bool {
			at, failed := v.issued(uint64(i))
			err = errors.Join(err, failed)
			return failed != nil || !at.Before(since)
		})
		if err != nil {
			return err
		}
		*past.growth = grouped(v.Tree.Size - uint64(before))
	}
	return nil
}

// issued is when entry index was signed.
func (v View) issued(index uint64) (time.Time, error) {
	raw, err := v.Entry(index)
	if err != nil {
		return time.Time{}, err
	}
	o, err := envelope.Parse(raw)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: entry %d: %w", ErrCorrupt, index, err)
	}
	return o.IssuedAt, nil
}

// open reads entry index as what it is.
func (v View) open(index uint64) (*envelope.Object, *Entry, error) {
	raw, err := v.Entry(index)
	if err != nil {
		return nil, nil, err
	}
	o, err := envelope.Parse(raw)
	var e Entry
	if err == nil {
		err = o.DecodeBody(&e)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: entry %d: %w", ErrCorrupt, index, err)
	}
	return o, &e, nil
}

func (v View) line(index uint64) (entryLine, error) {
	o, e, err := v.open(index)
	if err != nil {
		return entryLine{}, err
	}
	return entryLine{
		Index: index, Number: grouped(index), Words: e.Status.words(e.Decision), Pages: pagesOf(e.Objects.Count), Time: pageTime{o.IssuedAt},
	}, nil
}

// An entryPage is the data of the page of one entry.
type entryPage struct {
	frame
	entryLine
	Entry         *Entry
	Count         string
	Subject       envelope.Name
	Pseudonym     bool
	GrantEnds     pageTime
	From, Through string
	Leaf          envelope.Hash
	Octets        string
	Size          uint64
	Before, After string // neighbours; empty if there is none
}

// serveEntry gives an entry to people, or with .json as it was hashed.
func (p *pages) serveEntry(v View, r *http.Request) (Document, error) {
	if strings.HasSuffix(r.PathValue("file"), ".json") {
		return serveEntry(v, r)
	}
	index, err := number(r.PathValue("file"))
	if err != nil {
		return Document{}, err
	}
	line, err := v.line(index)
	if err != nil {
		return Document{}, err
	}
	o, e, err := v.open(index)
	if err != nil {
		return Document{}, err
	}
	data := entryPage{
		frame: p.frame(v, "Entry "+grouped(index)+" of "+v.Tree.Origin, "../"), entryLine: line, Entry: e, Count: grouped(e.Objects.Count),
		Subject: o.Subject, Pseudonym: strings.HasPrefix(string(o.Subject), "urn:"), GrantEnds: pageTime{e.GrantExpiresAt.Time},
		From: grouped(e.From), Through: grouped(e.Through), Leaf: LeafHash(o.Raw), Octets: grouped(uint64(len(o.Raw))), Size: v.Tree.Size,
	}
	if index > 0 {
		data.Before = fmt.Sprint(index - 1)
	}
	if index+1 < v.Tree.Size {
		data.After = fmt.Sprint(index + 1)
	}
	return render("entry", data)
}
