package publisher

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// A shownLog is what everybody is shown.
type shownLog struct {
	x    *fixture
	tree stage.Tree
	err  error // of every request
	deny error // of proofs alone
}

func (l *shownLog) Checkpoint(context.Context) (translog.Tree, []byte, error) {
	if l.err != nil {
		return translog.Tree{}, nil, l.err
	}
	t := l.tree.At(l.x.s.Origin(), uint64(len(l.tree)))
	return t, l.x.s.SignNote(l.x.t, t), nil
}

func (l *shownLog) Consistency(_ context.Context, from, to uint64) ([][32]byte, error) {
	return l.tree.Consistency(from, to), errors.Join(l.err, l.deny)
}

func (l *shownLog) Close() {}

// newComparing is a fixture that has pushed once, and whose indexer shows its
// log to everybody as well.
func newComparing(t *testing.T) (*fixture, *shownLog) {
	t.Helper()
	x := newFixture(t)
	shown := &shownLog{x: x}
	x.p.public = func(*identity.Log) (publicLog, error) { return shown, nil }
	x.write("a", "first")
	shown.tree = slices.Clone(x.s.Log)
	_, err := x.push()
	check(t, err)
	shown.tree = slices.Clone(x.s.Log)
	return x, shown
}

func (x *fixture) logState() LogCheck {
	x.t.Helper()
	s, err := x.p.Status()
	check(x.t, err)
	if s.Indexers[0].Log == nil {
		x.t.Fatal("no comparison was made")
	}
	return *s.Indexers[0].Log
}

// forked is the tree with another entry i.
func forked(t stage.Tree, i int) stage.Tree {
	t = slices.Clone(t)
	t[i][0] ^= 1
	return t
}

func TestThePublicLogIsComparedWithTheSessions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shown func(l *shownLog)
		want  string
		split bool
	}{
		{"the same tree", func(*shownLog) {}, LogConsistent, false},
		{"a larger tree of the same log", func(l *shownLog) { l.tree = append(l.tree, [32]byte{1}, [32]byte{2}) }, LogConsistent, false},
		{"a tree that lags behind", func(l *shownLog) { l.tree = l.tree[:len(l.tree)-1] }, LogBehind, false},
		{"an empty tree", func(l *shownLog) { l.tree = nil }, LogBehind, false},
		{"nobody answers", func(l *shownLog) { l.err = remote.ErrUnavailable }, LogUnreachable, false},
		{"what answers is no log", func(l *shownLog) { l.err = remote.ErrMalformed }, LogUnreachable, false},
		{"a note by another key", func(l *shownLog) { l.err = translog.ErrNote }, LogUnreachable, false},
		{"a larger tree that nobody proves", func(l *shownLog) { l.tree, l.deny = append(l.tree, [32]byte{1}), remote.ErrAbsent }, LogUnreachable, false},
		{"a fork at the same size", func(l *shownLog) { l.tree = forked(l.tree, 3) }, LogInconsistent, true},
		{"a fork that has grown", func(l *shownLog) { l.tree = append(forked(l.tree, len(l.tree)-1), [32]byte{1}) }, LogInconsistent, true},
		{"a fork that lags behind and was seen in public before", func(l *shownLog) { l.tree = forked(l.tree[:len(l.tree)-1], 3) }, LogInconsistent, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, shown := newComparing(t)
			if tt.split { // a tree is known in public, of one entry less
				known := shown.tree
				shown.tree = known[:len(known)-1]
				_, err := x.push()
				check(t, err)
				shown.tree = known
			}
			tt.shown(shown)
			_, err := x.push()
			if got := x.logState(); got.State != tt.want || errors.Is(err, ErrSplitView) != tt.split || !tt.split && err != nil {
				t.Errorf("state %+v, push = %v", got, err)
			}
			kept, err := filepath.Glob(filepath.Join(x.p.dir, "alarms", "*.json"))
			check(t, err)
			if tt.split != (len(kept) == 1) {
				t.Errorf("%d proofs are kept", len(kept))
			}
		})
	}
}

// TestASplitViewStopsTheAgreement goes on only when the two agree again: that
// nobody answers does not help.
func TestASplitViewStopsTheAgreement(t *testing.T) {
	x, shown := newComparing(t)
	honest := shown.tree
	shown.tree = forked(honest, 3)
	if _, err := x.push(); !errors.Is(err, ErrSplitView) || !judge(err).alarm {
		t.Fatalf("push = %v", err)
	}
	s, err := x.p.Status()
	check(t, err)
	if a := s.Indexers[0].Alarm; a == nil || a.Reason != "split-view" {
		t.Errorf("alarm %+v", a)
	}
	x.write("a", "second")
	before := x.cursor()
	for _, gone := range []error{nil, remote.ErrUnavailable} {
		shown.err = gone
		if _, err := x.push(); !errors.Is(err, ErrSplitView) || x.fake.batches != 1 || x.cursor() != before {
			t.Errorf("push = %v after %d batches", err, x.fake.batches)
		}
	}
	shown.err, shown.tree = nil, honest
	if _, err := x.push(); err != nil || x.fake.batches != 2 || x.logState().State != LogConsistent {
		t.Errorf("push = %v after %d batches", err, x.fake.batches)
	}
	kept, err := filepath.Glob(filepath.Join(x.p.dir, "alarms", "*.json"))
	check(t, err)
	if len(kept) != 1 {
		t.Fatalf("%d proofs are kept, want the one", len(kept))
	}
	b, err := os.ReadFile(kept[0])
	check(t, err)
	if n := strings.Count(string(b), x.s.Origin()); n < 4 { // two notes, each with its origin twice
		t.Errorf("the proof is %s", b)
	}
}

// TestAFrozenCheckpointIsASplitViewAfterADay shows everybody the log of the
// first day for ever.
func TestAFrozenCheckpointIsASplitViewAfterADay(t *testing.T) {
	x, shown := newComparing(t)
	shown.tree = shown.tree[:11]
	for hour := range 26 {
		_, err := x.push()
		if late := hour > 24; errors.Is(err, ErrSplitView) != late || !late && err != nil {
			t.Fatalf("after %d h: %v", hour, err)
		}
		x.s.Now = x.s.Now.Add(time.Hour)
	}
}

// TestALogThatCatchesUpOwesNothing lags a little behind all the time.
func TestALogThatCatchesUpOwesNothing(t *testing.T) {
	x, shown := newComparing(t)
	for range 40 {
		x.s.Grow(1)
		shown.tree = slices.Clone(x.s.Log[:len(x.s.Log)-1])
		_, err := x.push()
		check(t, err)
		if got := x.logState(); got.State != LogBehind {
			t.Fatalf("state %+v", got)
		}
		x.s.Now = x.s.Now.Add(time.Hour)
	}
}

func TestTheClockIsNotMovedBack(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	_, err := x.push()
	check(t, err)
	start := x.s.Now
	for _, tt := range []struct {
		name    string
		by      time.Duration
		file    string // in place of the one that is there
		refused bool
	}{
		{"by as much as two clocks may differ", -envelope.Skew, "", false},
		{"by a second more", -envelope.Skew - time.Second, "", true},
		{"by half a day", -12 * time.Hour, "", true},
		{"not at all", 0, "", false},
		{"not at all, and the file is broken", 0, "yesterday", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x.p.highest.at = time.Time{} // as after a restart
			if tt.file != "" {
				check(t, os.WriteFile(filepath.Join(x.p.dir, highestFile), []byte(tt.file), 0o644))
			}
			x.s.Now = start.Add(tt.by)
			_, err := x.push()
			if tt.refused != (err != nil) || tt.refused && tt.file == "" && !errors.Is(err, ErrClock) {
				t.Errorf("push = %v, refused: %t", err, tt.refused)
			}
		})
	}
}

// TestThePublicLogIsReadByTheWayOfSessions has a proxy asked for a log whose name
// nobody else knows.
func TestThePublicLogIsReadByTheWayOfSessions(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	asked := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if q, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				asked <- q.Method + " " + q.RequestURI
			}
			c.Close()
		}
	}()
	p := &Publisher{proxy: func(string) (*url.URL, error) { return &url.URL{Scheme: "http", Host: l.Addr().String()}, nil }}
	log, err := p.openPublic(&identity.Log{URL: "http://log.invalid"})
	check(t, err)
	defer log.Close()
	if _, _, err := log.Checkpoint(t.Context()); err == nil {
		t.Error("there is a checkpoint, and no log")
	}
	select {
	case what := <-asked:
		if what != "CONNECT log.invalid:80" {
			t.Errorf("the proxy was asked to %s", what)
		}
	default:
		t.Error("the proxy was not asked")
	}
}
