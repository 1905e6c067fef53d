package indexer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// TestACrashAnywhereLeavesFileAndRowTogether cuts the power at each write of the
// course of two large pages, the second in place of the first: between file and
// commit, between commit and answer, and while the first one's file is removed.
func TestACrashAnywhereLeavesFileAndRowTogether(t *testing.T) {
	t.Parallel()
	url := site + "large"
	one, two := largePage(url, 20<<10, 1), largePage(url, 20<<10, 2)
	for cut := int64(1); ; cut++ {
		disk := durabletest.New()
		r := &rig{t: t, dir: t.TempDir(), limits: smallLimits(), fs: disk.FS(), publish: time.Hour}
		r.create()
		r.open()
		p := r.publisher("spiffe://example.com/publisher", "https://example.com")
		s := p.series("docs-1", site, nil)
		c := p.session(s)
		c.push(s, puts("words", urls(site, 1)...)...)

		var answered atomic.Int32
		var crashed atomic.Pointer[durabletest.Disk]
		var before int32
		start := disk.Writes()
		rng := rand.New(rand.NewPCG(uint64(cut), 1))
		disk.OnWrite(func(n int64, _, _ string) error {
			if n == start+cut {
				before = answered.Load()
				r.x.sweepFiles() // may see what is not durable, and must not believe it
				crashed.Store(disk.Crash(rng, int(cut*31%100)))
			}
			return nil
		})
		for _, page := range []change{one, two} {
			c.pushAlone(s, page)
			answered.Add(1)
		}
		r.eventually("the first file to go", func() bool { return r.files() == 1 })
		r.close()
		if crashed.Load() == nil { // beyond the last write
			if cut < 12 {
				t.Errorf("only %d writes", cut)
			}
			return
		}

		after := &rig{t: t, dir: r.dir, card: r.card, limits: r.limits, fs: crashed.Load().FS()}
		after.clock.Store(r.clock.Load())
		after.open()
		got, err := after.x.ownPayload(p.local.Name(), s.name, url)
		switch {
		case err == nil && bytes.Equal(got, payloadOf(url, two.text)):
		case err == nil && bytes.Equal(got, payloadOf(url, one.text)) && before < 2:
		case err != nil && before < 1 && len(must[[]*seriesRecord](t)(seriesOf(after.x.store, ""))) == 1 && fmt.Sprint(err) == "not-held: "+url:
		default:
			t.Errorf("cut at write %d, behind %d answers: %d octets, %v", cut, before, len(got), err)
		}
		want := 0
		if err == nil {
			want = 1
		}
		after.eventually("the orphans to be swept", func() bool { return after.files() == want })
		after.close()
	}
}

// TestALargePageIsReceivedInBoundedMemory pushes 100 MiB, as many as the file
// of a page may have, and watches the heap: the test holds the payload and its frame,
// the indexer the payload once more.
func TestALargePageIsReceivedInBoundedMemory(t *testing.T) {
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	const most = 100 << 20
	page := change{url: site + "large", text: largeText(1<<20, 1)}
	page.text = string(bytes.Repeat([]byte(page.text), most>>20))
	page.text = page.text[:most-len(payloadOf(page.url, ""))]
	b := s.parcel(page).packAlone()
	if got := b.batch.RawBytes - b.batch.ItemsBytes; got != most {
		t.Fatalf("the payload has %d octets", got)
	}
	b.payloads, page.text = nil, ""
	peak := watchHeap()
	c.sendAlone(b, 1<<20)
	a := c.next().GetBatchResult()
	if a == nil || a.Refused != nil {
		t.Fatalf("%v", a)
	}
	const bound = most + 64<<20
	grown := peak()
	t.Logf("the heap grew by %d MiB", grown>>20)
	if grown > bound {
		t.Errorf("the heap grew by %d MiB, at most %d are meant", grown>>20, bound>>20)
	}
	b.take()
	if got, err := r.x.ownPayload(p.local.Name(), s.name, page.url); err != nil || len(got) != most {
		t.Errorf("%d octets, %v", len(got), err)
	}
	r.eventually("one file to be there", func() bool { return r.files() == 1 })
}

// watchHeap begins to watch; what it returns ends that, and gives by how much
// the heap was larger at most than now. The collector runs all the time.
func watchHeap() func() uint64 {
	read := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	start := read()
	var peak uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				peak = max(peak, read())
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return peak - min(peak, start)
	}
}
