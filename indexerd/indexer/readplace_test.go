package indexer

import (
	"errors"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// reading opens a Reading with what it offers, and its moment.
func (r *rig) reading() (*Reading, []Offer, uint64) {
	r.t.Helper()
	rd := must[*Reading](r.t)(r.x.Reading(grants.SearchIndex, false))
	r.t.Cleanup(rd.Close)
	return rd, must[[]Offer](r.t)(rd.Offers()), must[uint64](r.t)(rd.Moment())
}

// TestNothingIsPlacedBehindARevocation brings a revocation while something is placed:
// it is not answered before that is in place. Behind it nothing is placed any more.
func TestNothingIsPlacedBehindARevocation(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(3)
	c.close()
	rd, offers, moment := r.reading()
	end := r.now().Add(time.Hour)
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionStop))
	answered := make(chan struct{})
	placed := 0
	err := rd.Place(t.Context(), offers, moment, end, func() error {
		placed++
		go func() {
			defer close(answered)
			s.p.revoke(rev)
		}()
		select {
		case <-answered:
			t.Error("the revocation is answered while something is placed")
		case <-time.After(300 * time.Millisecond):
		}
		return nil
	})
	if err != nil || placed != 1 {
		t.Fatalf("Place = %v, put was called %d times", err, placed)
	}
	<-answered
	if err := rd.Place(t.Context(), offers, moment, end, func() error { placed++; return nil }); !errors.Is(err, ErrEnding) || placed != 1 {
		t.Errorf("behind the revocation Place = %v, put was called %d times", err, placed)
	}
}

// TestOnlyWhatMayStillBeReadIsPlaced lets something happen between reading and placing.
func TestOnlyWhatMayStillBeReadIsPlaced(t *testing.T) {
	broken := errors.New("no room")
	for _, tt := range []struct {
		name   string
		happen func(r *rig, s *series, c *client)
		put    error
		want   error
	}{
		{"nothing", func(*rig, *series, *client) {}, nil, nil},
		{"nothing, and put fails", func(*rig, *series, *client) {}, broken, broken},
		{"a page has new words", func(_ *rig, s *series, c *client) { c.push(s, puts("other words", urls(site, 1)...)...) }, nil, nil},
		{"another page is there", func(_ *rig, s *series, c *client) { c.push(s, puts("words", site+"more")...) }, nil, nil},
		{"a page is deleted", func(_ *rig, s *series, c *client) { c.push(s, change{url: urls(site, 3)[1]}) }, nil, ErrEnding},
		{"the same terms until later", func(_ *rig, s *series, c *client) {
			c.close()
			s.pair = s.grant(2, nil)
			s.p.session(s).close()
		}, nil, ErrEnding}, // the terms of each page say until when
		{"a part is withdrawn", func(_ *rig, s *series, _ *client) {
			s.p.revoke(s.p.revocation(s.pair.Grant.RevokeScope(must[grants.Scope](s.p.r.t)(grants.PrefixScope(urls(site, 3)[0])), grants.DispositionStop)))
		}, nil, ErrEnding},
		{"another series is withdrawn", func(r *rig, _ *series, _ *client) {
			o := r.publisher("spiffe://other.example/publisher", "https://other.example")
			s := o.series("docs-9", "https://other.example/", nil)
			o.session(s).push(s, puts("words", "https://other.example/a")...)
			o.revoke(o.revocation(s.pair.Grant.Revoke(grants.DispositionStop)))
		}, nil, nil},
		{"its time comes", func(r *rig, _ *series, _ *client) { r.forward(time.Hour) }, nil, ErrEnding},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			s, c := r.example().held(3)
			rd, offers, moment := r.reading()
			end := r.now().Add(time.Hour)
			tt.happen(r, s, c)
			called := false
			err := rd.Place(t.Context(), offers, moment, end, func() error { called = true; return tt.put })
			if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
				t.Errorf("Place = %v, want %v", err, tt.want)
			}
			if called != !errors.Is(tt.want, ErrEnding) {
				t.Errorf("put was called: %t", called)
			}
		})
	}
}
