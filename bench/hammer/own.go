package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/peer"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// hammerOwn opens a log in dir, serves its public side on the loopback
// interface, and hammers it.
func hammerOwn(ctx context.Context, dir string, o options, t *tally) (err error) {
	own, err := peer.OpenOurs(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: own.Handler(), ReadHeaderTimeout: patience, WriteTimeout: patience, IdleTimeout: patience}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		err = errors.Join(err, s.Close())
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}()
	w, err := newWatcher("http://"+l.Addr().String(), own.VerifierKey(), o.readers, t)
	if err != nil {
		return err
	}
	hammer(ctx, own, w, o)
	return nil
}

// hammer adds, reads and follows.
func hammer(ctx context.Context, own *peer.Ours, w *watcher, o options) {
	ctx, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	var wg sync.WaitGroup
	for i := range o.adders {
		wg.Go(func() { w.add(ctx, own, load.Entries(uint64(i), o.octets)) })
	}
	w.watch(ctx, o.duration, o.readers)
	wg.Wait()
}

// add commits one entry after the other. What a commit returns is held against
// the log at once, and now and then again later.
func (w *watcher) add(ctx context.Context, own *peer.Ours, next func() []byte) {
	for n := 0; ctx.Err() == nil; n++ {
		p := &peer.Opaque{Entry: next()}
		began := time.Now()
		if err := own.Commit(ctx, p); err != nil {
			if ctx.Err() == nil {
				w.tally.fail(opAdd, err)
			}
			return
		}
		w.tally.did(opAdd, began)
		if n%16 == 0 {
			if err := w.received(own, p); err != nil {
				w.tally.accuse("%v", err)
			}
		}
	}
}

// received checks what a commit says: a signed note of the tree, and a proof
// that the entry is in it, at once. Both go on to the readers.
func (w *watcher) received(own *peer.Ours, p *peer.Opaque) error {
	t, err := translog.OpenNote(p.Note, w.vkey)
	if err != nil {
		return err
	}
	if t != p.Tree {
		return fmt.Errorf("the note of a commit says %+v, the commit %+v", t, p.Tree)
	}
	hash := translog.LeafHash(p.Entry)
	path, err := own.Released().InclusionAt(p.Index, t.Size)
	if err != nil {
		return fmt.Errorf("entry %d was acknowledged and is not there: %w", p.Index, err)
	}
	if err := translog.VerifyInclusion(p.Index, t.Size, hash, path, t.Root); err != nil {
		return fmt.Errorf("right after its commit: %w", err)
	}
	w.acks.put(acknowledgement{p.Index, hash})
	w.offer(t)
	return nil
}

// An acknowledgement is an entry that somebody was told to be at index.
type acknowledgement struct {
	index uint64
	hash  [32]byte
}

// acknowledged keeps a sample of 65,536 acknowledgements, of any age.
type acknowledged struct {
	mu   sync.Mutex // guards kept
	kept []acknowledgement
}

func (a *acknowledged) put(k acknowledgement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) < 1<<16 {
		a.kept = append(a.kept, k)
		return
	}
	a.kept[rand.IntN(len(a.kept))] = k
}

func (a *acknowledged) pick() (acknowledgement, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) == 0 {
		return acknowledgement{}, false
	}
	return a.kept[rand.IntN(len(a.kept))], true
}
