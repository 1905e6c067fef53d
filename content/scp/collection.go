package scp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is what this package writes, and the only major number that it reads.
const Version = "0.1"

// Type tells a full state from changes.
type Type string

// The two types of a collection.
const (
	Snapshot Type = "snapshot"
	Delta    Type = "delta"
)

// A Collection is what the first line of a file says.
type Collection struct {
	ID, Section string
	Type        Type
	Generated   time.Time
	Since       time.Time // of a delta; zero otherwise
	Checksum    string    // as it was read; Encode never takes it from here
	Version     string
}

// maxName is the greatest length of an id or a section, in octets.
const maxName = 256

// isName is the schema's pattern for id and section.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

// cut is the part of a metadata line that its checksum does not cover.
type cut struct{ from, to int }

const checksumPrefix = "sha256:"

// readCollection reads a metadata line, whose white space at both ends is
// gone, and says where in it the checksum member stands.
func (w *walker) readCollection(line []byte, warn func(string)) (Collection, cut, error) {
	var c Collection
	var where cut
	found := false
	err := w.object(line, func(name []byte, _ int) error {
		if string(name) != "collection" {
			return w.skip()
		}
		if found {
			return errors.New("two members collection")
		}
		if found = true; w.dec.PeekKind() != '{' {
			return errors.New("collection is no object")
		}
		var err error
		where, err = w.collection(&c, line)
		return err
	})
	if err != nil {
		return Collection{}, cut{}, err
	}
	if !found {
		return Collection{}, cut{}, errors.New("no member collection: the first line must be the collection's metadata")
	}
	return c, where, c.check(warn)
}

// collection reads the inner object. The times stand in it as strings until
// both are read.
func (w *walker) collection(c *Collection, line []byte) (where cut, err error) {
	var generated, since, kind string
	fields := map[string]*string{
		"id": &c.ID, "section": &c.Section, "type": &kind, "generated": &generated, "since": &since,
		"checksum": &c.Checksum, "version": &c.Version,
	}
	seen := make(map[string]bool, len(fields))
	err = w.members(func(name []byte, at int) error {
		field := fields[string(name)]
		if field == nil {
			return w.skip()
		}
		key := string(name)
		if seen[key] {
			return fmt.Errorf("two members %s", key)
		}
		seen[key] = true
		if w.dec.PeekKind() != '"' {
			return fmt.Errorf("%s is no string", key)
		}
		raw, err := w.dec.ReadValue()
		if err != nil {
			return err
		}
		b, err := jsontext.AppendUnquote(nil, raw)
		*field = string(b)
		if key == "checksum" {
			where = cutMember(line, at, int(w.dec.InputOffset()))
		}
		return err
	})
	if err != nil {
		return cut{}, err
	}
	for _, key := range [...]string{"id", "section", "type", "generated", "version"} {
		if *fields[key] == "" {
			return cut{}, fmt.Errorf("no %s", key)
		}
	}
	c.Type = Type(kind)
	if seen["checksum"] && !isChecksum(c.Checksum) {
		return cut{}, fmt.Errorf("checksum %.100q is not sha256: and 64 digits", c.Checksum)
	}
	var ok bool
	if c.Generated, _, ok = parseTime(generated); !ok {
		return cut{}, fmt.Errorf("generated %.60q is no time", generated)
	}
	if c.Since, _, ok = parseTime(since); !ok && c.Type == Delta {
		return cut{}, fmt.Errorf("a delta's since %.60q is no time", since)
	}
	if c.Type != Delta {
		c.Since = time.Time{}
	}
	return where, nil
}

// cutMember widens the member between from, where its name begins, and to by
// one comma: the one before it, or, where it is the first, the one behind it.
func cutMember(line []byte, from, to int) cut {
	before := bytes.TrimRight(line[:from], " \t\r")
	if before[len(before)-1] == ',' {
		return cut{len(before) - 1, to}
	}
	if after := bytes.TrimLeft(line[to:], " \t\r"); after[0] == ',' {
		to = len(line) - len(after) + 1
	}
	return cut{from, to}
}

func isChecksum(s string) bool {
	digits, ok := strings.CutPrefix(s, checksumPrefix)
	_, err := hex.DecodeString(digits)
	return ok && len(digits) == 2*sha256.Size && err == nil
}

// check applies the rules that need more than one member.
func (c *Collection) check(warn func(string)) error {
	if err := checkVersion(c.Version); err != nil {
		return err
	}
	if c.Type != Snapshot && c.Type != Delta {
		return fmt.Errorf("type %.40q is neither snapshot nor delta", c.Type)
	}
	if len(c.ID) > maxName || len(c.Section) > maxName {
		return limit("id or section of more than %d octets", maxName)
	}
	if !isName(c.ID) || !isName(c.Section) {
		warn("id or section holds more than letters, digits, - and _")
	}
	if c.Type == Delta && c.Since.After(c.Generated) {
		warn("since is later than generated")
	}
	return nil
}

// checkVersion accepts MAJOR.MINOR with major 0 and any minor, as numbers.
func checkVersion(s string) error {
	major, minor, ok := strings.Cut(s, ".")
	if !ok || !isDigits(major) || !isDigits(minor) {
		return fmt.Errorf("version %.40q is not MAJOR.MINOR", s)
	}
	if strings.Trim(major, "0") != "" {
		return fmt.Errorf("%w: %.40q", ErrVersion, s)
	}
	return nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// valid says what keeps c from being written.
func (c *Collection) valid() error {
	switch {
	case !isName(c.ID):
		return fmt.Errorf("id %.80q: letters, digits, - and _", c.ID)
	case !isName(c.Section):
		return fmt.Errorf("section %.80q: letters, digits, - and _", c.Section)
	case c.Type != Snapshot && c.Type != Delta:
		return fmt.Errorf("type %.40q", c.Type)
	case c.Generated.IsZero() || !inRange(c.Generated):
		return errors.New("no generated time")
	case c.Type == Delta && (c.Since.IsZero() || !inRange(c.Since)):
		return errors.New("a delta without since")
	}
	return nil
}

// appendLine appends the metadata line; its checksum member, unless checksum
// is empty, is the last.
func (c *Collection) appendLine(dst []byte, checksum string) []byte {
	dst = append(dst, `{"collection":{"id":"`...)
	dst = append(dst, c.ID...)
	dst = append(dst, `","section":"`...)
	dst = append(dst, c.Section...)
	dst = append(dst, `","type":"`...)
	dst = append(dst, c.Type...)
	dst = append(dst, `","generated":"`...)
	dst = append(dst, formatTime(c.Generated)...)
	if c.Type == Delta {
		dst = append(dst, `","since":"`...)
		dst = append(dst, formatTime(c.Since)...)
	}
	dst = append(dst, `","version":"`+Version+`"`...)
	if checksum != "" {
		dst = append(dst, `,"checksum":"`...)
		dst = append(dst, checksum...)
		dst = append(dst, '"')
	}
	return append(dst, `}}`...)
}
