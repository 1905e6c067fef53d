package indexer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// whoHas is what the indexer says of one page, by the last word of a consumer's name.
func (r *rig) whoHas(url string) string {
	r.t.Helper()
	h := urlHash(url)
	states := make(map[string]PageState)
	for _, x := range must[[]Holder](r.t)(r.x.Holders("spiffe://example.com/publisher", h[:])) {
		states[string(x.Consumer[strings.LastIndexByte(string(x.Consumer), '/')+1:])] = x.Page
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(states)) {
		words = append(words, name+" "+string(states[name]))
	}
	return strings.Join(words, ", ")
}

// readAll reads up to the head, and ends the stream.
func (c *consumerTester) readAll(cursor []byte) (words []string, head []byte) {
	c.f.r.t.Helper()
	rd := c.subscribe("search.index", cursor)
	defer rd.cancel()
	words, last := rd.until("head")
	return words, last.Cursor
}

func (c *consumerTester) purged(cursor []byte) error {
	_, err := c.api.Purged(context.Background(), &oiv1.PurgedRequest{Purpose: "search.index", Cursor: cursor})
	return err
}

// TestItIsKnownWhoHadAPageAndWhoHasPurgedIt follows single pages from the first consumer
// that is handed them to the last statement that they are gone.
func TestItIsKnownWhoHadAPageAndWhoHasPurgedIt(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(3)
	f := r.feed()
	u, later := urls(site, 3), site+"later"
	early, late := f.consumer("spiffe://search.example/early", "search.index"), f.consumer("spiffe://search.example/late", "search.index")
	third := f.consumer("spiffe://other.example/third", "search.index")
	var atEarly, atLate []byte
	say := func(who *consumerTester, cursor *[]byte) func() {
		return func() {
			if err := who.purged(*cursor); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(who *consumerTester, cursor *[]byte) func() {
		return func() { _, *cursor = who.readAll(*cursor) }
	}
	for _, step := range []struct {
		name   string
		do     func()
		states map[string]string
	}{
		{"nobody reads", func() {}, map[string]string{u[0]: "", u[1]: ""}},
		{"a third party reads what may not be passed on", func() { third.readAll(nil) }, map[string]string{u[0]: ""}},
		{"early reads", read(early, &atEarly), map[string]string{u[0]: "early held", u[1]: "early held", later: ""}},
		{"another page comes", func() { c.push(s, puts("words", later)...) }, map[string]string{u[1]: "early held", later: ""}},
		{"a page goes", func() { c.push(s, change{url: u[1]}) }, map[string]string{u[0]: "early held", u[1]: "early to-purge", later: ""}},
		{"late reads, and never had it", read(late, &atLate), map[string]string{u[0]: "early held, late held", u[1]: "early to-purge", later: "late held"}},
		{"early reads of it", read(early, &atEarly), map[string]string{u[1]: "early to-purge", later: "early held, late held"}},
		{"early says that it is gone", say(early, &atEarly), map[string]string{u[0]: "early held, late held", u[1]: "early purged"}},
		{"a part is withdrawn", func() {
			s.p.revoke(s.p.revocation(s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(u[2])), grants.DispositionStop)))
		}, map[string]string{u[0]: "early held, late held", u[1]: "early purged", u[2]: "early to-purge, late to-purge"}},
		{"late drops it and says so", func() { read(late, &atLate)(); say(late, &atLate)() }, map[string]string{u[0]: "early held, late held", u[2]: "early to-purge, late purged"}},
		{"all is withdrawn and deleted", func() {
			c.close()
			s.p.settled(s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete)))
		}, map[string]string{u[0]: "early to-purge, late to-purge", later: "early to-purge, late to-purge"}},
		{"early drops all and says so", func() { read(early, &atEarly)(); say(early, &atEarly)() }, map[string]string{u[0]: "early purged, late to-purge"}},
		{"late as well", func() { read(late, &atLate)(); say(late, &atLate)() }, map[string]string{u[0]: "early purged, late purged"}},
	} {
		step.do()
		for url, want := range step.states {
			if got := r.whoHas(url); got != want {
				t.Errorf("%s: %s: %q, want %q", step.name, url, got, want)
			}
		}
	}
}

// TestAForgottenTombstoneStaysOwed: what became of a page is not known for ever, and who
// has confirmed nothing since may have it.
func TestAForgottenTombstoneStaysOwed(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(2)
	u := urls(site, 2)[1]
	for _, name := range []string{"silent", "told"} {
		k := r.keeper(envelope.Name("spiffe://search.example/"+name), grants.SearchIndex, false)
		k.read(-1)
	}
	c.push(s, change{url: u})
	c.close()
	told := r.keeper("spiffe://search.example/told", grants.SearchIndex, false)
	told.read(-1)
	must[envelope.Time](t)(r.x.purged(told.l, told.cursor))
	if got := r.whoHas(u); got != "silent to-purge, told purged" {
		t.Errorf("while it is told: %q", got)
	}
	r.forward(keepGone + 2*pruneEvery)
	r.retained()
	must[envelope.Time](t)(r.x.purged(told.l, func() []byte { told.read(-1); return told.cursor }()))
	if got := r.whoHas(u); got != "silent to-purge" {
		t.Errorf("when it is forgotten: %q", got)
	}
}

// TestAConsumerThatMayReadNoMoreCanSayThatAllIsGone removes one that reads, one that is
// not there, and takes one of its purposes from a third.
func TestAConsumerThatMayReadNoMoreCanSayThatAllIsGone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		reads  bool // at that moment
		remove func(c *consumerTester) error
	}{
		{"removed while it reads", true, func(c *consumerTester) error { return c.f.r.x.feed.consumers.Remove(c.local.Name()) }},
		{"removed while it is away", false, func(c *consumerTester) error { return c.f.r.x.feed.consumers.Remove(c.local.Name()) }},
		{"another purpose in its place", false, func(c *consumerTester) error { c.may("archive"); return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			s, conn := r.example().held(3)
			conn.close()
			c := r.feed().consumer("spiffe://search.example/own", "search.index")
			rd := c.subscribe("search.index", nil)
			_, head := rd.until("head")
			if !tt.reads {
				rd.cancel()
			}
			if err := tt.remove(c); err != nil {
				t.Fatal(err)
			}
			owes := func() string {
				h := must[[]Holder](t)(r.x.Holders(s.p.local.Name(), nil))
				return fmt.Sprint(len(h), h[0].Open, h[0].ToPurge)
			}
			if got := owes(); got != "1 false 1" {
				t.Errorf("holders when it is removed: %s", got)
			}
			if !tt.reads {
				rd = c.subscribe("search.index", head.Cursor)
			}
			words, end := rd.until("head")
			if len(words) != 2 || words[0] != "reset purpose" {
				t.Errorf("told %q", words)
			}
			if got := rd.refused(); got != "purpose" {
				t.Errorf("ended with %q", got)
			}
			if err := c.purged(end.Cursor); err != nil {
				t.Errorf("purged: %v", err)
			}
			if got := owes(); got != "1 false 0" {
				t.Errorf("holders when it has said so: %s", got)
			}
			// It may read again, and begins anew: it has dropped what the cursor stands for.
			c.may("search.index")
			if got := c.subscribe("search.index", end.Cursor).refused(); got != "cursor" {
				t.Errorf("the cursor of the farewell: %q", got)
			}
			if words, _ := c.readAll(nil); len(words) != 5 {
				t.Errorf("when it may read again it is told %q", words)
			}
		})
	}
}
