package indexer

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// TestAPageIsHeldUnderOneAgreement offers a page in two series, one of them a
// feed's, in both orders.
func TestAPageIsHeldUnderOneAgreement(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	all := urls(site, 3)
	l := listOf(all...)
	feed, plain := p.series("feed-1", site, inFeed), p.series("docs-1", site, nil)
	p.feedSession(feed, feed.feed(l, 1)).taken(feed.parcel(puts("words", all[0])...).pathed(l, byURL))

	excluded := func(a *oiv1.BatchResult, want ...string) {
		t.Helper()
		var got []string
		for _, x := range a.Committed.Refusals {
			got = append(got, fmt.Sprint(x.Item, " ", x.Reason))
		}
		if !slices.Equal(got, want) {
			t.Errorf("excluded %q, want %q", got, want)
		}
	}
	excluded(p.session(plain).push(plain, puts("words", all[0], all[1])...), "0 overlap")
	c := p.feedSession(feed, feed.feed(l, 1))
	excluded(c.taken(feed.parcel(puts("words", all[1], all[2])...).pathed(l, byURL)), "0 overlap")
	excluded(c.taken(feed.parcel(puts("other words", all[0])...).pathed(l, byURL)))
	// What one agreement gives up, the other may have.
	c.taken(feed.parcel(change{url: all[0]}))
	excluded(p.session(plain).push(plain, puts("new words", all[0])...))
	// What is withdrawn under one stands in nobody's way.
	p.revoke(p.revocation(plain.pair.Grant.Revoke(grants.DispositionStop)))
	excluded(p.feedSession(feed, feed.feed(l, 1)).taken(feed.parcel(puts("words", all[1])...).pathed(l, byURL)))
	if err := r.readable(feed, all[1]); err != nil {
		t.Error(err)
	}
}

// TestARenewalIsAnnouncedBesideOtherSeries renews the series that is looked at
// first: its new grant is not stored yet when the other is compared with it.
func TestARenewalIsAnnouncedBesideOtherSeries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	a, b := p.series("docs-1", site, nil), p.series("blog-1", blogs, nil)
	b.pair = b.grant(50, nil)
	p.session(a, b).close()
	a.pair = a.grant(2, nil)
	p.session(a, b).close()
	b.pair = b.grant(51, func(d *grants.Draft) { d.Scope = a.pair.Grant.Body.Scope })
	c := p.greeted()
	if refused := c.announce(c.announcement(b)).Refusals; len(refused) != 1 || refused[0].Reason != string(grants.ErrOverlap) {
		t.Errorf("a renewal that meets a series which is not announced: %v", refused)
	}
}

func TestSeriesBesideAFeedAreBounded(t *testing.T) {
	feed := grants.Scope{Type: grants.InFeed}
	all := make([]*seriesRecord, maxBeside)
	for i := range all {
		all[i] = new(seriesRecord)
	}
	if err := checkBeside(nil, all, grants.Scope{Type: grants.URLPrefix}); err != nil {
		t.Errorf("series of prefixes are not counted: %v", err)
	}
	if err := checkBeside(all[0], all, feed); err != nil {
		t.Errorf("%d series, one of them a feed's: %v", maxBeside, err)
	}
	if err := checkBeside(nil, all, feed); grants.ReasonOf(err) != grants.ErrOversize {
		t.Errorf("a feed beside %d series: %v", maxBeside, err)
	}
	all[3].Listed = true
	if err := checkBeside(nil, all, grants.Scope{Type: grants.URLPrefix}); grants.ReasonOf(err) != grants.ErrOversize {
		t.Errorf("prefixes beside %d series, one of them a feed's: %v", maxBeside, err)
	}
	all[4].Revoked = new(revokedRecord)
	if err := checkBeside(nil, all, feed); err != nil {
		t.Errorf("what is revoked counts: %v", err)
	}
}

// TestAdmissionFollowsTheURL takes URLs as they are really spelt through the
// session: what is taken is what the scope holds.
func TestAdmissionFollowsTheURL(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(1)
	for _, tt := range []struct {
		name, url string
		want      grants.Reason
	}{
		{"a plus sign as it is", site + "operator+=.html", ""},
		{"a plus sign in percent-encoding is another page", site + "operator%2B=.html", ""},
		{"a percent sign in a file's name", site + "operator%252B=.html", ""},
		{"a tilde as it is", site + "~x.html", ""},
		{"a tilde in percent-encoding", site + "%7Ex.html", grants.ErrMalformed},
		{"a letter outside ASCII in percent-encoding", site + "caf%C3%A9", ""},
		{"the same in lower-case encoding", site + "caf%c3%a9", grants.ErrMalformed},
		{"the same as it is", site + "caf\u00e9", grants.ErrMalformed},
		{"a space in percent-encoding", site + "a%20b", ""},
		{"a slash in percent-encoding", site + "AC%2FDC", ""},
		{"a star", site + "operator*.html", ""},
		{"dots in percent-encoding", site + "%2E%2E/admin", grants.ErrMalformed},
		{"dots before an encoded slash", site + "..%2Fadmin", grants.ErrMalformed},
		{"a sibling that begins alike", "https://example.com/docs-private", grants.ErrScope},
		{"the folder without its slash", "https://example.com/doc", grants.ErrScope},
		{"a parameter at the folder", "https://example.com/doc;a/x", grants.ErrScope},
		{"a host that begins alike", "https://example.com.evil.com/doc/x", grants.ErrScope},
		{"another port", "https://example.com:8443/doc/x", grants.ErrScope},
		{"a query", site + "x?a=b", grants.ErrScope},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			b := s.parcel(puts("words", tt.url)...)
			if tt.want != "" {
				c.refusedFor(b, tt.want)
				return
			}
			c.taken(b)
			if err := r.readable(s, tt.url); err != nil {
				t.Error(err)
			}
		})
	}
	r.t = t
}

// TestOnlyMembersAreAdmitted offers drawn pages with drawn paths: what is taken
// is listed, and what is listed and comes with its own path is taken.
func TestOnlyMembersAreAdmitted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, inFeed)
	pool := urls(site, 12)
	sequence := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		sequence++
		subset := rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 1, 8, rapid.ID[string])
		listed, stale := subset.Draw(t, "listed"), subset.Draw(t, "stale")
		now, before := listOf(listed...), listOf(stale...)
		c := p.feedSession(s, s.feed(now, sequence))
		defer c.close()
		offered, lent := rapid.SampledFrom(pool).Draw(t, "offered"), rapid.SampledFrom(pool).Draw(t, "lent")
		from := now
		if rapid.Bool().Draw(t, "of the feed before") {
			from = before
		}
		index, path, ok := from.Path([]byte(lent))
		b := s.parcel(puts(fmt.Sprint("words ", sequence), offered)...)
		if ok {
			index += uint64(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "off by"))
			b.items.Items[0].ScopePath, b.items.Items[0].ScopeIndex = &oiv1.Path{Hashes: rawHashes(path)}, index
		}
		place, own, member := now.Path([]byte(offered))
		if ok && member && slices.Contains(listed, offered) && index == place && slices.Equal(path, own) {
			c.taken(b)
		} else {
			c.refusedFor(b, grants.ErrScope)
		}
	})
}
