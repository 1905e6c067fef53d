package e2e

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// A swallower stands before the indexer. Once the publisher has sent so many
// octets, nothing that the indexer says passes any more.
type swallower struct {
	net.Listener
	to    string
	after int64
	sent  atomic.Int64
	conns sync.WaitGroup
}

func newSwallower(t *testing.T, to string, after int64) *swallower {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	pair.Check(t, err)
	s := &swallower{Listener: l, to: to, after: after}
	s.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() { s.carry(c) })
		}
	})
	t.Cleanup(func() { l.Close(); s.conns.Wait() })
	return s
}

func (s *swallower) carry(c net.Conn) {
	up, err := net.Dial("tcp", s.to)
	if err != nil {
		c.Close()
		return
	}
	s.conns.Go(func() {
		defer c.Close()
		b := make([]byte, 4096)
		for {
			n, err := up.Read(b)
			if err != nil {
				return
			}
			if s.sent.Load() < s.after {
				c.Write(b[:n])
			}
		}
	})
	defer up.Close()
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		s.sent.Add(int64(n))
		if _, err := up.Write(b[:n]); err != nil {
			return
		}
	}
}

// rotate stops the indexer, rotates its log, starts it again, and has the
// publisher trust the new card.
func rotate(t *testing.T, p *pair.Pair, origin string) {
	t.Helper()
	p.StopIndexer()
	_, err := indexer.Rotate(indexer.Config{Dir: p.Idx}, indexer.RotateOptions{Origin: origin})
	pair.Check(t, err)
	p.StartIndexer()
	local, err := identity.Load(p.Idx, time.Now())
	pair.Check(t, err)
	trust, err := publisher.OpenTrust(p.Pub)
	pair.Check(t, err)
	_, err = trust.Add(local.Card.Object.Raw, identity.AddOptions{Endpoint: p.Address, Now: time.Now()})
	pair.Check(t, err)
}

// TestABatchWithoutAnAnswerIsSettledAfterARotation commits a batch whose receipt
// is lost on the way, rotates the log, and pushes again: the receipt comes from
// the log that has ended, and nothing is sent twice.
func TestABatchWithoutAnAnswerIsSettledAfterARotation(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 3)
	p.Push()
	// 24 KiB that do not shrink by more than half: less than one window of
	// HTTP/2, so that no answer is needed on the way, and more than what comes
	// before a batch.
	noise := make([]byte, 24<<10)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	html := fmt.Sprintf("<!DOCTYPE html><html lang=en><title>Noise</title><main><h1>Noise</h1><p>%s</p></main></html>", hex.EncodeToString(noise))
	pair.Check(t, os.WriteFile(p.Page(0), []byte(html), 0o644))
	s := newSwallower(t, p.Address, 16<<10)
	p.Dial(s.Addr().String())
	pushed := make(chan error, 1)
	go func() {
		_, err := p.TryPush()
		pushed <- err
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, err := p.X.LogStatus()
		pair.Check(t, err)
		if status.Size == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the batch is not committed: %d entries, %d octets sent", status.Size, s.sent.Load())
		}
	}
	p.StopIndexer() // ends the connection, and with it the push
	if err := <-pushed; err == nil {
		t.Fatal("the answer was not swallowed")
	}
	p.StartIndexer()
	rotate(t, p, "search.test/indexer/2")
	r := p.Push()
	if len(r.Receipts) != 1 || r.Revision != 4 || r.WireOut > 16<<10 || r.TreeSize != 0 {
		t.Errorf("after the rotation: %+v", r) // a receipt came, and no page went
	}
	p.ReceiptsHold(2)
	p.Write(1, "second")
	if r := p.Push(); r.Sent != 1 || r.TreeSize != 1 {
		t.Errorf("in the new log: %+v", r)
	}
	p.ReceiptsHold(3)
	// Two rotations are met at once.
	rotate(t, p, "search.test/indexer/3")
	rotate(t, p, "search.test/indexer/4")
	if r := p.Push(); r.Sent != 0 || r.Deleted != 0 {
		t.Errorf("after two rotations: %+v", r)
	}
	p.Write(2, "third")
	if r := p.Push(); r.Sent != 1 || r.TreeSize != 1 {
		t.Errorf("in the fourth log: %+v", r)
	}
	p.ReceiptsHold(4)
	for i := range 3 {
		p.SamePage(i)
	}
}
