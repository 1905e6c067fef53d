package scp

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep objects and arrays of a line may nest. Schema.org data
// in the wild stays below a tenth of it.
const MaxDepth = 128

// A walker reads one line of JSON after the other, where they lie: it copies
// nothing but the few names and values that are asked for. Broken UTF-8 is no
// JSON. Duplicate names are an error wherever a name has a meaning here, and
// passed over elsewhere.
type walker struct {
	dec *jsontext.Decoder
	buf *bytes.Buffer

	// tops are the first members of the line that readPage read last, maxTops at most.
	tops []top
}

// maxTops is far more members than pages have, and few for a line of nothing else.
const maxTops = 256

// A top is a member of a line's object: its name with the quotes, and its value with
// what stands between the two.
type top struct{ name, value span }

func newWalker() *walker {
	return &walker{dec: new(jsontext.Decoder)}
}

func (w *walker) reset(line []byte) {
	w.buf = bytes.NewBuffer(line)
	w.dec.Reset(w.buf, jsontext.AllowDuplicateNames(true))
}

// object reads a line that must be one object, and calls visit behind each
// name with where it begins; visit reads the value. The name is valid until it does.
func (w *walker) object(line []byte, visit func(name []byte, at int) error) error {
	w.reset(line)
	if w.dec.PeekKind() != '{' {
		return errors.New("no JSON object")
	}
	if err := w.members(visit); err != nil {
		return err
	}
	if rest := bytes.TrimLeft(line[w.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return errors.New("something follows the object")
	}
	return nil
}

// members reads an object that is next, and calls visit behind each name with
// where it begins.
func (w *walker) members(visit func(name []byte, at int) error) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for w.dec.PeekKind() != '}' {
		raw, err := w.dec.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(unquoted(raw), int(w.dec.InputOffset())-len(raw)); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// skip reads a value of any kind, to MaxDepth.
func (w *walker) skip() error {
	switch w.dec.PeekKind() {
	case '{', '[':
	default:
		_, err := w.dec.ReadValue()
		return err
	}
	for base := w.dec.StackDepth(); ; {
		if _, err := w.dec.ReadToken(); err != nil {
			return err
		}
		switch depth := w.dec.StackDepth(); {
		case depth == base:
			return nil
		case depth > MaxDepth:
			return limit("more than %d levels deep", MaxDepth)
		}
	}
}

// value skips a value and says where it stands; with string, it must be one.
func (w *walker) value(name string, mustBe jsontext.Kind) (span, error) {
	k := w.dec.PeekKind()
	if mustBe != 0 && k != mustBe && k != 0 {
		return span{}, fmt.Errorf("%s is of the wrong kind: %v", name, k)
	}
	if mustBe == '"' || k == '"' {
		raw, err := w.dec.ReadValue()
		end := uint32(w.dec.InputOffset())
		return span{end - uint32(len(raw)), end}, err
	}
	// Where a value begins shows only when its first token has been read; what
	// stands before it is a colon and white space.
	from := w.dec.InputOffset()
	err := w.skip()
	return span{uint32(from), uint32(w.dec.InputOffset())}, err
}

// A span is a part of a line; the zero span is none.
type span struct{ from, to uint32 }

// of returns the part of line, without what stands before a value.
func (s span) of(line []byte) []byte {
	return bytes.TrimLeft(line[s.from:s.to], ": \t\r\n,")
}

// unquoted returns the text of a valid JSON string; it shares memory with it
// where it can.
func unquoted(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	s, _ := jsontext.AppendUnquote(nil, raw) // raw was read as valid
	return s
}
