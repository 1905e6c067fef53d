package indexer

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// retention checks that what holds pages is known to retention, so that none of
// it is kept for ever, and that what went at the end of its time is accounted for.
func (s *seriesChecker) retention(ctx context.Context) error {
	known := make(map[uint64]bool)
	lo := sidKey('H', s.rec.SID)
	for kv, err := range s.r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return s.unreadable(ctx, "retention of "+s.rec.Series, err)
		}
		var row heldRow
		if err := json.Unmarshal(kv.Value, &row); err != nil || len(kv.Key) != len(lo)+8 {
			s.find(findSeries, 0, fmt.Sprintf("row %.80x", kv.Key), "it tells no time: %v", err)
			continue
		}
		known[segmentNumber(kv.Key)] = true
	}
	steps := make(map[uint64]bool)
	err := eachPage(s.r, s.rec.SID, func(_ []byte, row *catalogueRow) error {
		number := row.number()
		switch {
		case row.Held && row.Purged != nil:
			s.find(findPage, number, row.URL, "it is held, and was purged")
		case row.Held && !known[number]:
			known[number] = true // one finding for all its pages
			s.find(findSegment, number, fmt.Sprintf("segment %d of %s", number, s.rec.Series), "it holds pages, and nothing tells when they have to go")
		case row.Purged != nil:
			steps[row.Purged.Step] = true
		}
		return nil
	})
	if err != nil {
		return s.unreadable(ctx, "catalogue of "+s.rec.Series, err)
	}
	for step := range steps {
		open, err := durable.ReadJSON(s.r, openPurgeKey(s.rec.SID, step), new(openPurge))
		done := false
		if err == nil && !open {
			done, err = durable.ReadJSON(s.r, donePurgeKey(s.rec.SID, step), new(donePurge))
		}
		if err != nil {
			return s.unreadable(ctx, "retention of "+s.rec.Series, err)
		}
		if !open && !done {
			s.find(findSeries, 0, s.rec.Series, "pages were purged in step %d, and nothing is known of it", step)
		}
	}
	return nil
}
