package indexer

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// Bounds of what the exits hold of payloads, in octets: of frames that may be
// asked for again soon, and of all that is being opened at once.
const (
	sharedFrames  = 64 << 20
	openingFrames = 256 << 20
)

// A frameCache holds the decompressed frames that were read last. Many consumers read the
// same pages at the same time, and each of them page by page: a frame is opened once
// for all. What is here was let out by nobody yet: a reader asks its gate first.
type frameCache struct {
	opening *semaphore.Weighted

	// heldMu guards what follows.
	heldMu sync.Mutex
	held   map[frameName]*list.Element
	order  *list.List // the one that was asked for last comes first
	octets int
}

type frameName struct {
	sid     uint32
	segment uint64
}

type heldFrame struct {
	name  frameName
	frame []byte
}

func newFrameCache() *frameCache {
	return &frameCache{opening: semaphore.NewWeighted(openingFrames), held: make(map[frameName]*list.Element), order: list.New()}
}

func (f *frameCache) lookup(n frameName) ([]byte, bool) {
	f.heldMu.Lock()
	defer f.heldMu.Unlock()
	e, ok := f.held[n]
	if !ok {
		return nil, false
	}
	f.order.MoveToFront(e)
	return e.Value.(heldFrame).frame, true
}

func (f *frameCache) keep(n frameName, frame []byte) {
	f.heldMu.Lock()
	defer f.heldMu.Unlock()
	if _, ok := f.held[n]; ok || len(frame) > sharedFrames/4 {
		return
	}
	f.held[n] = f.order.PushFront(heldFrame{n, frame})
	f.octets += len(frame)
	for f.octets > sharedFrames {
		f.drop(f.order.Back())
	}
}

func (f *frameCache) drop(e *list.Element) {
	h := f.order.Remove(e).(heldFrame)
	delete(f.held, h.name)
	f.octets -= len(h.frame)
}

// forget drops every frame of a series: it is to be deleted.
func (f *frameCache) forget(sid uint32) {
	f.heldMu.Lock()
	defer f.heldMu.Unlock()
	for n, e := range f.held {
		if n.sid == sid {
			f.drop(e)
		}
	}
}

// sharedPayload is payloadOf by way of the frames that are held.
func (x *Indexer) sharedPayload(r durable.Reader, rec *seriesRecord, row *catalogueRow) ([]byte, error) {
	n := frameName{rec.SID, row.Segment}
	if row.File == 0 {
		if frame, ok := x.frames.lookup(n); ok {
			return row.payload(frame)
		}
	}
	weight := int64(row.Length)
	if row.File == 0 {
		weight = int64(min(x.cfg.Limits.BatchBytes+itemBytes, openingFrames/4))
	}
	if err := x.frames.opening.Acquire(context.Background(), min(weight, openingFrames)); err != nil {
		return nil, err
	}
	defer x.frames.opening.Release(min(weight, openingFrames))
	if row.File != 0 {
		return x.large.payload(x.keys, rec, row)
	}
	frame, err := x.frame(r, rec, row)
	if err != nil {
		return nil, err
	}
	x.frames.keep(n, frame)
	return row.payload(frame)
}

func urlHash(url string) [32]byte { return sha256.Sum256([]byte(url)) }
