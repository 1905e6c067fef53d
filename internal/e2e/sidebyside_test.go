package e2e

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// TestAnIndexerThatSaysNothingHoldsUpNoPush pushes to three indexers, of which the first by
// name says nothing before the others have everything.
func TestAnIndexerThatSaysNothingHoldsUpNoPush(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 3)
	others := []*pair.Pair{p.Beside("spiffe://second.test/indexer"), p.Beside("spiffe://third.test/indexer")}
	for _, o := range others {
		o.Grant("/")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	pair.Check(t, err)
	defer l.Close()
	open := make(chan struct{})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				select {
				case <-open:
				case <-t.Context().Done():
					return
				}
				up, err := net.Dial("tcp", p.Address)
				if err != nil {
					return
				}
				defer up.Close()
				go io.Copy(up, c)
				io.Copy(c, up)
			}()
		}
	}()
	p.Dial(l.Addr().String())
	pub, err := publisher.Open(publisher.Config{Dir: p.Pub})
	pair.Check(t, err)
	defer pub.Close()
	shown := make(map[int]bool) // for how many indexers progress was told
	ctx := publisher.WithProgress(t.Context(), func(x publisher.Progress) {
		if !x.Scan {
			shown[x.Indexers] = true
		}
	})
	type pushed struct {
		all []publisher.Result
		err error
	}
	done := make(chan pushed, 1)
	go func() {
		all, err := pub.Push(ctx, publisher.PushOptions{})
		done <- pushed{all, err}
	}()
	for deadline := time.Now().Add(time.Minute); others[0].Pages()+others[1].Pages() < 6; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("two indexers have %d and %d pages while the first says nothing", others[0].Pages(), others[1].Pages())
			break
		}
	}
	if n := p.Pages(); n != 0 {
		t.Errorf("the first has %d pages already", n)
	}
	close(open)
	r := <-done
	if r.err != nil || len(r.all) != 3 {
		t.Fatalf("%d results, %v", len(r.all), r.err)
	}
	for _, x := range r.all {
		if x.Sent != 3 {
			t.Errorf("%s: %d pages were sent", x.Indexer, x.Sent)
		}
	}
	if !shown[3] {
		t.Errorf("progress was told of %v indexers, never of all three together", shown)
	}
}
