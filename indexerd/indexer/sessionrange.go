package indexer

import (
	"context"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// Bounds of one answer about the state: with its rows it stays under 256 KiB.
const (
	rangeRows   = 3000
	rangeHashes = 1024
	rangeBytes  = 256 << 10
	rangePlaces = 192 // of up to state.MaxSubtree octets each
)

// rangeRequest tells the publisher what is held of one of its own series, so
// that the two can be brought together after one of them has lost its records.
func (s *session) rangeRequest(ctx context.Context, f *oiv1.RangeRequest) error {
	h := s.live[f.Series]
	switch {
	case h == nil:
		return refuse(grants.ErrNoGrant, "series %.80q was not announced in this session", f.Series)
	case len(f.Hashes) > rangeHashes, len(f.Prefixes) > rangePlaces, len(f.After) != 0 && len(f.After) != 32:
		return refuse(grants.ErrOversize, "a request for %d rows at %d places", len(f.Hashes), len(f.Prefixes))
	}
	answer := &oiv1.RangeAnswer{Series: f.Series}
	var err error
	if len(f.Prefixes) > 0 {
		err = s.subtrees(h.rec.SID, f.Prefixes, answer)
	} else if len(f.Hashes) > 0 {
		err = s.namedRows(h.rec.SID, f.Hashes, answer)
	} else {
		err = s.nextRows(h.rec.SID, f.After, answer)
	}
	if err != nil {
		return err
	}
	return s.link.Send(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_RangeAnswer{RangeAnswer: answer}})
}

// subtrees shows what the state tree has at some places.
func (s *session) subtrees(sid uint32, prefixes []string, answer *oiv1.RangeAnswer) error {
	snapshot, err := s.x.store.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	for _, p := range prefixes {
		at, err := state.ParsePrefix(p)
		if err != nil {
			return refuse(grants.ErrMalformed, "%v", err)
		}
		t, err := stateTree(sid).Subtree(snapshot, at)
		if err != nil {
			return err
		}
		answer.Subtrees = append(answer.Subtrees, t.Append(nil))
	}
	return nil
}

// nextRows lists the rows behind after.
func (s *session) nextRows(sid uint32, after []byte, answer *oiv1.RangeAnswer) error {
	var from *[32]byte
	if len(after) == 32 {
		from = (*[32]byte)(after)
	}
	for it, err := range stateTree(sid).LeavesAfter(s.x.store, from) {
		if err != nil {
			return err
		}
		if len(answer.Rows) == rangeRows {
			answer.More = true
			return nil
		}
		answer.Rows = append(answer.Rows, &oiv1.StateRow{Hash: it.URLHash[:], Digest: it.Digest[:], Format: uint32(it.Format)})
	}
	return nil
}

// namedRows looks rows up with their URLs, as many as fit one answer. What is
// not held is left out.
func (s *session) namedRows(sid uint32, hashes [][]byte, answer *oiv1.RangeAnswer) error {
	size := 0
	for _, h := range hashes {
		if len(h) != 32 {
			return refuse(grants.ErrMalformed, "a hash of %d octets", len(h))
		}
		var row catalogueRow
		ok, err := readRow(s.x.store, sidKey('C', sid, h...), &row)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		size += len(row.URL) + 80
		if size > rangeBytes && len(answer.Rows) > 0 {
			answer.More = true
			return nil
		}
		answer.Rows = append(answer.Rows, &oiv1.StateRow{Hash: h, Digest: row.Digest[:], Format: uint32(row.Format), Url: row.URL})
	}
	return nil
}
