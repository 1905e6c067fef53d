package indexer

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

func TestALargePageGoesBeforeTheLogSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().keptTwoDays(1)
	c.close()
	rec, _, _ := r.stateOf(s)
	// A page of the size of any other, kept as a large one is.
	page := urls(site, 1)[0]
	n := r.makeLarge(s, &rec, page)
	if err := r.readable(s, page); err != nil {
		t.Fatal(err)
	}
	r.sound("a large page")
	let := r.x.large.hold()
	r.forward(48 * time.Hour)
	r.x.tend(t.Context())
	r.x.tend(t.Context())
	if len(r.ended()) != 0 || !slices.Contains(must[[]largeName](t)(r.x.large.list(rec.SID)), n) {
		t.Errorf("while a backup reads it the log says %v", words(r.ended()))
	}
	r.sound("while a backup reads it")
	let()
	r.retained()
	if len(r.ended()) != 1 || len(must[[]largeName](t)(r.x.large.list(rec.SID))) != 0 {
		t.Errorf("the log says %v", words(r.ended()))
	}
	r.sound("after it")
}

// makeLarge moves a page out of its segment into a file of its own.
func (r *rig) makeLarge(s *series, rec *seriesRecord, url string) largeName {
	r.t.Helper()
	x, h := r.x, sha256.Sum256([]byte(url))
	key := sidKey('C', rec.SID, h[:]...)
	var row catalogueRow
	if ok, err := readRow(x.store, key, &row); err != nil || !ok {
		r.t.Fatal(ok, err)
	}
	sealed := must[[]byte](r.t)(x.store.Get(segmentKey(rec.SID, row.Segment)))
	a, err := x.keys.aead(rec.Publisher, rec.Series, row.DataKey, false)
	if err != nil {
		r.t.Fatal(err)
	}
	frame := must[[]byte](r.t)(unseal(a, rec.Publisher, rec.Series, row.Segment, sealed))
	n := largeName{rec.SID, x.segment.Add(1), h}
	file := must[*durable.NewFile](r.t)(x.large.create(n))
	seal := must[*largeWriter](r.t)(newLargeWriter(file, newLargeSeal(a, rec.Publisher, rec.Series, n.file)))
	_, err = seal.Write(frame)
	b := x.store.NewBatch()
	defer b.Close()
	old := row.Segment
	row.File, row.Segment = n.file, 0
	err = errors.Join(err, seal.Close(), file.Keep(), writeRow(b, key, &row), b.Delete(segmentKey(rec.SID, old)), b.Delete(heldKey(rec.SID, old)),
		durable.WriteJSON(b, heldKey(rec.SID, n.file), heldRow{At: row.At, Page: h}), b.Commit())
	if err != nil {
		r.t.Fatal(err)
	}
	r.forward(time.Second) // a commit, so that the newest release shows it
	s.p.session(s).push(s, puts("other", site+"other")...)
	return n
}
