package translog

import (
	"strconv"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/plural"
)

// words is what an entry says to somebody who knows none of its terms.
type words struct{ Headline, Sentence string }

// words tells what s means beside d.
func (s Status) words(d Decision) words {
	switch s {
	case Accepted:
		if d == Update {
			return words{"New versions taken in", "The publisher sent new versions of pages that the indexer held, and the indexer replaced them."}
		}
		return words{"Pages taken in", "The publisher sent pages that the indexer did not hold, and the indexer took them in."}
	case Removed:
		return words{"Pages removed", "The publisher no longer offers these pages. The indexer has stopped using them, and erases them."}
	case Refused:
		return words{"Pages refused", "The publisher offered these pages, and the indexer did not take them. It told the publisher why."}
	case Reconciled:
		return words{"Compared with the publisher", "Publisher and indexer compared what they hold, and it is the same. No page changed hands."}
	case Rebound:
		return words{"Grant renewed", "The publisher renewed its grant. What the indexer holds is held under the new one from here on."}
	case GrantExpired:
		return words{"Grant expired", "The grant came to its end and was not renewed. The indexer has stopped using the pages under it."}
	case OutOfScope:
		return words{"Pages left outside", "The publisher renewed its grant for fewer pages. The indexer has stopped using those that it leaves out."}
	case Retention:
		return words{"Pages deleted after their time", "The time for which the indexer may keep these pages is over. It has deleted them."}
	case Stopped:
		return words{"Consent withdrawn, use stopped", "The publisher withdrew its consent. The indexer has stopped using the pages."}
	case Revoked:
		return words{"Pages deleted after withdrawal", "The publisher withdrew its consent and asked for deletion. The indexer has deleted the pages."}
	}
	return words{string(d) + ", " + string(s), "This page has no words for such an entry."}
}

// pagesOf counts pages, and is empty for none.
func pagesOf(n uint64) string {
	if n == 0 {
		return ""
	}
	return grouped(n) + " " + plural.Of(n, "page", "pages")
}

// grouped writes n with commas between groups of three digits.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// A pageTime is a time as a page writes it.
type pageTime struct{ t time.Time }

// Human is for people: in UTC, with the name of the month.
func (p pageTime) Human() string { return p.t.UTC().Format("2 January 2006, 15:04:05 UTC") }

// Machine is the same for programs (RFC 3339).
func (p pageTime) Machine() string { return p.t.UTC().Format(time.RFC3339) }
