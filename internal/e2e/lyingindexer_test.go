package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// liesName is who lies; the pair's own indexer beside it is honest.
const liesName = envelope.Name("spiffe://lies.test/indexer")

// A lie is what becomes of one frame of an honest indexer. Everything else in
// the session is right, so that only the lie can be what is refused.
type lie struct {
	name string
	// frame gives what is sent in place of f; it may hold it back. It is called
	// for every frame that is no heartbeat, and may change f.
	frame func(x *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame
	code  int    // exit code of the push
	says  string // pattern of what it prints as the reason
	alarm string // reason in the status; "" if there is to be none
}

// A lyingIndexer is a real indexer, with real keys, whose frames pass through
// the lie that is told now.
type lyingIndexer struct {
	t       testing.TB
	dir     string
	local   *identity.Local
	x       *indexer.Indexer
	address string
	public  atomic.Pointer[http.Handler] // what everybody is shown

	mu     sync.Mutex // guards what follows
	lie    *lie
	hello  func(*oiv1.Hello)            // keeps from the honest indexer what the publisher was told
	ack    func(*oiv1.Acknowledgements) // lies about revocations
	told   int                          // frames that the lie has changed or held back
	leaves stage.Tree                   // of the log, as far as its answers have shown it
	shown  uint64                       // the size of the tree that the session has shown last
	last   *oiv1.BatchResult            // the honest answer before the present one

	// What the publisher was honestly given: it has to hold this, and no more.
	given  []envelope.Hash // receipts
	agreed uint64          // the size of the last tree
}

// newLyingIndexer starts one that the pair's publisher trusts as it trusts the
// honest one, with a grant over the same pages.
func newLyingIndexer(t testing.TB, p *pair.Pair) *lyingIndexer {
	t.Helper()
	l := &lyingIndexer{t: t, dir: filepath.Join(t.TempDir(), "lies")}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	pair.Check(t, err)
	now := time.Now()
	l.local, err = identity.Create(l.dir, identity.Options{
		Identity: liesName, Role: identity.Indexer, Endpoint: "lies.test:7443", LogURL: "http://" + web.Addr().String(),
		Now: now.Add(-time.Hour), // so that something can be backdated
	})
	pair.Check(t, err)
	card, err := identity.Load(p.Pub, now)
	pair.Check(t, err)
	trust, err := identity.OpenTrust(filepath.Join(l.dir, "trust"), identity.TrustOptions{})
	pair.Check(t, err)
	_, err = trust.Add(card.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{pair.Origin}, Now: now})
	pair.Check(t, err)
	l.serve(web)
	trust, err = publisher.OpenTrust(p.Pub)
	pair.Check(t, err)
	_, err = trust.Add(l.local.Card.Object.Raw, identity.AddOptions{Endpoint: l.address, Now: now})
	pair.Check(t, err)
	scope, err := grants.PrefixScope(pair.Origin + "/")
	pair.Check(t, err)
	_, _, err = publisher.IssueGrant(p.Pub, publisher.GrantRequest{
		Indexer: liesName, Source: "site", Scope: scope, Purposes: grants.Purposes{grants.SearchIndex}, Mode: grants.ModePush,
	}, now)
	pair.Check(t, err)
	return l
}

// serve opens the indexer and both of its sides.
func (l *lyingIndexer) serve(web net.Listener) {
	var err error
	l.x, err = indexer.Open(indexer.Config{Dir: l.dir, Log: slog.New(slog.DiscardHandler), Publish: 50 * time.Millisecond})
	pair.Check(l.t, err)
	sessions, err := net.Listen("tcp", "127.0.0.1:0")
	pair.Check(l.t, err)
	l.address = sessions.Addr().String()
	honest := l.x.Public()
	l.public.Store(&honest)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*l.public.Load()).ServeHTTP(w, r) })}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(web) })
	serving.Go(func() {
		if err := l.x.Serve(ctx, l.x.NewServer(grpc.StreamInterceptor(l.stream), grpc.UnaryInterceptor(l.unary)), sessions); err != nil {
			l.t.Errorf("lying indexer: %v", err)
		}
	})
	l.t.Cleanup(func() {
		l.tell(nil)
		cancel()
		server.Close()
		serving.Wait()
		pair.Check(l.t, l.x.Close())
	})
}

// tell makes l lie from now on, or, with nil, be honest. It gives how often the
// lie before was told.
func (l *lyingIndexer) tell(next *lie) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.lie, l.told = next, 0
	return told
}

// A lyingStream is one session. A receipt that is asked for is given honestly:
// what a batch before was lied about is set right by it.
type lyingStream struct {
	grpc.ServerStream
	l      *lyingIndexer
	victim bool         // of the publisher that is lied to
	asked  atomic.Int32 // receipts
}

func (l *lyingIndexer) stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	pr, _ := peer.FromContext(s.Context())
	name, _, err := identity.PeerOf(pr.AuthInfo.(credentials.TLSInfo).State)
	pair.Check(l.t, err)
	return handler(srv, &lyingStream{ServerStream: s, l: l, victim: name == pair.PublisherName})
}

func (s *lyingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	f, ok := m.(*oiv1.PublisherFrame)
	if err != nil || !ok {
		return err
	}
	if f.GetReceiptRequest() != nil {
		s.asked.Add(1)
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if f.GetHello() != nil && s.victim && s.l.hello != nil {
		s.l.hello(f.GetHello())
	}
	return nil
}

// SendMsg is called by one goroutine of a session at a time.
func (s *lyingStream) SendMsg(m any) error {
	f, ok := m.(*oiv1.IndexerFrame)
	if !ok || f.GetHeartbeat() != nil {
		return s.ServerStream.SendMsg(m)
	}
	for _, out := range s.pass(f) {
		if err := s.ServerStream.SendMsg(out); err != nil {
			return err
		}
	}
	return nil
}

// pass takes note of an honest frame, and gives what is sent in its place.
func (s *lyingStream) pass(f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := false
	if r := f.GetBatchResult(); r != nil {
		asked = s.asked.Load() > 0
		if asked {
			s.asked.Add(-1)
		}
		l.learn(r.GetCommitted().GetEntries())
	}
	if !s.victim {
		return []*oiv1.IndexerFrame{f}
	}
	out := []*oiv1.IndexerFrame{f}
	if l.lie != nil && !asked {
		out = l.lie.frame(l, proto.Clone(f).(*oiv1.IndexerFrame))
	}
	honest := len(out) == 1 && proto.Equal(out[0], f)
	if !honest {
		l.told++
	}
	l.note(f, honest)
	return out
}

// learn takes the leaves of a batch's entries up.
func (l *lyingIndexer) learn(entries [][]byte) {
	for _, raw := range entries {
		o, err := envelope.Parse(raw)
		pair.Check(l.t, err)
		for uint64(len(l.leaves)) <= o.Sequence {
			l.leaves = append(l.leaves, [32]byte{})
		}
		l.leaves[o.Sequence] = translog.LeafHash(raw)
	}
}

// note remembers what the session was shown, and what was honest of it.
func (l *lyingIndexer) note(f *oiv1.IndexerFrame, honest bool) {
	size := func(raw []byte) uint64 {
		tree, err := translog.OpenNote(raw, l.local.Card.Log.VKey)
		pair.Check(l.t, err)
		return tree.Size
	}
	switch r := f.GetBatchResult(); {
	case f.GetWelcome() != nil && len(f.GetWelcome().Note) == 0: // the publisher has the newest
		l.shown = uint64(len(l.leaves))
	case f.GetWelcome() != nil:
		l.shown = size(f.GetWelcome().Note)
	case r.GetCommitted() != nil:
		l.last, l.shown = proto.Clone(r).(*oiv1.BatchResult), max(l.shown, size(r.Committed.Note))
		o, err := envelope.Parse(r.Committed.Receipt)
		pair.Check(l.t, err)
		if honest && !slices.Contains(l.given, o.ID) {
			l.given = append(l.given, o.ID)
		}
	}
	if honest {
		l.agreed = l.shown
	}
}

func (l *lyingIndexer) unary(ctx context.Context, q any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	a, err := handler(ctx, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	if acks, ok := a.(*oiv1.Acknowledgements); ok && err == nil {
		for _, k := range acks.Acknowledged {
			l.learn([][]byte{k.Entry})
		}
		if l.ack != nil {
			acks = proto.Clone(acks).(*oiv1.Acknowledgements)
			l.ack(acks)
			return acks, nil
		}
	}
	return a, err
}

// A lied is a publisher between an honest and a lying indexer.
type lied struct {
	*pair.Pair
	t   testing.TB
	l   *lyingIndexer
	bin string
}

// buildPublisherd gives the path of the real program.
func buildPublisherd(t testing.TB) string {
	t.Helper()
	return filepath.Join(buildPrograms(t), "publisherd")
}

func newLied(t testing.TB, bin string, pages int) *lied {
	t.Helper()
	x := &lied{Pair: pair.New(t, pages), t: t, bin: bin}
	x.l = newLyingIndexer(t, x.Pair)
	// What hangs is given up after a second.
	pair.Check(t, os.WriteFile(filepath.Join(x.Pub, "publisherd.yaml"), []byte("log_level: error\nreply_timeout: 1s\n"), 0o644))
	return x
}

// push runs the real program. It gives the results, what it printed as errors,
// and its exit code.
func (x *lied) push() (map[envelope.Name]publisher.Result, string, int) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, x.bin, "push", "--json", "--dir", x.Pub)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		x.t.Fatal(err)
	}
	results := make(map[envelope.Name]publisher.Result)
	for d := json.NewDecoder(&out); d.More(); {
		var r publisher.Result
		pair.Check(x.t, d.Decode(&r))
		results[r.Indexer] = r
	}
	return results, errs.String(), cmd.ProcessState.ExitCode()
}

// standing reads where the agreement with an indexer stands, and its receipts.
func (x *lied) standing(name envelope.Name) (line publisher.IndexerStatus, held []envelope.Hash) {
	x.t.Helper()
	pub, err := publisher.Open(publisher.Config{Dir: x.Pub})
	pair.Check(x.t, err)
	defer pub.Close()
	s, err := pub.Status()
	pair.Check(x.t, err)
	receipts, err := pub.Receipts(0)
	pair.Check(x.t, err)
	for _, i := range s.Indexers {
		if i.Identity == name {
			line = i
		}
	}
	for _, r := range receipts.Receipts {
		if r.Indexer == name {
			held = append(held, r.Receipt)
		}
	}
	return line, held
}
