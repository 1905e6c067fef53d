package site

import "bytes"

// A kind tells what the lexer found.
type kind uint8

const (
	endOfFile kind = iota
	text           // character data in lexer.text, its references not yet decoded
	startTag
	endTag
)

// A lexer splits HTML into tags and text, by the tokenisation rules of the
// HTML Standard (13.2.5). Comments, declarations and processing instructions
// are passed over. It never allocates, never changes src, and reads each byte
// a bounded number of times, whatever the input.
//
// TestLexerAgreesWithNetHTML and FuzzLexer hold its tokens against those of
// golang.org/x/net/html.
type lexer struct {
	src []byte
	pos int

	text []byte // of the last text token

	// Of the last tag: its name as it is written, and in lower case, which is
	// valid until the next tag.
	written, name []byte
	attrs         attributes
	hasAttrs      bool // any of those
	selfClosing   bool

	lower [maxName]byte
}

// maxName is the length above which a tag name is none that we know and is
// compared as written.
const maxName = 32

// attributes holds the values that the extraction asks for, as written in the
// source; the first of two of one name counts.
type attributes struct {
	class, id, role, lang, name, content, charset, httpEquiv []byte
}

// field returns the place for an attribute's value, or nil for the others.
func (a *attributes) field(key []byte) *[]byte {
	switch len(key) {
	case 2:
		if equalFold(key, "id") {
			return &a.id
		}
	case 4:
		switch key[0] | 0x20 {
		case 'r':
			if equalFold(key, "role") {
				return &a.role
			}
		case 'l':
			if equalFold(key, "lang") {
				return &a.lang
			}
		case 'n':
			if equalFold(key, "name") {
				return &a.name
			}
		}
	case 5:
		if equalFold(key, "class") {
			return &a.class
		}
	case 7:
		switch {
		case equalFold(key, "content"):
			return &a.content
		case equalFold(key, "charset"):
			return &a.charset
		}
	case 10:
		if equalFold(key, "http-equiv") {
			return &a.httpEquiv
		}
	}
	return nil
}

// next returns the next token's kind; its parts stand in z.
func (z *lexer) next() kind {
	start := z.pos
	for z.pos < len(z.src) {
		i := bytes.IndexByte(z.src[z.pos:], '<')
		if i < 0 || z.pos+i+1 >= len(z.src) {
			break
		}
		z.pos += i
		c := z.src[z.pos+1]
		if !isLetter(c) && c != '/' && c != '!' && c != '?' || c == '/' && z.pos+2 >= len(z.src) {
			z.pos++
			continue
		}
		if z.pos > start {
			z.text = z.src[start:z.pos]
			return text
		}
		if k := z.markup(c); k != endOfFile {
			return k
		}
		start = z.pos
	}
	z.pos = len(z.src)
	if start < z.pos {
		z.text = z.src[start:]
		return text
	}
	return endOfFile
}

// markup reads what starts with '<' and c, and returns endOfFile for what is
// passed over, as a tag that the file's end cuts off.
func (z *lexer) markup(c byte) kind {
	switch {
	case isLetter(c):
		z.pos++
		if z.tag() {
			return startTag
		}
	case c == '/' && isLetter(z.src[z.pos+2]):
		z.pos += 2
		if z.tag() {
			return endTag
		}
	case c == '!' && bytes.HasPrefix(z.src[z.pos:], []byte("<!--")):
		z.pos += len("<!--")
		z.comment()
	default: // a declaration, an instruction, "</>", or a bogus comment
		z.pos += 2
		z.skipPast('>')
	}
	return endOfFile
}

// skipPast moves behind the next c, or to the end.
func (z *lexer) skipPast(c byte) {
	if i := bytes.IndexByte(z.src[z.pos:], c); i >= 0 {
		z.pos += i + 1
	} else {
		z.pos = len(z.src)
	}
}

// comment moves behind a comment whose "<!--" has been read: "-->" and "--!>"
// end it, and so do ">" and "->" right at its start.
func (z *lexer) comment() {
	start := z.pos
	for z.pos < len(z.src) {
		z.skipPast('>')
		body := z.src[start:z.pos]
		switch {
		case string(body) == ">", string(body) == "->":
			return
		case bytes.HasSuffix(body, []byte("-->")), bytes.HasSuffix(body, []byte("--!>")):
			return
		}
	}
}

// tag reads a tag's name and attributes, and reports whether it is whole.
func (z *lexer) tag() bool {
	start := z.pos
	upper := false
	for z.pos < len(z.src) && !endsName[z.src[z.pos]] {
		upper = upper || 'A' <= z.src[z.pos] && z.src[z.pos] <= 'Z'
		z.pos++
	}
	z.written = z.src[start:z.pos]
	z.name = z.written
	if upper && len(z.name) <= maxName {
		z.name = append(z.lower[:0], z.name...)
		for i, c := range z.name {
			if 'A' <= c && c <= 'Z' {
				z.name[i] = c | 0x20
			}
		}
	}
	z.selfClosing = false
	if z.hasAttrs {
		z.attrs, z.hasAttrs = attributes{}, false
	}
	for {
		z.skipSpace()
		if z.pos >= len(z.src) {
			return false
		}
		switch z.src[z.pos] {
		case '>':
			z.pos++
			return true
		case '/':
			z.pos++
			z.selfClosing = z.pos < len(z.src) && z.src[z.pos] == '>'
		default:
			z.attribute()
		}
	}
}

// attribute reads one attribute, whose first byte is neither space, '/' nor '>'.
func (z *lexer) attribute() {
	start := z.pos
	z.pos++ // an equals sign here would belong to the name
	for z.pos < len(z.src) && z.src[z.pos] != '=' && !endsName[z.src[z.pos]] {
		z.pos++
	}
	key := z.src[start:z.pos]
	z.skipSpace()
	if z.pos >= len(z.src) || z.src[z.pos] != '=' {
		return
	}
	z.pos++
	z.skipSpace()
	if z.pos >= len(z.src) {
		return
	}
	var value []byte
	switch c := z.src[z.pos]; c {
	case '>':
	case '"', '\'':
		z.pos++
		start = z.pos
		z.skipPast(c)
		value = z.src[start:max(start, z.pos-1)]
	default:
		start = z.pos
		for z.pos < len(z.src) && z.src[z.pos] != '>' && !isSpace(z.src[z.pos]) {
			z.pos++
		}
		value = z.src[start:z.pos]
	}
	if field := z.attrs.field(key); field != nil && *field == nil {
		*field, z.hasAttrs = value, true
	}
}

func (z *lexer) skipSpace() {
	for z.pos < len(z.src) && isSpace(z.src[z.pos]) {
		z.pos++
	}
}

// rawText returns what stands before the end tag of name, which is in lower
// case, and moves there. Nothing ends "plaintext".
func (z *lexer) rawText(name string) []byte {
	start := z.pos
	z.pos = len(z.src)
	if name != "plaintext" {
		for p := start; ; {
			i := bytes.IndexByte(z.src[p:], '<')
			if i < 0 {
				break
			}
			p += i
			if isRawEnd(z.src[p:], name) {
				z.pos = p
				break
			}
			if p++; name == "script" && bytes.HasPrefix(z.src[p:], []byte("!--")) {
				p = escapedScript(z.src, p+len("!--"))
			}
		}
	}
	return z.src[start:z.pos]
}

// escapedScript returns where the part of a script that "<!--" opened ends:
// behind its "-->", or at the end tag that closes the whole script. Between
// "<script" and "</script" that tag is only text.
func escapedScript(src []byte, p int) int {
	for nested := false; p < len(src); p++ {
		switch src[p] {
		case '>':
			if src[p-1] == '-' && src[p-2] == '-' { // those of "<!--" count too
				return p + 1
			}
		case '<':
			switch {
			case isRawEnd(src[p:], "script"):
				if !nested {
					return p
				}
				nested = false
			case !nested && isRawStart(src[p:], "script"):
				nested = true
			}
		}
	}
	return len(src)
}

// isRawEnd reports whether s starts with the end tag of name.
func isRawEnd(s []byte, name string) bool {
	return len(s) > 1 && s[1] == '/' && isRawStart(s[1:], name)
}

// isRawStart reports whether name follows the first byte of s, and then what
// ends a name.
func isRawStart(s []byte, name string) bool {
	return len(s) > len(name)+1 && endsName[s[len(name)+1]] && equalFold(s[1:len(name)+1], name)
}

// endsName marks the bytes that end a tag's or an attribute's name.
var endsName = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\f': true, '/': true, '>': true}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'
}

func isLetter(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z'
}

// equalFold compares b with a lower-case ASCII s of the same length, whatever
// the case of b's letters.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, c := range b {
		if c != s[i] && (c < 'A' || c > 'Z' || c|0x20 != s[i]) {
			return false
		}
	}
	return true
}
