package scp

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// isBlock has the elements that begin and end a paragraph.
var isBlock = atomSet(
	atom.Address, atom.Article, atom.Aside, atom.Body, atom.Caption, atom.Center, atom.Dd, atom.Details, atom.Dialog, atom.Div,
	atom.Dl, atom.Dt, atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.Header, atom.Hgroup, atom.Hr,
	atom.Legend, atom.Li, atom.Main, atom.Option, atom.P, atom.Section, atom.Summary, atom.Tbody, atom.Td, atom.Tfoot, atom.Th,
	atom.Thead, atom.Tr,
)

// isDropped has those whose content is not what a reader comes for.
var isDropped = atomSet(
	atom.Button, atom.Datalist, atom.Iframe, atom.Nav, atom.Noembed, atom.Noframes, atom.Noscript, atom.Rp, atom.Select,
	atom.Style, atom.Template, atom.Textarea,
)

func atomSet(all ...atom.Atom) map[atom.Atom]bool {
	m := make(map[atom.Atom]bool, len(all))
	for _, a := range all {
		m[a] = true
	}
	return m
}

func isElement(n *html.Node, any ...atom.Atom) bool {
	return n.Type == html.ElementNode && slices.Contains(any, n.DataAtom)
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

// dropped reports whether n is left out: by its name, or because a rule says
// that it is navigation.
func (h *htmlReader) dropped(n *html.Node) bool {
	if isDropped[n.DataAtom] || n.DataAtom == atom.Script {
		return true
	}
	if isElement(n, atom.Html, atom.Body) {
		return false
	}
	if slices.Contains(h.rules.IDs, attr(n, "id")) && attr(n, "id") != "" || slices.Contains(h.rules.Roles, attr(n, "role")) && attr(n, "role") != "" {
		return true
	}
	return hasClass(n, h.rules.Classes)
}

func hasClass(n *html.Node, names []string) bool {
	for _, class := range strings.Fields(attr(n, "class")) {
		if slices.Contains(names, class) {
			return true
		}
	}
	return false
}

// text returns the words below n on lines: blocks and breaks part words, and
// inline elements do not.
func (h *htmlReader) text(n *html.Node) string {
	var b strings.Builder
	h.appendText(&b, n, false)
	return collapse(b.String())
}

// oneSpaced takes line breaks of the source for what they are: spaces.
var oneSpaced = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ", "\f", " ")

// appendText leaves lists out where items asks for it.
func (h *htmlReader) appendText(b *strings.Builder, n *html.Node, items bool) {
	lines := hasClass(n, h.rules.Lines)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if lines {
			b.WriteByte('\n')
		}
		switch {
		case c.Type == html.TextNode:
			b.WriteString(oneSpaced.Replace(c.Data))
		case c.Type != html.ElementNode, h.dropped(c):
		case items && isElement(c, atom.Ul, atom.Ol, atom.Menu, atom.Dir):
			b.WriteByte('\n')
		case c.DataAtom == atom.Br:
			b.WriteByte('\n')
		case isBlock[c.DataAtom] || isElement(c, atom.Ul, atom.Ol, atom.Menu, atom.Dir, atom.Table, atom.Pre, atom.Blockquote,
			atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6):
			b.WriteByte('\n')
			h.appendText(b, c, items)
			b.WriteByte('\n')
		default:
			h.appendText(b, c, items)
		}
	}
}

// items are those of a list; the items of a list inside of one follow it.
func (h *htmlReader) items(n *html.Node, all []string) []string {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type != html.ElementNode || h.dropped(c):
		case isElement(c, atom.Ul, atom.Ol, atom.Menu, atom.Dir):
			all = h.items(c, all)
		default:
			var b strings.Builder
			h.appendText(&b, c, true)
			if text := collapse(b.String()); text != "" {
				all = append(all, text)
			}
			all = h.inner(c, all)
		}
	}
	return all
}

// inner finds the lists below an item.
func (h *htmlReader) inner(n *html.Node, all []string) []string {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type != html.ElementNode || h.dropped(c):
		case isElement(c, atom.Ul, atom.Ol, atom.Menu, atom.Dir):
			all = h.items(c, all)
		default:
			all = h.inner(c, all)
		}
	}
	return all
}

// rows are those of a table, sections and caption in the order of the page.
func (h *htmlReader) rows(n *html.Node, all [][]string) [][]string {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type != html.ElementNode || h.dropped(c):
		case c.DataAtom == atom.Tr:
			var cells []string
			for d := c.FirstChild; d != nil; d = d.NextSibling {
				if isElement(d, atom.Td, atom.Th) && !h.dropped(d) {
					cells = append(cells, h.text(d))
				}
			}
			if len(cells) > 0 {
				all = append(all, cells)
			}
		case c.DataAtom == atom.Caption:
			if text := h.text(c); text != "" {
				all = append(all, []string{text})
			}
		default:
			all = h.rows(c, all)
		}
	}
	return all
}

// verbatim is the text below n as it stands.
func verbatim(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		if n.DataAtom == atom.Br {
			b.WriteByte('\n')
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(n)
	return b.String()
}

// codeLanguage is what a class "language-…" of a pre, or of the code in it,
// says.
func codeLanguage(n *html.Node) string {
	for _, class := range strings.Fields(attr(n, "class")) {
		for _, prefix := range []string{"language-", "lang-"} {
			if name, ok := strings.CutPrefix(class, prefix); ok && name != "" {
				return name
			}
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if isElement(c, atom.Code) {
			return codeLanguage(c)
		}
	}
	return ""
}

// oneLine is collapse for what stands on one line.
func oneLine(s string) string { return collapse(oneSpaced.Replace(s)) }

// collapse makes each run of white space one space, or one line feed where the
// run holds one that a block or a break has put there, and trims both ends.
func collapse(s string) string {
	lines := strings.Split(strings.ToValidUTF8(s, "\uFFFD"), "\n")
	kept := lines[:0]
	for _, line := range lines {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
