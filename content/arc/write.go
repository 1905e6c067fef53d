package arc

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// formatTime prints a time as it is written here: RFC 3339, in UTC and whole
// seconds.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// members are those of a head, in the order of the text's examples.
func (h *Head) members() [][2]string {
	all := [][2]string{{"arc_sitemap_version", h.Version}, {"site", h.Site}, {"generated_at", formatTime(h.Generated)}}
	if h.Rate > 0 {
		all = append(all, [2]string{"crawl_rate", FormatRate(h.Rate)})
	}
	if h.Contact != "" {
		all = append(all, [2]string{"ai-crawl-contact", h.Contact})
	}
	if !h.Since.IsZero() {
		all = append(all, [2]string{"delta_since", formatTime(h.Since)})
	}
	return all
}

// FormatRate prints a rate of requests a second so that ParseRate reads it.
func FormatRate(perSecond float64) string {
	for _, u := range []struct {
		per float64
		in  string
	}{{1, "s"}, {60, "m"}, {3600, "h"}, {86400, "d"}} {
		if n := perSecond * u.per; n >= 1 || u.in == "d" {
			return strconv.FormatFloat(n, 'f', -1, 64) + "/" + u.in
		}
	}
	return ""
}

// WriteSitemap writes a sitemap in JSON, with the lines of entries in their
// order; it holds one of them. The same head and lines give the same octets.
func WriteSitemap(to io.Writer, h Head, lines iter.Seq2[[]byte, error]) error {
	out := bufio.NewWriterSize(to, 64<<10)
	out.WriteByte('{')
	for _, m := range h.members() {
		fmt.Fprintf(out, "%s:%s,", quote(m[0]), quote(m[1]))
	}
	out.WriteString(`"pages":[`)
	between := "\n"
	for line, err := range lines {
		if err != nil {
			return err
		}
		out.WriteString(between)
		if _, err := out.Write(line); err != nil {
			return err
		}
		between = ",\n"
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}

// WriteYAML writes the same as WriteSitemap in YAML. Every string is in quotes,
// so that a time stays one for any reader.
func WriteYAML(to io.Writer, h Head, lines iter.Seq2[[]byte, error]) error {
	out := bufio.NewWriterSize(to, 64<<10)
	for _, m := range h.members() {
		fmt.Fprintf(out, "%s: %s\n", m[0], spaced(jsontext.Value(quote(m[1]))))
	}
	empty := true
	for line, err := range lines {
		if err != nil {
			return err
		}
		if empty {
			out.WriteString("pages:\n")
			empty = false
		}
		if err := entryYAML(out, line); err != nil {
			return err
		}
	}
	if empty {
		out.WriteString("pages: []\n")
	}
	return out.Flush()
}

// entryYAML writes one entry, its url first and a member a line; what a member
// holds is JSON, which is YAML as well.
func entryYAML(out *bufio.Writer, line []byte) error {
	members, err := shallow(line)
	if err != nil {
		return err
	}
	names := []string{"url", "lastmod", "ai_indexable", "ai_summary", "ai_tags", "ai_checksum", "crawl_priority", "auth_required", "robots_directive", "ai_snapshot"}
	known := make(map[string]bool)
	indent := "  - "
	write := func(name string, v jsontext.Value) {
		fmt.Fprintf(out, "%s%s: %s\n", indent, name, spaced(v))
		indent = "    "
	}
	for _, name := range names {
		known[name] = true
		if v, ok := members[name]; ok {
			write(name, v)
		}
	}
	for name, v := range sorted(members) {
		if !known[name] {
			write(spaced(jsontext.Value(quote(name))), v)
		}
	}
	return nil
}

// spaced writes a value with a space behind each colon and comma, without which
// not every reader of YAML takes it, and with escapes for what YAML would take for
// a break of a line or not at all.
func spaced(v jsontext.Value) string {
	v = v.Clone()
	if v.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)) != nil {
		return "null" // no JSON, which an entry's members are
	}
	var b strings.Builder
	for _, r := range string(v) {
		if r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// quote writes a string as JSON.
func quote(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil { // no UTF-8
		b, _ = json.Marshal(s)
	}
	return string(b)
}
