package site

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// prescan is how far into a file a declaration of its encoding counts, in
// octets (HTML Standard, 4.2.5.4).
const prescan = 1024

// toUTF8 returns a page as UTF-8, without a byte order mark, and whether it was
// in another encoding, or the reason why it cannot. A mark wins over what the
// page declares; what declares nothing is UTF-8.
func toUTF8(src []byte) (text []byte, decoded bool, reason string) {
	if mark := []byte("\xEF\xBB\xBF"); bytes.HasPrefix(src, mark) {
		src = src[len(mark):]
	} else if enc, name, reason := declaredEncoding(src); reason != "" {
		return nil, false, reason
	} else if enc != nil {
		text, err := enc.NewDecoder().Bytes(src)
		if err != nil || bytes.Contains(text, []byte("\uFFFD")) {
			return nil, false, "no " + name + ", though it says so"
		}
		return text, true, ""
	}
	if !utf8.Valid(src) {
		return nil, false, "no UTF-8, and it declares no other encoding"
	}
	return src, false, ""
}

// declaredEncoding returns the encoding that a page says it is in; nil means
// UTF-8.
func declaredEncoding(src []byte) (enc encoding.Encoding, name, reason string) {
	if bytes.HasPrefix(src, []byte("\xFE\xFF")) || bytes.HasPrefix(src, []byte("\xFF\xFE")) {
		return unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM), "utf-16", ""
	}
	label := declared(src[:min(len(src), prescan)])
	if label == nil {
		return nil, "", ""
	}
	switch enc, name = charset.Lookup(string(label)); {
	case enc == nil:
		return nil, "", fmt.Sprintf("its encoding %.40q is unknown", label)
	case name == "utf-8", name == "utf-16le", name == "utf-16be":
		return nil, "", "" // what a label in ASCII says of UTF-16 cannot be true
	}
	return enc, name, ""
}

// declared returns the label of the encoding that the head of a page declares,
// in a meta element or in XML's first line, or nil.
func declared(head []byte) []byte {
	if bytes.HasPrefix(head, []byte("<?xml")) {
		line, _, _ := bytes.Cut(head, []byte("?>"))
		if _, after, ok := bytes.Cut(line, []byte("encoding")); ok {
			if label := value(after); label != nil {
				return label
			}
		}
	}
	lex := lexer{src: head}
	for {
		switch lex.next() {
		case endOfFile:
			return nil
		case startTag:
			e := lookup(lex.name)
			if e.is(raw) {
				lex.rawText(e.name)
			}
			if e != elemMeta {
				continue
			}
			if lex.attrs.charset != nil {
				return bytes.TrimSpace(lex.attrs.charset)
			}
			at := bytes.Index(bytes.ToLower(lex.attrs.content), []byte("charset"))
			if at >= 0 && equalFold(lex.attrs.httpEquiv, "content-type") {
				if label := value(lex.attrs.content[at+len("charset"):]); label != nil {
					return label
				}
			}
		}
	}
}

// value returns what follows an equals sign, with or without quotes.
func value(s []byte) []byte {
	s = bytes.TrimLeft(s, " \t\r\n\f")
	if len(s) == 0 || s[0] != '=' {
		return nil
	}
	s = bytes.TrimLeft(s[1:], " \t\r\n\f")
	if len(s) > 0 && (s[0] == '"' || s[0] == '\'') {
		inner, _, _ := bytes.Cut(s[1:], s[:1])
		return inner
	}
	if i := bytes.IndexAny(s, " \t\r\n\f;"); i >= 0 {
		s = s[:i]
	}
	if len(s) == 0 {
		return nil
	}
	return s
}
