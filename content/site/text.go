package site

import (
	"bytes"
	"html"
)

// A writer collects words, and the gaps between them as small as their place
// allows. What it has written is valid UTF-8 if its input is, holds no control
// characters but tabs and line feeds, neither starts nor ends with white
// space, and never has two gaps in a row: a gap is written only when a word
// follows. The exception is the indentation of verbatim text.
type writer struct {
	out    []byte
	gap    gap
	indent []byte // spaces and tabs behind the gap, in verbatim text only

	// held says that the gap is the one before a cell, whose first word stands
	// behind it whatever blocks it is in.
	held bool
}

func (w *writer) reset() {
	w.out, w.gap, w.indent, w.held = w.out[:0], joined, w.indent[:0], false
}

// separate puts at least g between what was written and what follows.
func (w *writer) separate(g gap) {
	if g == joined {
		return
	}
	w.indent = w.indent[:0]
	if !w.held {
		w.gap = max(w.gap, g)
	}
}

// startCell and endCell stand around a table's cell; empty says that nothing
// was written between them.
func (w *writer) startCell() {
	w.separate(cell)
	w.held = w.gap == cell
}

func (w *writer) endCell(empty bool) {
	w.held = false
	w.separate(cell)
	if !empty {
		w.gap = cell // whatever block it ended with
	}
}

// reference writes text with its character references decoded, once.
func (w *writer) reference(s []byte, verbatim bool) {
	for {
		i := bytes.IndexByte(s, '&')
		if i < 0 {
			w.plain(s, verbatim)
			return
		}
		w.plain(s[:i], verbatim)
		s = s[i:]
		end := bytes.IndexByte(s[1:], '&') + 1
		if end == 0 {
			end = len(s)
		}
		if c, n := commonReference(s); n > 0 {
			w.word(c)
			s = s[n:]
			continue
		}
		w.plain([]byte(html.UnescapeString(string(s[:end]))), verbatim)
		s = s[end:]
	}
}

// commonReference decodes those references that most of a page's are, and
// returns their length, or 0 for all others.
func commonReference(s []byte) (char string, n int) {
	switch {
	case bytes.HasPrefix(s, []byte("&lt;")):
		return "<", 4
	case bytes.HasPrefix(s, []byte("&gt;")):
		return ">", 4
	case bytes.HasPrefix(s, []byte("&amp;")):
		return "&", 5
	case bytes.HasPrefix(s, []byte("&quot;")):
		return `"`, 6
	}
	return "", 0
}

// plain writes text without references.
func (w *writer) plain(s []byte, verbatim bool) {
	for i := 0; i < len(s); {
		switch byteClass[s[i]] {
		case wordByte:
			start := i
			for i++; i < len(s) && byteClass[s[i]] == wordByte; i++ {
			}
			w.flush()
			w.out = append(w.out, s[start:i]...)
		case spaceByte:
			w.space(s[i], verbatim && (s[i] != '\r' || i+1 == len(s) || s[i+1] != '\n'))
			i++
		case controlByte:
			i++
		case c2Byte: // starts U+0080 to U+00BF
			switch c := s[i+1]; {
			case c == 0xA0 || c == 0x85:
				w.space(' ', verbatim)
			case c > 0x9F:
				w.flush()
				w.out = append(w.out, s[i:i+2]...)
			}
			i += 2
		}
	}
}

// word writes a piece of a word.
func (w *writer) word(s string) {
	w.flush()
	w.out = append(w.out, s...)
}

func (w *writer) space(c byte, verbatim bool) {
	switch {
	case !verbatim:
		w.gap = max(w.gap, spaced)
	case c == '\n' || c == '\r':
		w.indent = w.indent[:0]
		if !w.held {
			w.gap = min(max(w.gap+1, line), paragraph)
		}
	case c == '\t':
		w.indent = append(w.indent, '\t')
	default:
		w.indent = append(w.indent, ' ')
	}
}

// flush writes the gap before a word.
func (w *writer) flush() {
	w.held = false
	if w.gap == joined && len(w.indent) == 0 {
		return
	}
	if len(w.out) > 0 {
		switch {
		case w.gap == paragraph:
			w.out = append(w.out, "\n\n"...)
		case w.gap == line:
			w.out = append(w.out, '\n')
		case w.gap == cell:
			w.out = append(w.out, '\t')
		case len(w.indent) == 0:
			w.out = append(w.out, ' ')
		}
		w.out = append(w.out, w.indent...)
	}
	w.gap, w.indent = joined, w.indent[:0]
}

const (
	wordByte = iota
	spaceByte
	controlByte
	c2Byte
)

var byteClass = classifyBytes()

func classifyBytes() (class [256]uint8) {
	for c := range 0x20 {
		class[c] = controlByte
	}
	class[0x7F] = controlByte
	for _, c := range " \t\n\r\f" {
		class[c] = spaceByte
	}
	class[0xC2] = c2Byte
	return class
}
