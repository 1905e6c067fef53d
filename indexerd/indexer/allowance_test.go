package indexer

import (
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// TestAPublisherHoldsNoMoreThanItMay over two agreements: what goes beyond is
// refused whole, for later, and what takes away is taken.
func TestAPublisherHoldsNoMoreThanItMay(t *testing.T) {
	r := newRig(t)
	p := r.example()
	docs, blog := p.series("docs-1", site, nil), p.series("blog-1", blogs, nil)
	c := p.session(docs, blog)
	pages, posts := urls(site, 5), urls(blogs, 3)
	c.push(docs, puts("words", pages...)...)
	for _, tt := range []struct {
		name  string
		may   Allowance
		s     *series
		batch []change
		taken bool
	}{
		{"a page more than there may be", Allowance{Pages: 5}, blog, puts("words", posts[0]), false},
		{"as many as there may be", Allowance{Pages: 6}, blog, puts("words", posts[0]), true},
		{"another version of a page", Allowance{Pages: 6}, docs, puts("other", pages[0]), true},
		{"octets more than there may be", Allowance{Octets: 1}, blog, puts("words", posts[1]), false},
		{"a larger version of a page", Allowance{Octets: 1}, docs, puts(strings.Repeat("much ", 99), pages[1]), false},
		{"a deletion, of one who holds too much", Allowance{Octets: 1, Pages: 1}, docs, []change{{url: pages[2]}}, true},
		{"one page for another", Allowance{Pages: 5}, docs, append(puts("words", site+"new"), change{url: pages[3]}), true},
		{"no limit", Allowance{}, blog, puts("words", posts...), true},
	} {
		r.x.SetAllowance(tt.may)
		b := tt.s.parcel(tt.batch...).pack()
		result := c.deliver(b)
		if (result.Refused == nil) != tt.taken {
			t.Fatalf("%s: refused %v, want taken %v", tt.name, result.Refused, tt.taken)
		}
		if tt.taken {
			b.take()
			continue
		}
		if f := result.Refused; grants.Reason(f.Reason) != grants.ErrQuota || f.RetryMs != retryStorage {
			t.Errorf("%s: refused by %q, retry after %d ms", tt.name, f.Reason, f.RetryMs)
		}
	}
}

// TestWhoSendsTooFastWaits behind what it may send at once, and who would wait for
// too long is sent away; another publisher waits for nothing.
func TestWhoSendsTooFastWaits(t *testing.T) {
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	other := r.publisher("spiffe://example.org/publisher", "https://example.org")
	s2 := other.series("docs-2", "https://example.org/", nil)
	c, c2 := p.session(s), other.session(s2)
	r.x.SetAllowance(Allowance{Batches: 4})
	push := func(c *client, s *series, n int) time.Duration {
		begun := time.Now()
		for i := range n {
			c.push(s, puts(strings.Repeat("x", i+1), s.prefix+"page")...)
		}
		return time.Since(begun)
	}
	// Eight at once, and then one each quarter of a second.
	if took := push(c, s, 11); took < 500*time.Millisecond {
		t.Errorf("eleven batches at four a second took %s", took)
	}
	begun := time.Now()
	push(c, s, 1) // waits, and has to be waited for
	push(c2, s2, 4)
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("another publisher waited as well: %s", took)
	}
	if left := r.x.pace(other.local.Name()).batches.Tokens(); left < 3 {
		t.Errorf("four batches of another publisher left %v of its eight", left)
	}
	// Nothing of a batch is read that would wait for longer than a batch is waited for.
	r.x.SetAllowance(Allowance{Batches: 1e-6})
	for sent := 0; sent < 3; sent++ {
		b := s.parcel(puts("one more", s.prefix+"page")...).pack()
		c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
		c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: b.frame}}})
		f := c.next().GetBatchResult().GetRefused()
		if f == nil && sent == 0 {
			b.take()
			continue // the one that may be sent at once
		}
		if grants.Reason(f.GetReason()) != grants.ErrExhausted || f.GetRetryMs() < 30_000 {
			t.Errorf("answered %v", f)
		}
		break
	}
}

func TestAFrameThatDripsIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		octets uint64
		after  time.Duration
		given  bool
	}{
		{"nothing in the first minute", 0, 59 * time.Second, false},
		{"hardly anything in a minute", 1000, time.Minute, true},
		{"slow, but it comes", 61 * leastRate, time.Minute, false},
		{"it stopped coming", 61 * leastRate, 2 * time.Minute, true},
	} {
		if err := drips(tt.octets, tt.after); (err != nil) != tt.given {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
