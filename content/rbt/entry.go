package rbt

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/language"
)

// The relations of 6.5. An entry may have others, which say nothing here.
const (
	RelItem       = "item"
	RelCollection = "collection"
	RelIndex      = "index"
	RelAbout      = "about"
	RelAlternate  = "alternate"
	RelParent     = "parent"
	RelRelated    = "related"
	RelLicense    = "license"
	RelAuthor     = "author"
)

// DirectoryType is the media type of a collection.
const DirectoryType = "application/x-directory"

// An Entry is a resource or a collection of a manifest (6.4).
type Entry struct {
	ID   string // one of its kind in the manifest
	RID  RID    // zero only in what was imported
	Href string // as it is written; see ResolveHref
	Type string // media type
	Rel  []string

	Title, Summary string
	Hash           *[sha256.Size]byte // nil where there is none, or one of another algorithm
	Size           int64              // in octets; -1 where it is not named
	Modified       time.Time          // zero where it is not named
	Lang           string             // a BCP 47 tag
	Links          []Link
	Children       *Children // nil where the entry has none
}

// A Link is an entry that another refers to: by its id or by a reference, in
// whichever form the publisher chose.
type Link struct{ ID, Href, Rel string }

// Children say where further entries are (6.6).
type Children struct {
	Href          string
	Offset, Limit int64
	Total         int64 // -1 where it is not named
}

// Is reports whether the entry has a relation.
func (e *Entry) Is(rel string) bool { return slices.Contains(e.Rel, rel) }

// IsCollection reports whether the entry stands for others, and has no octets
// of its own.
func (e *Entry) IsCollection() bool {
	return e.RID.IsCollection() || e.Type == DirectoryType || e.Is(RelCollection)
}

// Verify returns an error that wraps ErrVerification unless sum and size are
// what the entry names: RID, hash and size, as far as they are there. ok is
// false if the entry names neither RID nor hash of any octets.
func (e *Entry) Verify(sum [sha256.Size]byte, size int64) (ok bool, err error) {
	if named, has := e.RID.Sum(); has {
		if ok = true; named != sum {
			return ok, fmt.Errorf("%w: entry %.100q has the RID %s, the octets %s", ErrVerification, e.ID, e.RID, SumRID(sum))
		}
	}
	if e.Hash != nil {
		if ok = true; *e.Hash != sum {
			return ok, fmt.Errorf("%w: entry %.100q has the hash sha256:%x, the octets sha256:%x", ErrVerification, e.ID, *e.Hash, sum)
		}
	}
	if e.Size >= 0 && e.Size != size {
		return ok, fmt.Errorf("%w: entry %.100q names %d octets, there are %d", ErrVerification, e.ID, e.Size, size)
	}
	return ok, nil
}

// entries reads an array of them.
func (r *reader) entries(v jsontext.Value) (all []Entry, err error) {
	ids := make(map[string]bool)
	err = items(v, MaxEntries, func(n int, v jsontext.Value) error {
		e, err := r.entry(n, v)
		if err == nil && ids[e.ID] {
			err = fmt.Errorf("id %.100q is another's already", e.ID)
		}
		ids[e.ID] = true
		all = append(all, e)
		return err
	})
	return all, err
}

// entry reads one. What decides where the resource is, and whether it is the
// one, has to be there and sound; of what only describes it, what is odd is
// left out.
func (r *reader) entry(n int, v jsontext.Value) (Entry, error) {
	e := Entry{Size: -1}
	hasRel := false
	err := members(v, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "id":
			e.ID, err = text(v)
		case "rid":
			e.RID, err = readRID(v)
		case "href":
			e.Href, err = r.href(v)
		case "type":
			e.Type, err = mediaType(v)
		case "rel":
			hasRel = true
			e.Rel, err = texts(v)
		case "hash":
			e.Hash, err = r.hash(n, v)
		case "size":
			e.Size, err = number(v, 0)
		case "children":
			e.Children, err = r.children(v)
		default:
			r.describe(&e, n, name, v)
		}
		return err
	})
	if err != nil {
		return e, err
	}
	for name, missing := range map[string]bool{
		"id": e.ID == "", "rid": e.RID.IsZero(), "href": e.Href == "", "type": e.Type == "", "rel": !hasRel,
	} {
		if missing {
			return e, fmt.Errorf("no %s", name)
		}
	}
	sum, has := e.RID.Sum()
	switch {
	case has && e.Hash != nil && sum != *e.Hash:
		r.warn("entry %d: its hash and its RID name different octets", n)
	case has && e.Children != nil && e.Type == DirectoryType:
		r.warn("entry %d: the RID of a collection names octets", n)
	case len(e.Rel) == 0:
		r.warn("entry %d: no relation", n)
	}
	return e, nil
}

// describe reads a member that no decision rests on.
func (r *reader) describe(e *Entry, n int, name string, v jsontext.Value) {
	var err error
	switch name {
	case "title":
		e.Title, err = text(v)
	case "summary":
		e.Summary, err = text(v)
	case "modified":
		e.Modified, err = stamp(v)
	case "lang":
		if e.Lang, err = text(v); err == nil {
			var tag language.Tag
			tag, err = language.Parse(e.Lang)
			e.Lang = tag.String()
		}
		if err != nil {
			e.Lang = ""
		}
	case "links":
		e.Links, err = links(v)
	}
	if err != nil {
		r.warn("entry %d: %s: %v", n, name, err)
	}
}

func readRID(v jsontext.Value) (RID, error) {
	s, err := text(v)
	if err != nil {
		return RID{}, err
	}
	return ParseRID(s)
}

// hash reads "sha256:" and 64 digits, which is the one form that the text shows.
func (r *reader) hash(n int, v jsontext.Value) (*[sha256.Size]byte, error) {
	s, err := text(v)
	if err != nil {
		return nil, err
	}
	digits, ok := strings.CutPrefix(s, "sha256:")
	if !ok {
		r.warn("entry %d: hash %.40q is of no known algorithm", n, s)
		return nil, nil
	}
	sum, ok := parseDigest(digits)
	if !ok {
		return nil, fmt.Errorf("%.100q is no SHA-256", s)
	}
	return &sum, nil
}

func mediaType(v jsontext.Value) (string, error) {
	s, err := text(v)
	if err != nil {
		return "", err
	}
	essence, _, err := mime.ParseMediaType(s)
	if err != nil || strings.Count(essence, "/") != 1 {
		return "", fmt.Errorf("%.80q is no media type", s)
	}
	return s, nil
}

func (r *reader) children(v jsontext.Value) (*Children, error) {
	c := Children{Offset: -1, Limit: -1, Total: -1}
	err := members(v, func(name string, v jsontext.Value) (err error) {
		switch name {
		case "href":
			c.Href, err = r.href(v)
		case "offset":
			c.Offset, err = number(v, 0)
		case "limit":
			c.Limit, err = number(v, 1)
		case "total":
			c.Total, err = number(v, 0)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case c.Href == "", c.Offset < 0, c.Limit < 0:
		return nil, errors.New("href, offset and limit are required")
	}
	return &c, nil
}

// links reads strings, which are ids or references, and objects.
func links(v jsontext.Value) (all []Link, err error) {
	err = items(v, maxList, func(_ int, v jsontext.Value) (err error) {
		var l Link
		if v.Kind() == '"' {
			l.Href, err = text(v)
		} else {
			err = members(v, func(name string, v jsontext.Value) (err error) {
				to := map[string]*string{"id": &l.ID, "href": &l.Href, "rel": &l.Rel}[name]
				if to != nil {
					*to, err = text(v)
				}
				return err
			})
		}
		all = append(all, l)
		return err
	})
	return all, err
}
