package scp

import "strings"

func (b *Text) text() string    { return b.Text }
func (b *Heading) text() string { return b.Text }
func (b *Link) text() string    { return b.Text }
func (b *Image) text() string   { return b.Alt }
func (b *List) text() string    { return strings.Join(b.Items, "\n") }
func (b *Code) text() string    { return b.Code }
func (b *Quote) text() string   { return paragraphs(b.Text, b.Citation) }
func (b *Unknown) text() string { return "" }

func (b *Table) text() string {
	rows := make([]string, len(b.Rows))
	for i, cells := range b.Rows {
		rows[i] = strings.Join(cells, "\t")
	}
	return strings.Join(rows, "\n")
}

func (b *Video) text() string { return b.Media.text() }

func (b *Audio) text() string {
	return paragraphs(b.Media.text(), string(b.AttributedTo), string(b.PartOf))
}

func (m *Media) text() string {
	chapters := make([]string, len(m.Chapters))
	for i, c := range m.Chapters {
		chapters[i] = c.Title
	}
	return paragraphs(m.Name, m.Summary, strings.Join(chapters, "\n"), m.Transcript)
}

// paragraphs joins what is not empty by empty lines.
func paragraphs(parts ...string) string {
	var b strings.Builder
	for _, s := range parts {
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(s)
	}
	return b.String()
}

// blocksText is what a reader of a page's blocks sees, a paragraph a block.
func blocksText(blocks []Block) string {
	parts := make([]string, len(blocks))
	for i, b := range blocks {
		parts[i] = b.text()
	}
	return paragraphs(parts...)
}

// Text returns the page's words, for an index: those of its blocks and, as the
// text asks, not those of its schema.
func (p *Page) Text() string {
	blocks, _ := p.Blocks()
	return blocksText(blocks)
}

// fit brings blocks to at most MaxBlocks without losing a word: neighbouring
// paragraphs are joined first; if that is not enough, what is left becomes one
// text.
func fit(blocks []Block) []Block {
	if len(blocks) <= MaxBlocks {
		return blocks
	}
	var out []Block
	per := (len(blocks) + MaxBlocks - 1) / MaxBlocks
	for i := 0; i < len(blocks); {
		var group []Block
		for ; i < len(blocks) && len(group) < 2*per; i++ {
			if _, ok := blocks[i].(*Text); !ok {
				break
			}
			group = append(group, blocks[i])
		}
		if len(group) > 0 {
			out = append(out, &Text{blocksText(group)})
			continue
		}
		out = append(out, blocks[i])
		i++
	}
	if len(out) > MaxBlocks {
		out = append(out[:MaxBlocks-1:MaxBlocks-1], &Text{blocksText(out[MaxBlocks-1:])})
	}
	return out
}
