package publisher

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// overQuota reports whether a batch would have the indexer hold too many pages.
func (f *fakeIndexer) overQuota(m translog.Manifest, frame []byte, itemsBytes uint64) bool {
	if f.quota == 0 || len(frame) == 0 {
		return false
	}
	d, err := zstd.NewReader(nil)
	check(f.t, err)
	defer d.Close()
	raw, err := d.DecodeAll(frame, nil)
	check(f.t, err)
	var items oiv1.Items
	check(f.t, proto.Unmarshal(raw[:itemsBytes], &items))
	pages := len(f.pages)
	for _, it := range items.Items {
		_, held := f.pages[it.Url]
		switch put := translog.Op(it.Op) == translog.OpPut; {
		case put && !held:
			pages++
		case !put && held:
			pages--
		}
	}
	return pages > max(f.quota, len(f.pages))
}

func TestWhatThereIsNoRoomForIsToldAndComesBackByItself(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	x.write("b", "first")
	_, err := x.push()
	check(t, err)
	x.fake.quota = 2
	x.write("c", "first")
	_, err = x.push()
	var refused *Refused
	if !errors.As(err, &refused) || refused.Reason != grants.ErrQuota {
		t.Fatalf("a page more than there may be: %v", err)
	}
	if v := judge(err); !v.apart || v.session || v.alarm || v.exact || v.hint != 5*time.Minute {
		t.Errorf("judged %+v", v)
	}
	began := envelope.At(x.s.Now)
	x.s.Now = x.s.Now.Add(time.Minute)
	if _, err = x.push(); !errors.Is(err, grants.ErrQuota) {
		t.Errorf("a minute later: %v", err)
	}
	status, err := x.p.Status()
	check(t, err)
	h := status.Indexers[0].Held
	if h == nil || h.Reason != string(grants.ErrQuota) || h.Detail != "that is too much" || h.Since != began || h.Last != envelope.At(x.s.Now) || !h.Retry.IsZero() {
		t.Errorf("the status says %+v", h)
	}
	check(t, os.Remove(filepath.Join(x.site, "a.html")))
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 1 || r.Deleted != 1 || len(x.fake.pages) != 2 {
		t.Errorf("one page for another: %+v", r)
	}
	status, err = x.p.Status()
	check(t, err)
	if h := status.Indexers[0].Held; h != nil {
		t.Errorf("the status still says %+v", h)
	}
}
