package rbt

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of a document.
const (
	MaxManifest = 10 << 20 // octets of a manifest, page or registry (15.3)
	MaxEntries  = 10_000   // entries of one of them (15.3)
	MaxPointer  = 64 << 10 // octets of a well-known document

	maxNesting  = 32      // objects and arrays that are open at once
	maxText     = 1 << 16 // octets of a string
	maxRoots    = 64      // roots, and mirrors, of one manifest or burrow
	maxList     = 1000    // rel, links, tags, hints or globs of one list
	maxWarnings = 100     // that one document gives; more are counted
)

// checkText looks at what can be judged before anything is read: size, a byte
// order mark (6.1), and how deep brackets nest.
func checkText(data []byte, most int) error {
	if len(data) > most {
		return fmt.Errorf("%w: %d octets, at most %d", ErrLimit, len(data), most)
	}
	if bytes.HasPrefix(data, []byte("\xEF\xBB\xBF")) {
		return errors.New("a byte order mark")
	}
	depth, inText := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return fmt.Errorf("%w: more than %d levels deep", ErrLimit, maxNesting)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// members gives visit each member of an object, in its order; one whose value
// is null counts as absent. A name that is there twice, and octets that are not
// UTF-8, are errors.
func members(object jsontext.Value, visit func(name string, v jsontext.Value) error) error {
	return allMembers(object, func(name string, v jsontext.Value) error {
		if v.Kind() == 'n' {
			return nil
		}
		return visit(name, v)
	})
}

// allMembers is members with those that are null.
func allMembers(object jsontext.Value, visit func(name string, v jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(object))
	if d.PeekKind() != '{' {
		return kindError(d, "object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		v, err := value(d, object)
		if err != nil {
			return err
		}
		if err := visit(name, v); err != nil {
			return fmt.Errorf("%.60s: %w", name, err)
		}
	}
	return end(d, object)
}

// items gives visit each value of an array, and stops before the one that is
// more than most.
func items(array jsontext.Value, most int, visit func(n int, v jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(array))
	if d.PeekKind() != '[' {
		return kindError(d, "array")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		if k := d.PeekKind(); k == ']' || k == 0 {
			return end(d, array)
		}
		if n == most {
			return fmt.Errorf("%w: more than %d items", ErrLimit, most)
		}
		v, err := value(d, array)
		if err != nil {
			return err
		}
		if err := visit(n, v); err != nil {
			return fmt.Errorf("item %d: %w", n, err)
		}
	}
}

// value reads one value, and returns it as a piece of the text.
func value(d *jsontext.Decoder, text []byte) (jsontext.Value, error) {
	v, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	at := d.InputOffset()
	return text[at-int64(len(v)) : at], nil
}

// end reads the last bracket, behind which nothing may stand.
func end(d *jsontext.Decoder, text []byte) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if len(bytes.TrimLeft(text[d.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("something follows the end")
	}
	return nil
}

// kindError says what is there in place of what was wanted.
func kindError(d *jsontext.Decoder, want string) error {
	if d.PeekKind() == 0 {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
	}
	return fmt.Errorf("no %s", want)
}

func text(v jsontext.Value) (string, error) {
	if v.Kind() != '"' {
		return "", errors.New("no string")
	}
	if len(v) > maxText {
		return "", fmt.Errorf("%w: a string of %d octets, at most %d", ErrLimit, len(v), maxText)
	}
	s, err := jsontext.AppendUnquote(nil, v)
	return string(s), err
}

// number reads an integer from least on, at most 2^53−1.
func number(v jsontext.Value, least int64) (int64, error) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if v.Kind() != '0' || err != nil || n < least || n > 1<<53-1 {
		return 0, fmt.Errorf("%.40s is no integer from %d on", v, least)
	}
	return n, nil
}

// stamp reads a time as RFC 3339 has it.
func stamp(v jsontext.Value) (time.Time, error) {
	s, err := text(v)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is no time of RFC 3339", s)
	}
	return t.UTC(), nil
}

// texts reads an array of strings.
func texts(v jsontext.Value) (all []string, err error) {
	err = items(v, maxList, func(_ int, v jsontext.Value) error {
		s, err := text(v)
		all = append(all, s)
		return err
	})
	return all, err
}
