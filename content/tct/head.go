package tct

import (
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// maxHead is how much of a page is read in search of its links, in octets.
const maxHead = 1 << 20

// A Head is what the head element of a page says about machine URLs. Links are
// absolute; empty where there is none.
type Head struct {
	Alternate string   // rel=alternate, type=application/json: the M-URL
	Index     string   // rel=index, type=application/json: the sitemap
	Policy    string   // rel=describedby, type=application/json
	Canonical string   // rel=canonical
	Robots    []string // of its robots meta tags, in lower case
}

// ReadHead reads the head of the HTML page at pageURL, and no further than its
// first MiB. A link in the body is none: what readers of a page can write there
// must not speak for it. What is no page at all has no links.
func ReadHead(r io.Reader, pageURL string) (Head, error) {
	var head Head
	base, err := url.Parse(pageURL)
	if err != nil {
		return head, err
	}
	z := html.NewTokenizer(io.LimitReader(r, maxHead))
	z.SetMaxBuf(64 << 10)
	based := false
	for {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); err != io.EOF && err != html.ErrBufferExceeded {
				return head, err
			}
			return head, nil
		case html.TextToken:
			if strings.TrimSpace(string(z.Raw())) != "" {
				return head, nil // text begins the body
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == "head" || string(name) == "body" || string(name) == "html" {
				return head, nil
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			switch token.Data {
			case "html", "head":
			case "base":
				if ref, err := base.Parse(attribute(token, "href")); err == nil && !based {
					base, based = ref, true
				}
			case "link":
				head.link(token, base)
			case "meta":
				if strings.EqualFold(attribute(token, "name"), "robots") {
					for word := range strings.SplitSeq(strings.ToLower(attribute(token, "content")), ",") {
						head.Robots = append(head.Robots, strings.TrimSpace(word))
					}
				}
			case "title", "style", "script", "noscript", "template":
				skipElement(z, token.Data)
			default:
				return head, nil // anything else begins the body
			}
		}
	}
}

// skipElement reads up to the end of an element that holds no links of ours.
func skipElement(z *html.Tokenizer, name string) {
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.EndTagToken:
			if end, _ := z.TagName(); string(end) == name {
				return
			}
		}
	}
}

func (h *Head) link(token html.Token, base *url.URL) {
	target, err := base.Parse(strings.TrimSpace(attribute(token, "href")))
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.User != nil {
		return
	}
	rel := strings.Fields(strings.ToLower(attribute(token, "rel")))
	media, _, _ := strings.Cut(strings.ToLower(attribute(token, "type")), ";")
	isJSON := strings.TrimSpace(media) == "application/json"
	for _, l := range []struct {
		rel  string
		json bool
		to   *string
	}{{"alternate", true, &h.Alternate}, {"index", true, &h.Index}, {"describedby", true, &h.Policy}, {"canonical", false, &h.Canonical}} {
		if *l.to == "" && slices.Contains(rel, l.rel) && (isJSON || !l.json) {
			*l.to = target.String()
		}
	}
}

func attribute(token html.Token, name string) string {
	for _, a := range token.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

// NoIndex reports whether robots directives ask not to be indexed.
func NoIndex(directives []string) bool {
	return slices.Contains(directives, "noindex") || slices.Contains(directives, "none")
}
