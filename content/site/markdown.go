package site

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	render "github.com/yuin/goldmark/renderer/html"
)

// The renderer's time grows with the square of some nestings, so those that no
// author writes are refused.
const (
	maxMarkdown   = 1 << 20 // octets of a file
	maxContainers = 64      // quotes and lists that one line opens
	maxOpenLinks  = 256     // links of one paragraph that have no end
)

// newMarkdown returns a renderer of CommonMark with GitHub's extensions, which
// lets HTML in the text through: the extraction treats it like any other.
func newMarkdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(render.WithUnsafe()))
}

// fromMarkdown renders a page, or tells why it cannot. What its front matter
// says stands in the page as HTML says it.
func fromMarkdown(md goldmark.Markdown, src []byte) (page []byte, m frontMatter, reason string) {
	if len(src) > maxMarkdown {
		return nil, m, "Markdown of more than 1 MiB"
	}
	text, body := cutFrontMatter(string(src))
	m, ok, reason := parseFrontMatter(text)
	if reason != "" {
		return nil, m, reason
	}
	if !ok { // two rules with text between them
		body = string(src)
	}
	if nestsTooDeep(body) {
		return nil, m, "Markdown that nests too deep"
	}
	var b bytes.Buffer
	b.WriteString(m.head())
	if err := md.Convert([]byte(body), &b); err != nil {
		return nil, m, "Markdown that cannot be rendered"
	}
	return b.Bytes(), m, ""
}

// cutFrontMatter splits off what stands between two lines "---" at the start.
func cutFrontMatter(src string) (matter, body string) {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	if rest, ok := strings.CutPrefix(src, "---\n"); ok {
		if matter, body, ok := strings.Cut(rest, "\n---\n"); ok {
			return matter, body
		}
	}
	return "", src
}

func nestsTooDeep(body string) bool {
	openLinks := 0
	for l := range strings.Lines(body) {
		if strings.TrimSpace(l) == "" {
			openLinks = 0
		}
		openLinks = max(0, openLinks+strings.Count(l, "](")-strings.Count(l, ")"))
		if openLinks > maxOpenLinks || containers(l) > maxContainers {
			return true
		}
	}
	return false
}

// containers counts the marks of quotes and list items that a line starts with.
func containers(l string) (n int) {
	for i := 0; i+1 < len(l); i++ {
		switch c := l[i]; {
		case c == '>', strings.IndexByte("-+*.)", c) >= 0 && (l[i+1] == ' ' || l[i+1] == '\t'):
			n++
		case c == ' ', c == '\t', '0' <= c && c <= '9':
		default:
			return n
		}
	}
	return n
}
