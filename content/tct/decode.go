package tct

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrMalformed is wrapped by every error of Decode and Check.
var ErrMalformed = errors.New("malformed TCT payload")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// Decode reads a payload of any publisher: one JSON object in UTF-8 with the
// members that the draft requires, each once, whatever its order and spacing.
// Members that it does not know are passed over. A hash is checked for its
// form only: which method made it is its publisher's affair.
func Decode(payload []byte) (Document, error) {
	var d Document
	err := read(payload, false, func(name string, raw jsontext.Value, _ int64) error {
		field := map[string]*string{
			"canonical_url": &d.URL, "title": &d.Title, "content": &d.Content, "language": &d.Language, "hash": &d.Hash,
		}[name]
		if field == nil {
			return nil
		}
		s, err := jsontext.AppendUnquote(nil, raw)
		*field = string(s)
		return err
	})
	if err != nil {
		return Document{}, err
	}
	return d, nil
}

// Check returns nil for a payload as Encode makes it for a page at url: at
// most MaxPayload octets, in canonical form, the required members in place,
// canonical_url equal to url and the hash well formed. Members that later
// versions may add are allowed, up to 16 levels deep. It reads the payload
// once and copies none of it but numbers.
func Check(payload []byte, url string) error {
	return read(payload, true, func(name string, raw jsontext.Value, _ int64) error {
		return checkURL(name, raw, url)
	})
}

func checkURL(name string, raw jsontext.Value, url string) error {
	// A canonical URL holds nothing that JSON escapes.
	if name == "canonical_url" && string(raw[1:len(raw)-1]) != url {
		return fmt.Errorf("canonical_url is %.200s, not %.200q", raw, url)
	}
	return nil
}

// required and optional are the members whose values must be strings.
var (
	required = [...]string{"canonical_url", "content", "hash", "title"}
	optional = [...]string{"language", "profile"}
)

// read walks over a payload and gives visit each string member that the draft
// names, and the offset where its value ends; visit must not keep raw. With canonical, the bytes must be those that
// RFC 8785 gives.
func read(payload []byte, canonical bool, visit func(name string, raw jsontext.Value, end int64) error) error {
	if len(payload) > MaxPayload {
		return malformed("%d octets, more than %d", len(payload), MaxPayload)
	}
	w := walker{payload: payload, canonical: canonical, dec: jsontext.NewDecoder(bytes.NewBuffer(payload))}
	if w.dec.PeekKind() != '{' {
		return malformed("no JSON object")
	}
	var found [len(required)]bool
	for {
		raw, err := w.next()
		if err != nil {
			return malformed("%w", err)
		}
		depth := w.dec.StackDepth()
		if depth == 0 {
			break
		}
		name, need := w.member(raw, depth)
		if name == "" {
			continue
		}
		if raw.Kind() != '"' {
			return malformed("%s is no string", name)
		}
		if name == "hash" && !isHash(string(raw[1:len(raw)-1])) {
			return malformed("hash is %.100s", raw)
		}
		if need >= 0 {
			found[need] = true
		}
		if err := visit(name, raw, w.dec.InputOffset()); err != nil {
			return malformed("%w", err)
		}
	}
	if err := w.end(); err != nil {
		return malformed("%w", err)
	}
	for i, ok := range found {
		if !ok {
			return malformed("no string %s", required[i])
		}
	}
	return nil
}

// member returns the name of the member whose value the walker has just read or
// begun, if the draft names it, and its place among the required ones, or -1.
func (w *walker) member(raw jsontext.Value, depth int) (name string, need int) {
	begins := raw == nil && w.opened && depth == 2
	if !begins && (raw == nil || w.isName || depth != 1) {
		return "", -1
	}
	inner := unquoted(w.names[1])
	for i, s := range required {
		if string(inner) == s {
			return s, i
		}
	}
	for _, s := range optional {
		if string(inner) == s {
			return s, -1
		}
	}
	return "", -1
}
