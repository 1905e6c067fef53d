package indexer

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// listOf is the list of URLs in ascending order.
func listOf(urls ...string) *grants.List {
	l := new(grants.List)
	for _, u := range slices.Sorted(slices.Values(urls)) {
		l.Add([]byte(u))
	}
	return l
}

// feed signs the series' feed over a list.
func (s *series) feed(l *grants.List, sequence uint64) []byte {
	s.p.r.t.Helper()
	stamp := grants.Stamp{Epoch: 1, Sequence: sequence, At: s.p.r.now()}
	return must[*grants.Feed](s.p.r.t)(grants.SignFeed(l.Listed(), s.name, s.p.local.Name(), stamp, s.p.local.Envelope)).Object.Raw
}

func inFeed(d *grants.Draft) { d.Scope.Type = grants.InFeed }

// feedSession is a session that announces a series with its feed.
func (p *tester) feedSession(s *series, feed []byte) *client {
	p.r.t.Helper()
	c := p.greeted()
	f := c.announcement(s)
	f.Feeds = append(f.Feeds, feed)
	if r := c.announce(f); len(r.Refusals) > 0 {
		p.r.t.Fatalf("the announcement is refused: %v", r.Refusals)
	}
	return c
}

// pathed puts the path in the list at each page of a parcel that has one there.
func (b *parcel) pathed(l *grants.List, item func(*oiv1.Item) []byte) *parcel {
	for _, it := range b.items.Items {
		if index, path, ok := l.Path(item(it)); ok && it.Op == oiv1.Op_OP_PUT {
			it.ScopePath, it.ScopeIndex = &oiv1.Path{Hashes: rawHashes(path)}, index
		}
	}
	return b
}

func byURL(it *oiv1.Item) []byte { return []byte(it.Url) }

// byText is the digest of a page of puts.
func byText(it *oiv1.Item) []byte {
	d := sha256.Sum256(payloadOf(it.Url, "words at "+it.Url))
	return d[:]
}

func (c *client) taken(b *parcel) *oiv1.BatchResult {
	c.p.r.t.Helper()
	a := c.deliver(b.pack())
	if a.Refused != nil {
		c.p.r.t.Fatalf("the batch is refused: %v", a.Refused)
	}
	b.take()
	return a
}

// refusedFor delivers a batch that has to be refused, and leave no trace.
func (c *client) refusedFor(b *parcel, want grants.Reason) {
	t := c.p.r.t
	t.Helper()
	before, size, rows := c.p.r.stateOf(b.s)
	if a := c.deliver(b.pack()); a.Refused.GetReason() != string(want) {
		t.Errorf("refused for %q (%s), want %q", a.Refused.GetReason(), a.Refused.GetDetail(), want)
	}
	if after, n, m := c.p.r.stateOf(b.s); after.State != before.State || after.Revision != before.Revision || n != size || m != rows {
		t.Error("the refused batch left traces")
	}
}

func TestOnlyPagesOfTheFeedAreTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, inFeed)
	all := urls(site, 5)
	l, other := listOf(all...), listOf(append(urls(site, 4), site+"stranger")...)
	c := p.feedSession(s, s.feed(l, 1))
	good := func() *parcel { return s.parcel(puts("words", all[0], all[1])...).pathed(l, byURL) }
	for _, tt := range []struct {
		name string
		make func() *parcel
		want grants.Reason
	}{
		{"a page that is not listed, with the path of one that is", func() *parcel {
			b := s.parcel(puts("words", all[0], site+"stranger")...).pathed(l, byURL)
			b.items.Items[1].ScopePath, b.items.Items[1].ScopeIndex = b.items.Items[0].ScopePath, b.items.Items[0].ScopeIndex
			return b
		}, grants.ErrScope},
		{"a page that another feed lists, with its path there", func() *parcel {
			return s.parcel(puts("words", site+"stranger")...).pathed(other, byURL)
		}, grants.ErrScope},
		{"a listed page without its path", func() *parcel {
			b := good()
			b.items.Items[1].ScopePath, b.items.Items[1].ScopeIndex = nil, 0
			return b
		}, grants.ErrScope},
		{"a listed page under the number of another", func() *parcel {
			b := good()
			b.items.Items[1].ScopeIndex++
			return b
		}, grants.ErrScope},
		{"a listed page under a number beyond the list", func() *parcel {
			b := good()
			b.items.Items[1].ScopeIndex += 8
			return b
		}, grants.ErrScope},
		{"a number without a path", func() *parcel {
			b := good()
			b.items.Items[1].ScopePath = nil
			return b
		}, grants.ErrMalformed},
		{"a path of 65 hashes", func() *parcel {
			b := good()
			b.items.Items[0].ScopePath.Hashes = slices.Repeat([][]byte{make([]byte, 32)}, 65)
			return b
		}, grants.ErrMalformed},
		{"a path with half a hash", func() *parcel {
			b := good()
			b.items.Items[0].ScopePath.Hashes[0] = make([]byte, 16)
			return b
		}, grants.ErrMalformed},
		{"a deletion with a path", func() *parcel {
			b := s.parcel(change{url: all[0]})
			b.items.Items[0].ScopePath = new(oiv1.Path)
			return b
		}, grants.ErrMalformed},
		{"a listed page outside the prefixes", func() *parcel {
			return s.parcel(puts("words", blogs)...).pathed(listOf(blogs), byURL)
		}, grants.ErrScope},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.r.t = t
			c.refusedFor(tt.make(), tt.want)
		})
	}
	p.r.t = t
	c.taken(good())
	c.taken(s.parcel(change{url: all[0]}, change{url: site + "never"})) // a deletion needs no scope
	if err := r.readable(s, all[1]); err != nil {
		t.Error(err)
	}
}

func TestTheNewestFeedCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, inFeed)
	first, second := listOf(urls(site, 3)...), listOf(urls(site, 5)...)
	p.feedSession(s, s.feed(first, 1)).taken(s.parcel(puts("words", urls(site, 3)...)...).pathed(first, byURL))
	c := p.feedSession(s, s.feed(second, 2))
	page := puts("other words", urls(site, 1)...)
	c.refusedFor(s.parcel(page...).pathed(first, byURL), grants.ErrScope)
	c.taken(s.parcel(page...).pathed(second, byURL))
	c.close()

	announced := func(feeds ...[]byte) *oiv1.AnnounceResult {
		c := p.greeted()
		defer c.close()
		if at := c.welcome.Series[0].Feed; at == nil || at.Sequence != 2 {
			t.Errorf("the indexer says that it has seen feed %v", at)
		}
		f := c.announcement(s)
		f.Feeds = feeds
		return c.announce(f)
	}
	for _, tt := range []struct {
		name string
		feed []byte
		want grants.Reason
	}{
		{"the feed before", s.feed(first, 1), grants.ErrSuperseded},
		{"another feed at the position of the newest", s.feed(first, 2), grants.ErrEquivocation},
	} {
		if a := announced(tt.feed); len(a.Refusals) != 1 || a.Refusals[0].Reason != string(tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, a.Refusals, tt.want)
		}
	}
	if a := announced(); len(a.Refusals) > 0 {
		t.Errorf("the feed that is held need not come again: %v", a.Refusals)
	}
	rec, _, _ := r.stateOf(s)
	if rec.Feed.Sequence != 2 {
		t.Errorf("the newest feed has sequence %d", rec.Feed.Sequence)
	}
}

// TestAFeedIsTheOneOfItsCommit proposes a batch that was checked against a feed
// which another took the place of before its commit.
func TestAFeedIsTheOneOfItsCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, inFeed)
	first, second := listOf(urls(site, 3)...), listOf(urls(site, 1)...)
	p.feedSession(s, s.feed(first, 1)).close()
	b := s.parcel(puts("words", urls(site, 3)...)...).pathed(first, byURL).pack()
	rec, _, _ := r.stateOf(s)
	ses := &session{x: r.x, peer: must2(r.x.trust.Lookup(p.local.Name())), self: r.x.sessions.of(p.local.Name()), live: map[string]*held{s.name: {rec: &rec, pair: s.pair}}}
	late := must[*ingest](t)(ses.ingest(b.batch, b.frame))
	p.feedSession(s, s.feed(second, 2))
	late.s.self = r.x.sessions.of(p.local.Name()) // not fenced: it is the feed that counts
	if err := r.x.tlog.Commit(t.Context(), late); !errors.Is(err, grants.ErrSuperseded) {
		t.Errorf("refused for %v, want %v", err, grants.ErrSuperseded)
	}
}

func TestFeedsAreRefusedWithTheirAnnouncement(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, stranger := r.example(), r.publisher("spiffe://example.net/publisher", "https://example.net")
	s, plain := p.series("docs-1", site, inFeed), p.series("blog-1", blogs, nil)
	foreign := stranger.series("docs-1", site, nil)
	l := listOf(urls(site, 3)...)
	good := s.feed(l, 1)
	many := slices.Repeat([][]byte{good}, grants.MaxRequests+1)
	for _, tt := range []struct {
		name  string
		s     *series
		feeds [][]byte
		want  grants.Reason
		ends  bool // the session, and not only the announcement
	}{
		{"a grant for a feed without it", s, nil, grants.ErrScope, false},
		{"the feed of another series", s, [][]byte{plain.feed(l, 1)}, grants.ErrMalformed, false},
		{"a feed for a grant of prefixes", plain, [][]byte{plain.feed(l, 1)}, grants.ErrMalformed, false},
		{"two feeds of one series", s, [][]byte{good, s.feed(l, 2)}, grants.ErrMalformed, true},
		{"a feed of another publisher", s, [][]byte{foreign.feed(l, 1)}, grants.ErrIssuer, true},
		{"a feed that is none", s, [][]byte{[]byte("{}")}, grants.ErrMalformed, true},
		{"a grant in place of a feed", s, [][]byte{s.pair.Grant.Object.Raw}, grants.ErrMalformed, true},
		{"more feeds than are read", s, many, grants.ErrOversize, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := p.greeted()
			defer c.close()
			f := c.announcement(tt.s)
			f.Feeds = tt.feeds
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: f}})
			answer := c.next()
			got := answer.GetFault().GetReason()
			if !tt.ends {
				got = answer.GetAnnounceResult().GetRefusals()[0].Reason
			}
			if got != string(tt.want) {
				t.Errorf("refused for %q, want %q", got, tt.want)
			}
		})
	}
	if all := must[[]*seriesRecord](t)(seriesOf(r.x.store, "")); len(all) > 0 {
		t.Errorf("%d series are held", len(all))
	}
}

func TestOnlyContentOfTheHashSetIsTaken(t *testing.T) {
	t.Parallel()
	all := urls(site, 4)
	digests := make([]envelope.Hash, 3)
	for i := range digests {
		digests[i] = sha256.Sum256(payloadOf(all[i], "words at "+all[i]))
	}
	scope := must[grants.Scope](t)(grants.HashScope(digests, site))
	l := grants.ListDigests(scope.Digests)
	for _, tt := range []struct {
		name  string
		scope grants.Scope
	}{{"digests in the grant", scope}, {"digests by their root", scope.Brief()}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			p := r.example()
			s := p.series("docs-1", site, func(d *grants.Draft) { d.Scope = tt.scope })
			c := p.session(s)
			pathed := func(b *parcel) *parcel {
				if tt.scope.Root.IsZero() {
					return b
				}
				return b.pathed(l, byText)
			}
			borrowed := func(b *parcel) *parcel {
				b = pathed(b)
				for _, it := range b.items.Items[1:] {
					it.ScopePath, it.ScopeIndex = b.items.Items[0].ScopePath, b.items.Items[0].ScopeIndex
				}
				return b
			}
			c.refusedFor(borrowed(s.parcel(puts("words", all[0], all[3])...)), grants.ErrScope)
			c.refusedFor(borrowed(s.parcel(append(puts("words", all[0]), puts("other words", all[1])...)...)), grants.ErrScope)
			c.refusedFor(pathed(s.parcel(puts("words", blogs)...)), grants.ErrScope)
			if tt.scope.Root.IsZero() {
				c.refusedFor(s.parcel(puts("words", all[0])...).pathed(l, byText), grants.ErrMalformed)
			}
			c.taken(pathed(s.parcel(puts("words", all[:3]...)...)))
			c.taken(s.parcel(change{url: all[0]}))
			for _, u := range all[1:3] {
				if err := r.readable(s, u); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestANarrowerHashSetClosesAndRemovesContent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	all := urls(site, 3)
	set := func(n int) func(*grants.Draft) {
		digests := make([]envelope.Hash, n)
		for i := range digests {
			digests[i] = sha256.Sum256(payloadOf(all[i], "words at "+all[i]))
		}
		scope := must[grants.Scope](t)(grants.HashScope(digests, site))
		return func(d *grants.Draft) { d.Scope = scope }
	}
	s := p.series("docs-1", site, set(3))
	p.session(s).push(s, puts("words", all...)...)
	s.pair = s.grant(2, set(1))
	c := p.session(s)
	if err := r.readable(s, all[0]); err != nil {
		t.Error(err)
	}
	if err := r.readable(s, all[1]); !errors.Is(err, grants.ErrScope) {
		t.Errorf("before the rebind, content outside the new set: %v", err)
	}
	delete(s.pages, all[1])
	delete(s.pages, all[2])
	after := s.root()
	s.pages[all[1]], s.pages[all[2]] = page{sha256.Sum256(payloadOf(all[1], "words at "+all[1])), 2}, page{sha256.Sum256(payloadOf(all[2], "words at "+all[2])), 3}
	if a := c.rebind(s); a.Refused != nil {
		t.Fatal(a.Refused)
	}
	if rec, _, _ := r.stateOf(s); rec.State != after || rec.Pages != 1 {
		t.Errorf("behind the rebind there are %d pages", rec.Pages)
	}
	if got := words(r.log()); !slices.Contains(got, "exclude/out-of-scope 2") {
		t.Errorf("logged %q", got)
	}
}
