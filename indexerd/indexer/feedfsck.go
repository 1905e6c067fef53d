package indexer

import (
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// feed compares what the feed tells of a series with its catalogue: each page that is
// held is told as it is here, by a change that is there, and nothing else is. While a
// deletion is under way the two differ.
func (s *seriesChecker) feed() error {
	if s.rec.Deletions > 0 {
		return nil
	}
	held, told := 0, 0
	err := eachPage(s.r, s.rec.SID, func(key []byte, row *catalogueRow) error {
		if !row.Held {
			return nil
		}
		held++
		var page toldPage
		ok, err := readRow(s.r, feedSID(1, s.rec.SID, key[len(key)-32:]...), &page)
		if err != nil {
			return err
		}
		change, err := s.r.Get(changeKey(page.Number))
		switch {
		case err != nil && !errors.Is(err, durable.ErrNotFound):
			return err
		case !ok || page.Gone != 0:
			s.find(findPage, 0, fmt.Sprintf("%.200s", row.URL), "it is held, and the feed does not tell of it")
		case err != nil || len(change) != 36 || string(change[4:]) != string(key[len(key)-32:]):
			s.find(findPage, 0, fmt.Sprintf("%.200s", row.URL), "change %d of the feed is not of it", page.Number)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for after := []byte(nil); ; {
		some, err := walkTold(s.r, s.rec.SID, after)
		if err != nil || len(some) == 0 {
			if err == nil && told != held {
				s.find(findSeries, 0, s.rec.Series, "the feed tells of %d pages, %d are held", told, held)
			}
			return err
		}
		for _, w := range some {
			after = w.h
			if w.told.Gone == 0 {
				told++
			}
		}
	}
}
