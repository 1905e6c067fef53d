package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// A crowd is many publishers in this process, over the real indexerd.
type crowd struct {
	*programs
	all   []*writer
	admin string
}

// newCrowd makes n publishers whom the indexer trusts, and starts it. Their records
// of trust are made apart, and put into the indexer's folder together.
func newCrowd(t testing.TB, n int) *crowd {
	p := newPrograms(t, 1)
	p.bin = buildPrograms(t)
	c := &crowd{programs: p, all: make([]*writer, n)}
	card, err := identity.Load(p.Idx, time.Now())
	pair.Check(t, err)
	known, err := publisher.OpenTrust(p.Pub)
	pair.Check(t, err)
	record := &record{roots: map[uint64][32]byte{}, entries: map[uint64][]byte{}}
	for i := range c.all {
		alone := filepath.Join(t.TempDir(), "trust")
		trusted, err := identity.OpenTrust(alone, identity.TrustOptions{})
		pair.Check(t, err)
		c.all[i] = newWriter(t, p.Pair, [2]*identity.Trust{known, trusted}, card.Card, record, i)
		files, err := filepath.Glob(filepath.Join(alone, "*.json"))
		pair.Check(t, err)
		if len(files) != 1 {
			t.Fatalf("the trust in one publisher is in %q", files)
		}
		pair.Check(t, os.Rename(files[0], filepath.Join(p.Idx, "trust", filepath.Base(files[0]))))
	}
	config := fmt.Sprintf("listen: %s\npublic: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlog_level: warn\n", p.Address)
	pair.Check(t, os.WriteFile(filepath.Join(p.Idx, "indexerd.yaml"), []byte(config), 0o644))
	p.startIndexerd()
	b, err := os.ReadFile(filepath.Join(p.Idx, "run.json"))
	pair.Check(t, err)
	var run struct{ Admin string }
	pair.Check(t, json.Unmarshal(b, &run))
	c.admin = "http://" + run.Admin
	return c
}

// An ending is how the indexer took leave of a session.
type ending struct {
	comeBack time.Duration // as the drain said; 0 if none was told
	err      error         // that ended the stream
}

// open opens a session with everything announced; wait gives its end.
func (w *writer) open(ctx context.Context) (wait func() ending, err error) {
	config := identity.ClientConfig(w.local.Certificate, w.trust, identity.Indexer, w.indexer.Identity, time.Now)
	conn, err := grpc.NewClient("passthrough:///"+w.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return nil, err
	}
	stream, err := oiv1.NewOutboundIndexingClient(conn).Session(ctx)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &line{stream}
	welcome, err := w.greet(l)
	if err == nil {
		err = w.announce(l, welcome)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return func() (e ending) {
		defer conn.Close()
		for {
			f, err := stream.Recv()
			if err != nil {
				e.err = err
				return e
			}
			if d := f.GetDrain(); d != nil {
				e.comeBack = time.Duration(d.ComeBackMs) * time.Millisecond
			}
			if f.GetHeartbeat() != nil { // answered, so that nobody is silent
				stream.Send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Heartbeat{Heartbeat: &oiv1.Heartbeat{Time: time.Now().Unix()}}})
			}
		}
	}, nil
}

// assemble opens all sessions, a few at a time, and gives what waits for their ends.
// Each is read from the moment that it is open: who does not answer a heartbeat for
// too long is silent, and is not told to come back.
func (c *crowd) assemble(ctx context.Context) (wait func() []ending) {
	c.t.Helper()
	all := make([]ending, len(c.all))
	var opening errgroup.Group
	var leaving sync.WaitGroup
	opening.SetLimit(16)
	for i, w := range c.all {
		opening.Go(func() error {
			wait, err := w.open(ctx)
			if err == nil {
				leaving.Go(func() { all[i] = wait() })
			}
			return err
		})
	}
	pair.Check(c.t, opening.Wait())
	return func() []ending { leaving.Wait(); return all }
}

// endAll tells indexerd to end, and gives how long it took. It fails if the exit
// code is not 0, or a session was not asked to come back, or not at its own time.
func (c *crowd) endAll(wait func() []ending) time.Duration {
	c.t.Helper()
	begun := time.Now()
	pair.Check(c.t, c.indexer.Process.Signal(syscall.SIGTERM))
	if err := c.indexer.Wait(); err != nil {
		c.t.Errorf("indexerd ended with %v", err)
	}
	took := time.Since(begun)
	var times []time.Duration
	most := 3*time.Second + time.Duration(len(c.all))*10*time.Millisecond // a hundred a second, behind the first
	for i, e := range wait() {
		if e.comeBack < 500*time.Millisecond || e.comeBack > most {
			c.t.Errorf("session %d was told to come back in %s, and ended with %v", i, e.comeBack, e.err)
		}
		times = append(times, e.comeBack)
	}
	slices.Sort(times)
	if n := len(slices.Compact(times)); n < len(c.all)/2 && n < 1000 {
		c.t.Errorf("%d sessions come back at %d different times", len(c.all), n)
	}
	return took
}

// metric is one of the figures that indexerd serves.
func (c *crowd) metric(name string) float64 {
	c.t.Helper()
	b, err := fetch(c.t.Context(), c.admin+"/metrics")
	pair.Check(c.t, err)
	for line := range bytes.Lines(b) {
		if rest, ok := strings.CutPrefix(string(line), name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			pair.Check(c.t, err)
			return v
		}
	}
	c.t.Fatalf("no metric %s", name)
	return 0
}

// TestSessionsAreAskedToComeBackAtTheirOwnTime when the indexer is told to end, and
// it ends with 0 behind them.
func TestSessionsAreAskedToComeBackAtTheirOwnTime(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 24)
	wait := c.assemble(t.Context())
	if n := c.metric("uzpif_oi_sessions"); n != 24 {
		t.Errorf("%v sessions are counted", n)
	}
	if took := c.endAll(wait); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}
