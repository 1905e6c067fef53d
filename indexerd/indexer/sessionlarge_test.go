package indexer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// smallLimits make a page of 16 KiB a large one.
func smallLimits() Limits {
	return Limits{ChunkBytes: 2 << 10, BatchItems: 100, BatchBytes: 256 << 10, PageBytes: 1 << 20, AloneBytes: 8 << 10, Batches: 2}
}

func newLargeRig(t testing.TB, change func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), limits: smallLimits()}
	if change != nil {
		change(r)
	}
	r.create()
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

// largeText is so many octets that hardly shrink below half.
func largeText(octets int, seed uint64) string { return hex.EncodeToString(noise(octets/2, seed)) }

func largePage(url string, octets int, seed uint64) change {
	return change{url: url, text: largeText(octets, seed)}
}

// packAlone signs and compresses a batch of a page alone.
func (b *parcel) packAlone() *parcel {
	b.s.p.r.t.Helper()
	b.pack()
	b.batch.Alone, b.batch.FrameBytes = true, 0
	return b
}

// sendAlone sends header and chunks, the last one marked. The indexer may have
// ended the stream before all is sent: what it says is read by the caller.
func (c *client) sendAlone(b *parcel, chunk int) {
	c.p.r.t.Helper()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
	for frame := b.frame; ; {
		n := min(len(frame), chunk)
		if c.stream.Send(chunkOf(frame[:n], n == len(frame))) != nil {
			return
		}
		if frame = frame[n:]; len(frame) == 0 {
			return
		}
	}
}

func chunkOf(data []byte, last bool) *oiv1.PublisherFrame {
	return &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: data, Last: last}}}
}

// pushAlone delivers one large page that is to be applied.
func (c *client) pushAlone(s *series, ch change) *oiv1.BatchResult {
	t := c.p.r.t
	t.Helper()
	b := s.parcel(ch).packAlone()
	c.sendAlone(b, int(c.welcome.Limits.ChunkBytes))
	r := c.next().GetBatchResult()
	if r == nil || r.Refused != nil {
		t.Fatalf("the page is refused: %v", r)
	}
	b.take()
	return r
}

// files counts the files of large pages, whatever their names.
func (r *rig) files() int {
	r.t.Helper()
	n := 0
	sids := must[[]string](r.t)(r.x.large.folder.Names())
	for _, sid := range sids {
		n += len(must[[]string](r.t)(r.x.large.folder.Sub(sid).Names()))
	}
	return n
}

// holds checks that a page reads as text, and that there are so many files.
func (r *rig) holds(s *series, url, text string, files int) {
	r.t.Helper()
	got, err := r.x.ownPayload(s.p.local.Name(), s.name, url)
	if err != nil || !bytes.Equal(got, payloadOf(url, text)) {
		r.t.Errorf("%s: %d octets, %v", url, len(got), err)
	}
	r.eventually("the files to be those that are named", func() bool { return r.files() == files })
}

func TestALargePageIsAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	if c.welcome.Limits.AloneBytes != r.limits.AloneBytes || c.welcome.Limits.PageBytes != r.limits.PageBytes {
		t.Errorf("the welcome says %v", c.welcome.Limits)
	}
	page := largePage(site+"large", 40<<10, 1)
	c.push(s, puts("words", urls(site, 2)...)...)
	c.pushAlone(s, page)
	r.holds(s, page.url, page.text, 1)
	if where := filesWith(t, r.dir, page.text[:64]); where != nil {
		t.Errorf("the payload stands in the clear in %q", where)
	}
	if keys := must[[]string](t)(filepath.Glob(filepath.Join(r.dir, "large", "*", "*"))); len(keys) != 1 {
		t.Errorf("%q", keys)
	}
	r.close()
	r.open()
	r.holds(s, page.url, page.text, 1)
	rec, _, _ := r.stateOf(s)
	if want := len(payloadOf(page.url, page.text)); rec.State != s.root() || rec.Pages != 3 || rec.PayloadBytes < uint64(want) {
		t.Errorf("state %s, %d pages of %d octets", rec.State, rec.Pages, rec.PayloadBytes)
	}
	if got := words(r.log()); got[len(got)-1] != "include/accepted 1" {
		t.Errorf("the log ends in %q", got)
	}

	// One in whose series nothing was ever sealed finds a key that is there.
	if err := os.RemoveAll(filepath.Join(r.dir, "keys", "data")); err != nil {
		t.Fatal(err)
	}
	r.close()
	r.open()
	if err := r.readable(s, page.url); !errors.Is(err, ErrNoDataKey) {
		t.Errorf("without its key: %v", err)
	}
}

func TestAFileGoesWhenItsPageDoes(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	url := site + "page"
	one, two := largePage(url, 20<<10, 1), largePage(url, 30<<10, 2)
	c.pushAlone(s, one)
	r.holds(s, url, one.text, 1)
	c.pushAlone(s, two)
	r.holds(s, url, two.text, 1)
	c.push(s, change{url: url, text: "small now"})
	r.holds(s, url, "small now", 0)
	c.pushAlone(s, one)
	r.holds(s, url, one.text, 1)
	c.push(s, change{url: url})
	if err := r.readable(s, url); !errors.Is(err, grants.ErrNotHeld) {
		t.Errorf("a deleted page: %v", err)
	}
	r.eventually("the file to be gone", func() bool { return r.files() == 0 })
	if got, want := strings.Join(words(r.log()), ", "), "include/accepted 1, update/accepted 1, update/accepted 1, update/accepted 1, delete-ack/removed 1"; got != want {
		t.Errorf("the log has %s", got)
	}
}

func TestARevocationRemovesFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		part bool
		left int
	}{
		{"of the whole series", false, 0},
		{"of one page", true, 1},
	} {
		for stop := 0; ; stop++ {
			// The indexer also tends by itself.
			var calls atomic.Int64
			var stopped atomic.Bool
			r := newLargeRig(t, func(r *rig) {
				r.before = func() error {
					if n := calls.Add(1); stop > 0 && n >= int64(stop) {
						stopped.Store(true)
						return errStopped
					}
					return nil
				}
			})
			p := r.example()
			s := p.series("docs-1", site, nil)
			c := p.session(s)
			old, kept := largePage(site+"old/a", 20<<10, 1), largePage(site+"kept", 20<<10, 2)
			c.pushAlone(s, old)
			c.pushAlone(s, kept)
			body := s.pair.Grant.Revoke(grants.DispositionDelete)
			if tt.part {
				body = s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(site+"old/")), grants.DispositionDelete)
			}
			rev := p.revocation(body)
			p.revoke(rev)
			r.x.tend(t.Context())
			was := stopped.Load()
			if was { // as if the power had gone there
				r.before = nil
				r.close()
				r.open()
				r.x.tend(t.Context())
			}
			if a := p.settled(rev); len(a.Acknowledged) != 2 {
				t.Fatalf("%s, stopped at step %d: %d acknowledgements", tt.name, stop, len(a.Acknowledged))
			}
			// The last acknowledgement waits for the files.
			if n := r.files(); n != tt.left {
				t.Errorf("%s, stopped at step %d: %d files, want %d", tt.name, stop, n, tt.left)
			}
			if err := r.readable(s, old.url); err == nil {
				t.Errorf("%s, stopped at step %d: what was deleted is readable", tt.name, stop)
			}
			if tt.part {
				r.holds(s, kept.url, kept.text, 1)
			}
			r.close()
			if stop > 0 && !was {
				if stop < 4 {
					t.Errorf("%s: only %d steps could be stopped", tt.name, stop-1)
				}
				break
			}
		}
	}
}

// A hostile is a page alone that is not taken.
type hostile struct {
	name   string
	change func(*parcel)
	send   func(*client, *parcel) // nil: as it should be
	want   grants.Reason
	ends   bool // the session
}

func hostiles() []hostile {
	repack := func(raw []byte) func(*parcel) {
		return func(b *parcel) { b.frame = must[*zstd.Encoder](b.s.p.r.t)(zstd.NewWriter(nil)).EncodeAll(raw, nil) }
	}
	return []hostile{
		{name: "a page above the limit", change: func(b *parcel) { b.batch.RawBytes += 1 << 20 }, want: grants.ErrOversize, ends: true},
		{name: "a page that needs no batch alone", change: func(b *parcel) { b.batch.RawBytes = b.batch.ItemsBytes + 8<<10 }, want: grants.ErrMalformed, ends: true},
		{name: "a frame whose length is told", change: func(b *parcel) { b.batch.FrameBytes = 1 }, want: grants.ErrMalformed, ends: true},
		{name: "no octets for the item", change: func(b *parcel) { b.batch.ItemsBytes = 0 }, want: grants.ErrOversize, ends: true},
		{name: "an item of 64 MiB", change: func(b *parcel) { b.batch.ItemsBytes = 64 << 20 }, want: grants.ErrOversize, ends: true},
		{name: "more than was declared", change: func(b *parcel) { b.batch.RawBytes-- }, want: grants.ErrMalformed},
		{name: "less than was declared", change: func(b *parcel) { b.batch.RawBytes++ }, want: grants.ErrMalformed},
		{name: "a bomb", change: repack(make([]byte, 64<<20)), want: grants.ErrMalformed},
		{name: "a frame that is no zstd", change: func(b *parcel) { b.frame[0]++ }, want: grants.ErrMalformed},
		{name: "a frame with a flipped bit", change: func(b *parcel) { b.frame[len(b.frame)/2] ^= 1 }, want: grants.ErrMalformed},
		{name: "a frame that is cut", change: func(b *parcel) { b.frame = b.frame[:len(b.frame)-9] }, want: grants.ErrMalformed},
		{name: "a frame of no octet", change: func(b *parcel) { b.frame = nil }, want: grants.ErrMalformed},
		{name: "something behind the frame", change: func(b *parcel) { b.frame = append(b.frame, 0) }, want: grants.ErrMalformed},
		{name: "another page than was signed for", change: func(b *parcel) {
			other := b.s.parcel(largePage(site+"large", 20<<10, 99)).packAlone()
			b.frame, b.batch.RawBytes = other.frame, other.batch.RawBytes
		}, want: grants.ErrMalformed},
		{name: "a manifest of another's", change: func(b *parcel) { b.batch.Manifest[40] ^= 1 }, want: grants.ErrMalformed},
		{name: "a series that was not announced", change: func(b *parcel) { b.batch.Series = "other" }, want: grants.ErrNoGrant},
		{name: "a deletion alone", change: func(b *parcel) { b.items.Items[0].Op = oiv1.Op_OP_TOMBSTONE; b.packAlone() }, want: grants.ErrMalformed},
		{name: "no item", change: func(b *parcel) { b.items.Items = nil; b.batch.ItemsBytes = 1 }, want: grants.ErrMalformed},
		{name: "a chunk above its limit", send: func(c *client, b *parcel) { c.sendAlone(b, int(c.welcome.Limits.ChunkBytes)+1) }, want: grants.ErrOversize, ends: true},
		{name: "chunks of nothing, on and on: they are dropped behind the answer", send: func(c *client, b *parcel) {
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
			for range 2000 { // the answer may come earlier, and then nothing is taken any more
				if c.stream.Send(chunkOf(make([]byte, 2<<10), false)) != nil {
					return
				}
			}
		}, want: grants.ErrMalformed},
		{name: "an empty chunk that is not the last", send: func(c *client, b *parcel) {
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
			c.send(chunkOf(nil, false))
		}, want: grants.ErrOversize, ends: true},
		{name: "another frame in the middle", send: func(c *client, b *parcel) {
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
			c.send(chunkOf(b.frame[:100], false))
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
		}, want: grants.ErrMalformed, ends: true},
	}
}

func TestHostilePagesAloneLeaveNothing(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	c.push(s, puts("words", urls(site, 2)...)...)
	before, size, rows := r.stateOf(s)
	for _, tt := range hostiles() {
		b := s.parcel(largePage(site+"large", 20<<10, 1)).packAlone()
		if tt.change != nil {
			tt.change(b)
		}
		if tt.send == nil {
			tt.send = func(c *client, b *parcel) { c.sendAlone(b, int(c.welcome.Limits.ChunkBytes)) }
		}
		tt.send(c, b)
		f := c.next()
		fault := f.GetFault()
		if !tt.ends {
			fault = f.GetBatchResult().GetRefused()
		}
		if fault.GetReason() != string(tt.want) {
			t.Errorf("%s: answered %v, want %s", tt.name, f, tt.want)
		}
		if tt.ends || f.GetFault() != nil {
			c.close()
			c = p.session(s)
		}
		r.eventually(tt.name+" to leave no file", func() bool { return r.files() == 0 })
		if after, n, m := r.stateOf(s); after.State != before.State || n != size || m != rows {
			t.Errorf("%s: it left traces", tt.name)
		}
	}
	page := largePage(site+"large", 20<<10, 1)
	c.pushAlone(s, page)
	r.holds(s, page.url, page.text, 1)
}

func TestAnExcludedPageAloneLeavesNoFile(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	b := s.parcel(change{url: site + "large", payload: noise(20<<10, 1)}).packAlone() // no TCT
	c.sendAlone(b, 2<<10)
	if a := c.next().GetBatchResult(); a.GetCommitted() == nil || a.Committed.Refusals[0].Reason != string(grants.ErrPayload) {
		t.Fatalf("%v", a)
	}
	b.take()
	if a := c.push(s, change{url: site + "shared", text: strings.Repeat("words ", 4000)}); a.Committed.Refusals[0].Reason != string(grants.ErrOversize) {
		t.Errorf("a large page that shares a batch: %v", a.Committed.Refusals)
	}
	r.eventually("no file to be left", func() bool { return r.files() == 0 })
	rec, _, _ := r.stateOf(s)
	if rec.Pages != 0 || rec.State != s.root() {
		t.Errorf("%d pages, state %s", rec.Pages, rec.State)
	}
}

func TestABrokenSessionLeavesNoFile(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	b := s.parcel(largePage(site+"large", 900<<10, 1)).packAlone()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
	for frame := b.frame; len(frame) > 8<<10; frame = frame[2<<10:] {
		c.send(chunkOf(frame[:2<<10], false))
	}
	r.eventually("the file to be begun", func() bool { return r.files() == 1 })
	r.x.sweepFiles()
	if r.files() != 1 {
		t.Error("a file that is being written was swept")
	}
	c.close()
	r.eventually("the file to be dropped", func() bool { return r.files() == 0 })
}

func TestOrphansAreSweptAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	page := largePage(site+"large", 20<<10, 1)
	c.pushAlone(s, page)
	rec, _, _ := r.stateOf(s)
	h := sha256.Sum256([]byte(page.url))
	number := r.x.segment.Load()
	put := func(n largeName) {
		if err := must[interface{ Keep() error }](t)(r.x.large.create(n)).Keep(); err != nil {
			t.Fatal(err)
		}
	}
	orphans := []largeName{{rec.SID, number + 1, h}, {rec.SID, number, [32]byte{1}}, {rec.SID + 1, number, h}, {rec.SID, number + 9, h}}
	for _, n := range orphans {
		put(n)
	}
	stranger := filepath.Join(r.dir, "large", largeName{sid: rec.SID}.folder(), "notes.txt")
	if err := os.WriteFile(stranger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.x.large.lease(orphans[0])
	r.x.sweepFiles()
	r.holds(s, page.url, page.text, 3) // the page's, the leased one, the stranger's
	r.x.large.release(orphans[0])
	put(orphans[3])
	r.close()
	r.open() // nobody holds a lease, and what is left over counts as a number
	if got := r.x.segment.Load(); got < number+9 {
		t.Errorf("the next number is behind %d, and %d may be in use", got, number+9)
	}
	r.holds(s, page.url, page.text, 2)
}
