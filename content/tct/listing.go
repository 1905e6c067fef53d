package tct

import "strings"

// IsListing reports whether a page's URL looks like that of a page which only
// lists others, by the examples of the draft ("Content Pages Only"): a category,
// a tag, an author, a month or a year, or the results of a search. Such pages
// get no M-URL, and a request for one is answered 404.
func IsListing(pageURL string) bool {
	_, rest, _ := strings.Cut(pageURL, "://")
	_, path, _ := strings.Cut(rest, "/")
	path, query, _ := strings.Cut(path, "?")
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")
	last := segments[len(segments)-1]
	if len(segments) > 1 {
		switch segments[len(segments)-2] {
		case "category", "tag", "author":
			return true
		}
	}
	switch {
	case last == "search" && query != "":
		return true
	case !strings.HasSuffix(path, "/"):
		return false
	}
	// Nothing but a date from the root on: /2025/, /2025/10/, /2025/10/31/.
	for i, s := range segments {
		if digits := 2 + 2*max(0, 1-i); len(s) != digits || strings.Trim(s, "0123456789") != "" || i > 2 {
			return false
		}
	}
	return true
}
