package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// Sessions side by side fetch each page once, keep within their bound, and leave nothing.
func TestSessionsShareWhatTheyFetch(t *testing.T) {
	const sessions, pages, size = 3, 1500, 16 << 10 // 24 MiB: more than is kept
	var c sharer
	var fetched atomic.Int64
	ask := func(i int) {
		payload, err := c.payload(t.Context(), urlHash(fmt.Sprint(i)), uint64(i+1), func() ([]byte, error) {
			fetched.Add(1)
			return append(make([]byte, 0, size), fmt.Sprint(i)...)[:size], nil
		})
		if err != nil || len(payload) != size || string(payload[:len(fmt.Sprint(i))]) != fmt.Sprint(i) {
			t.Errorf("page %d: %d octets, %v", i, len(payload), err)
		}
	}
	var leave []func()
	for range sessions {
		leave = append(leave, c.use())
	}
	for i := range pages {
		var group sync.WaitGroup
		for range sessions {
			group.Go(func() { ask(i) })
		}
		group.Wait()
		octets := 0
		for _, p := range c.order {
			octets += len(p.payload) + keptOverhead
		}
		if octets != c.octets || octets > sharedOctets || len(c.pages) != len(c.order) {
			t.Fatalf("%d octets in %d of %d pages, counted as %d", octets, len(c.order), len(c.pages), c.octets)
		}
	}
	if n := fetched.Load(); n != pages {
		t.Errorf("%d pages were fetched %d times", pages, n)
	}
	ask(0) // is not kept any more
	ask(pages - 1)
	if n := fetched.Load(); n != pages+1 {
		t.Errorf("the first page and the last were fetched %d times more", n-pages)
	}
	for _, done := range leave {
		done()
	}
	if len(c.pages)+len(c.order)+c.octets+c.users > 0 {
		t.Errorf("%d pages, %d octets and %d users are left", len(c.pages), c.octets, c.users)
	}
}

func TestAFailureIsNotShared(t *testing.T) {
	var c sharer
	defer c.use()()
	defer c.use()()
	h, broken := urlHash("a"), errors.New("broken")
	fetching, leave := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := c.payload(t.Context(), h, 1, func() ([]byte, error) {
			close(fetching)
			<-leave
			return nil, broken
		})
		first <- err
	}()
	<-fetching
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(ErrStopping)
	if _, err := c.payload(gone, h, 1, nil); !errors.Is(err, ErrStopping) {
		t.Errorf("who waits, and is stopped: %v", err)
	}
	// Another revision is another page, and waits for nobody.
	if payload, err := c.payload(t.Context(), h, 2, func() ([]byte, error) { return []byte("new"), nil }); string(payload) != "new" || err != nil {
		t.Errorf("%q, %v", payload, err)
	}
	close(leave)
	if err := <-first; err != broken {
		t.Errorf("who fetched: %v", err)
	}
	if payload, err := c.payload(t.Context(), h, 1, func() ([]byte, error) { return []byte("mended"), nil }); string(payload) != "mended" || err != nil {
		t.Errorf("%q, %v", payload, err)
	}
}

func TestOneSessionKeepsNothing(t *testing.T) {
	var c sharer
	defer c.use()()
	for i := range 2 {
		if _, err := c.payload(t.Context(), urlHash("a"), 1, func() ([]byte, error) { return []byte{1}, nil }); err != nil || len(c.pages) > 0 {
			t.Errorf("fetch %d: %d pages are kept, %v", i, len(c.pages), err)
		}
	}
}
