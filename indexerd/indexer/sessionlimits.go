package indexer

import oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"

// overLimit is why a batch would be refused for its octets, nil if it would not.
// A batch that was answered before is answered again all the same.
func (s *session) overLimit(f *oiv1.Batch) *refusal {
	h := s.live[f.Series]
	if h == nil || f.ItemsBytes > f.RawBytes {
		return nil // refused for that
	}
	rec, err := readSeries(s.x.store, h.rec.Publisher, h.rec.Series)
	if err != nil || rec == nil {
		return nil // found again by who commits it
	}
	_, wait, err := rec.Used.Take(h.pair.Grant.Body.Constraints, s.x.cfg.Now(), f.RawBytes-f.ItemsBytes, 0)
	if err == nil {
		return nil
	}
	r, _ := asRefusal(retryAfter(err, wait))
	return r
}
