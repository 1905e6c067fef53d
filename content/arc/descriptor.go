package arc

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"
)

// MaxDescriptor is the greatest size of what is searched for a descriptor, in
// octets.
const MaxDescriptor = 1 << 20

// Descriptor returns the JSON-LD that tells of a sitemap (E.3.2), for a file of
// its own or for a script element of type application/ld+json in a page. Unlike
// the text's example it says where the data is as well. It holds no "<", so that
// it cannot end that element.
func Descriptor(sitemapURL string) ([]byte, error) {
	b, err := json.Marshal(map[string]any{
		"@context": "https://schema.org", "@type": "Dataset", "name": "ARC Sitemap", "url": sitemapURL,
		"distribution": []any{map[string]string{"@type": "DataDownload", "contentUrl": sitemapURL, "encodingFormat": "application/json"}},
	}, json.Deterministic(true), jsontext.EscapeForHTML(true), jsontext.WithIndent("  "))
	return append(b, '\n'), err
}

// ReadDescriptor finds where a sitemap is by a descriptor: JSON-LD alone, in a
// script element, or somewhere in a page. A URL is resolved against base. The
// error wraps ErrDescriptor if nothing tells of a sitemap.
func ReadDescriptor(document []byte, base string) (sitemap string, err error) {
	if len(document) > MaxDescriptor {
		document = document[:MaxDescriptor]
	}
	from, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	document = bytes.TrimSpace(document)
	if len(document) > 0 && document[0] != '<' {
		if found := described(document, from); found != "" {
			return found, nil
		}
		return "", fmt.Errorf("%w: it tells of no ARC sitemap", ErrDescriptor)
	}
	z := html.NewTokenizer(bytes.NewReader(document))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return "", fmt.Errorf("%w: the page tells of no ARC sitemap", ErrDescriptor)
		case html.StartTagToken:
			if t := z.Token(); t.Data == "script" && isLD(t) && z.Next() == html.TextToken {
				if found := described(bytes.TrimSpace(z.Text()), from); found != "" {
					return found, nil
				}
			}
		}
	}
}

func isLD(t html.Token) bool {
	for _, a := range t.Attr {
		if a.Key == "type" {
			media, _, _ := strings.Cut(strings.ToLower(a.Val), ";")
			return strings.TrimSpace(media) == "application/ld+json"
		}
	}
	return false
}

// described returns the URL that one JSON-LD object, or one of a list, gives of
// a data set called "ARC Sitemap".
func described(text []byte, base *url.URL) string {
	type download struct {
		URL    jsontext.Value `json:"contentUrl"`
		Format jsontext.Value `json:"encodingFormat"`
	}
	type dataset struct {
		Type         jsontext.Value `json:"@type"`
		Name         jsontext.Value `json:"name"`
		URL          jsontext.Value `json:"url"`
		Distribution jsontext.Value `json:"distribution"`
	}
	if checkDepth(text, maxDepth) != nil {
		return ""
	}
	var all []dataset
	if one := (dataset{}); json.Unmarshal(text, &one) == nil {
		all = append(all, one)
	} else if json.Unmarshal(text, &all) != nil {
		return ""
	}
	for _, d := range all {
		if !bytes.Contains(d.Type, []byte(`"Dataset"`)) || !strings.EqualFold(strings.TrimSpace(stringOf(d.Name)), "ARC Sitemap") {
			continue
		}
		var downloads []download
		if one := (download{}); json.Unmarshal(d.Distribution, &one) == nil {
			downloads = append(downloads, one)
		} else if json.Unmarshal(d.Distribution, &downloads) != nil {
			downloads = nil
		}
		candidates := []string{}
		for _, x := range downloads {
			candidates = append(candidates, stringOf(x.URL))
		}
		for _, c := range append(candidates, stringOf(d.URL)) {
			if u, err := base.Parse(c); c != "" && err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil {
				return u.String()
			}
		}
	}
	return ""
}
