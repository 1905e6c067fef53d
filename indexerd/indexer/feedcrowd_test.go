package indexer

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// onItsWay is what may have been sent to a stream before it is told something else, in
// octets: gRPC's window of a stream, and what the server may have waiting for it, are
// 64 KiB each; and some, for the item at hand and for what was being sent.
const onItsWay = 2*64<<10 + 32<<10

// A drained stream was read page by page, a thousandth of a second each, until it was
// told to stop.
type drained struct {
	pages   int
	stopped time.Time
	behind  int // octets of pages that came when answered was set
	err     error
}

func (f *feedReader) drain(first func(), answered *atomic.Bool) (d drained) {
	for {
		m, err := f.stream.Recv()
		if err != nil {
			d.err = err
			return d
		}
		switch i := m.Item.(type) {
		case *oiv1.FeedItem_Put:
			if d.pages++; d.pages == 1 {
				first()
			}
			if answered.Load() {
				d.behind += proto.Size(m)
			}
			time.Sleep(time.Millisecond)
		case *oiv1.FeedItem_Stop:
			if i.Stop.Reason == string(grants.ErrRevoked) {
				d.stopped = time.Now()
				return d
			}
		}
	}
}

// TestFiftyStreamsStopAmidTheirPages withdraws consent while fifty consumers are being
// told 1,000 pages each, of which each has read one. What comes to one of them behind the answer is what was on its
// way; how long it takes for that is up to the consumer. The deletion is acknowledged
// without waiting for any.
func TestFiftyStreamsStopAmidTheirPages(t *testing.T) {
	const n, batches, each = 50, 5, 200
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
	var answered atomic.Bool
	goOn := make(chan struct{})
	all := make([]drained, n)
	for i := range all {
		rd := f.consumer(envelope.Name(fmt.Sprintf("spiffe://search.example/consumer-%d", i)), "search.index").subscribe("search.index", nil)
		done.Go(func() {
			once := sync.OnceFunc(begun.Done)
			defer once()
			all[i] = rd.drain(func() { once(); <-goOn }, &answered)
		})
	}
	begun.Wait()
	close(goOn)
	rev := p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	asked := time.Now()
	p.revoke(rev)
	answered.Store(true)
	answer := time.Since(asked)
	p.settled(rev)
	deleted := time.Since(asked)
	done.Wait()
	var last time.Duration
	var behind int
	for i, d := range all {
		if d.err != nil || d.pages == batches*each {
			t.Fatalf("stream %d: %d pages, %v", i, d.pages, d.err) // one with all of them shows nothing
		}
		if d.behind > onItsWay {
			t.Errorf("stream %d: %d octets of pages come behind the answer, at most %d were on their way", i, d.behind, onItsWay)
		}
		last, behind = max(last, d.stopped.Sub(asked)), max(behind, d.behind)
	}
	t.Logf("answered behind %v; %d streams told within %v, behind at most %d octets of pages; the deletion of %d pages acknowledged behind %v",
		answer, n, last, behind, batches*each, deleted)
	if deleted > answer+deletedWithin {
		t.Errorf("the deletion is acknowledged behind %v", deleted)
	}
}
