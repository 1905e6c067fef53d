package indexer

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// A slowWire takes a frame once it has waited for so long.
type slowWire struct {
	takes time.Duration
	taken atomic.Int32
	over  chan struct{}
}

func (w *slowWire) Send(*oiv1.IndexerFrame) error {
	time.Sleep(w.takes)
	w.taken.Add(1)
	return nil
}

func (w *slowWire) Recv() (*oiv1.PublisherFrame, error) {
	<-w.over
	return nil, context.Canceled
}

// TestTheLastWordsOfASessionAreWaitedFor from the moment that they are offered to the
// peer, however late a busy machine comes to that; one that takes nothing is left
// behind.
func TestTheLastWordsOfASessionAreWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name        string
		turn, takes time.Duration // until the writer has its turn, and of the peer
		taken       int32
		least, most time.Duration
	}{
		{"a peer that takes them", 0, 0, 1, 0, 0},
		{"a turn that comes late", 3 * flushTime, 0, 1, 3 * flushTime, 3 * flushTime},
		{"a peer that needs its time", 0, flushTime / 2, 1, flushTime / 2, flushTime / 2},
		{"a peer that takes nothing", 0, time.Hour, 0, flushTime, flushTime + flushTime/2},
		{"a turn that never comes", time.Hour, 0, 0, flushMost, flushMost + flushTime/2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &slowWire{takes: tt.takes, over: make(chan struct{})}
				s := &session{link: link.New(w, link.Options[*oiv1.IndexerFrame, *oiv1.PublisherFrame]{
					Heartbeat: 2 * time.Hour, Silence: 2 * time.Hour,
					Go: func(f func()) { time.AfterFunc(tt.turn, f) },
				})}
				s.link.Start(t.Context())
				if err := s.link.Urgent(t.Context(), &oiv1.IndexerFrame{}); err != nil {
					t.Fatal(err)
				}
				s.link.Close()
				begun := time.Now()
				s.written()
				synctest.Wait()
				took, taken := time.Since(begun), w.taken.Load()
				if taken != tt.taken || took < tt.least || took > tt.most {
					t.Errorf("%d frames were taken within %s, want %d within %s to %s", taken, took, tt.taken, tt.least, tt.most)
				}
				close(w.over)
				<-s.link.Written() // an hour later, at most
			})
		})
	}
}

// TestADrainGoesOnWhileSessionsEnd, behind its time for those that are at work, and
// not for ever.
func TestADrainGoesOnWhileSessionsEnd(t *testing.T) {
	for _, tt := range []struct {
		name     string
		each     time.Duration // after which one more of twenty sessions ends
		left     int
		atLatest time.Duration
	}{
		{"each soon behind the one before it", 700 * time.Millisecond, 0, 15 * time.Second},
		{"each too late behind the one before it", 3 * time.Second, 17, drainTime + 2*time.Second},
		{"each in time, and too many of them", 1900 * time.Millisecond, 10, drainMost + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &registry{byName: map[envelope.Name]*member{}}
				told := 0
				for i := range 20 {
					m := &member{name: envelope.Name(string(rune('a' + i)))}
					m.send = func(f *oiv1.IndexerFrame) {
						r.byNameMu.Lock()
						defer r.byNameMu.Unlock()
						told++
					}
					m.finish = func(error) {
						time.AfterFunc(time.Duration(i+1)*tt.each, func() { r.leave(m) })
					}
					if err := r.join(m); err != nil {
						t.Fatal(err)
					}
				}
				begun := time.Now()
				r.drain(drainTime)
				took, left := time.Since(begun), r.count()
				if told != 20 || left != tt.left || took > tt.atLatest {
					t.Errorf("%d were told, %d had ended within %s; want 20, %d, %s", told, 20-left, took, 20-tt.left, tt.atLatest)
				}
			})
		})
	}
}
