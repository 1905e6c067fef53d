package indexer

import (
	"context"
	"errors"
	"fmt"
)

// files opens the file of every large page, and checks the page in it. A file
// that nothing names is no finding: it is swept.
func (s *seriesChecker) files(ctx context.Context) error {
	err := eachPage(s.r, s.rec.SID, func(_ []byte, row *catalogueRow) error {
		if !row.Held || row.File == 0 {
			return nil
		}
		name := fmt.Sprintf("file %d of %s", row.File, s.rec.Series)
		switch _, err := s.large.payload(s.keys, s.rec, row); {
		case err == nil:
			s.report.Pages++
			s.report.PayloadBytes += row.Length
		case errors.Is(err, ErrNoDataKey):
			s.find(findKey, row.File, name, "%v; the page cannot be read", err)
		case gone(err): // as a key goes: a backup that meets it is made again
			s.find(findKey, row.File, name, "it is not there, and %s lies in it", row.URL)
		default:
			s.find(findPage, row.File, name, "%s: %v", row.URL, err)
		}
		return ctx.Err()
	})
	if err != nil {
		return s.unreadable(ctx, "catalogue of "+s.rec.Series, err)
	}
	return nil
}
