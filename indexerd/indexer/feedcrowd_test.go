package indexer

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// drain reads a stream page by page, a thousandth of a second each, until it is told to
// stop. It gives how many pages came, and when the stop did.
func (f *feedReader) drain(first func()) (pages int, stopped time.Time, err error) {
	for {
		m, err := f.stream.Recv()
		if err != nil {
			return pages, stopped, err
		}
		switch i := m.Item.(type) {
		case *oiv1.FeedItem_Put:
			if pages++; pages == 1 {
				first()
			}
			time.Sleep(time.Millisecond)
		case *oiv1.FeedItem_Stop:
			if i.Stop.Reason == string(grants.ErrRevoked) {
				return pages, time.Now(), nil
			}
		}
	}
}

// TestFiftyStreamsStopAmidTheirPages withdraws consent while fifty consumers are being
// told 3,000 pages each. All are told to stop long before they have them, and the
// deletion is acknowledged without waiting for one of them.
func TestFiftyStreamsStopAmidTheirPages(t *testing.T) {
	const n, batches, each = 50, 15, 200
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	for i := range batches {
		c.push(s, puts("words", urls(fmt.Sprintf("%s%d/", site, i), each)...)...)
	}
	c.close()
	f := r.feed()
	var begun, done sync.WaitGroup
	begun.Add(n)
	pages, stopped := make([]int, n), make([]time.Time, n)
	var failed atomic.Pointer[error]
	for i := range n {
		rd := f.consumer(envelope.Name(fmt.Sprintf("spiffe://search.example/consumer-%d", i)), "search.index").subscribe("search.index", nil)
		done.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			var err error
			if pages[i], stopped[i], err = rd.drain(once); err != nil {
				failed.Store(&err)
			}
		})
	}
	begun.Wait()
	rev := p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	asked := time.Now()
	p.revoke(rev)
	answered := time.Since(asked)
	p.settled(rev)
	deleted := time.Since(asked)
	done.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	last := slices.MaxFunc(stopped, time.Time.Compare).Sub(asked)
	t.Logf("answered behind %v; %d streams, which had had %d to %d pages, told within %v; the deletion of %d pages acknowledged behind %v",
		answered, n, slices.Min(pages), slices.Max(pages), last, batches*each, deleted)
	if last > answered+time.Second {
		t.Errorf("a stream is told %v behind the call, which took %v", last, answered)
	}
	if deleted > answered+deletedWithin {
		t.Errorf("the deletion is acknowledged behind %v", deleted)
	}
	if slices.Max(pages) == batches*each {
		t.Error("a stream had all pages: this shows nothing of those that have not")
	}
}
