package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/transparency-dev/tessera/client"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

const (
	// maxAnswer is larger than any entry bundle.
	maxAnswer = 32 << 20
	patience  = 10 * time.Second
	// between is the time between looks at the checkpoint.
	between = 50 * time.Millisecond
)

// A watcher reads a log over HTTP and believes nothing that is not proven.
type watcher struct {
	root   *url.URL
	client *http.Client
	tiles  *client.HTTPFetcher // of Tessera: code that does not know ours
	vkey   string
	tally  *tally

	latest   atomic.Pointer[translog.Tree] // stored by follow alone
	acks     acknowledged
	receipts chan translog.Tree // what commits returned; full is full
}

func newWatcher(address, vkey string, readers int, t *tally) (*watcher, error) {
	root, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	root = root.JoinPath("/")
	c := &http.Client{
		Timeout:   patience,
		Transport: bounded{&http.Transport{MaxIdleConnsPerHost: readers + 1, ResponseHeaderTimeout: patience}},
	}
	tiles, err := client.NewHTTPFetcher(root, c)
	if err != nil {
		return nil, err
	}
	return &watcher{root: root, client: c, tiles: tiles, vkey: vkey, tally: t, receipts: make(chan translog.Tree, 64)}, nil
}

// bounded cuts answers off at maxAnswer.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		a.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(a.Body, maxAnswer), a.Body}
	}
	return a, err
}

// watch follows and reads for that long.
func (w *watcher) watch(ctx context.Context, d time.Duration, readers int) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	defer w.client.CloseIdleConnections()
	var wg sync.WaitGroup
	wg.Go(func() { w.follow(ctx) })
	for range readers {
		wg.Go(func() { w.read(ctx) })
	}
	wg.Wait()
}

// failed counts what went wrong with a request. What a signed checkpoint
// covers has to be there: then "not found" is a contradiction. At the end
// requests are cut off, which says nothing.
func (w *watcher) failed(ctx context.Context, op int, what string, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, os.ErrNotExist):
		w.tally.accuse("%s: covered by a checkpoint, and not there: %v", what, err)
	default:
		w.tally.fail(op, fmt.Errorf("%s: %w", what, err))
	}
}

// read picks entries at random, or such as were acknowledged, and verifies them
// in two ways.
func (w *watcher) read(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		t := w.latest.Load()
		if t == nil || t.Size == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(between):
			}
			continue
		}
		index := rand.Uint64N(t.Size)
		hash, known := [32]byte{}, false
		if turn%4 < 2 { // one half of what is read was acknowledged to somebody
			if a, ok := w.acks.pick(); ok && a.index < t.Size {
				index, hash, known = a.index, a.hash, true
			}
		}
		began := time.Now()
		check, op := w.byTiles, opBundle
		if turn%2 == 1 {
			check, op = w.byProof, opProof
		}
		got, ok := check(ctx, *t, index)
		if !ok {
			continue
		}
		if known && got != hash {
			w.tally.accuse("entry %d is another than the one that was acknowledged there", index)
			continue
		}
		w.tally.did(op, began)
	}
}

// byTiles takes an entry out of its bundle, and proves it by tiles.
func (w *watcher) byTiles(ctx context.Context, t translog.Tree, index uint64) (hash [32]byte, ok bool) {
	number := index / layout.EntryBundleWidth
	raw, err := w.tiles.ReadEntryBundle(ctx, number, layout.PartialTileSize(0, number, t.Size))
	if err != nil {
		w.failed(ctx, opBundle, fmt.Sprintf("bundle %d", number), err)
		return hash, false
	}
	var bundle api.EntryBundle
	if err := bundle.UnmarshalText(raw); err != nil || index%layout.EntryBundleWidth >= uint64(len(bundle.Entries)) {
		w.tally.accuse("bundle %d has %d entries under size %d (%v)", number, len(bundle.Entries), t.Size, err)
		return hash, false
	}
	hash = translog.LeafHash(bundle.Entries[index%layout.EntryBundleWidth])
	path, err := w.pathOf(t.Size, func(p *client.ProofBuilder) ([][]byte, error) { return p.InclusionProof(ctx, index) })
	if err != nil {
		w.failed(ctx, opBundle, fmt.Sprintf("tiles for entry %d", index), err)
		return hash, false
	}
	if err := translog.VerifyInclusion(index, t.Size, hash, path, t.Root); err != nil {
		w.tally.accuse("by tiles: %v", err)
		return hash, false
	}
	return hash, true
}

// byProof fetches an entry by itself, and the proof that the log makes for it.
func (w *watcher) byProof(ctx context.Context, t translog.Tree, index uint64) (hash [32]byte, ok bool) {
	raw, err := w.get(ctx, fmt.Sprintf("entry/%d.json", index))
	if err == nil {
		hash = translog.LeafHash(raw)
		raw, err = w.get(ctx, fmt.Sprintf("proof/inclusion?index=%d&size=%d", index, t.Size))
	}
	if err != nil {
		w.failed(ctx, opProof, fmt.Sprintf("entry %d", index), err)
		return hash, false
	}
	var p translog.InclusionProof
	err = json.Unmarshal(raw, &p)
	if err == nil && p.Index != index {
		err = fmt.Errorf("a proof for entry %d", p.Index)
	}
	if err == nil {
		err = p.Verify(hash, t)
	}
	if err != nil {
		w.tally.accuse("by the served proof: entry %d: %v", index, err)
		return hash, false
	}
	return hash, true
}

// pathOf is what Tessera's client makes out of tiles for a tree of that size.
func (w *watcher) pathOf(size uint64, build func(*client.ProofBuilder) ([][]byte, error)) ([][32]byte, error) {
	p, err := client.NewProofBuilder(context.Background(), size, w.tiles.ReadTile)
	if err != nil {
		return nil, err
	}
	hashes, err := build(p)
	if err != nil {
		return nil, err
	}
	path := make([][32]byte, len(hashes))
	for i, h := range hashes {
		if len(h) != len(path[i]) {
			return nil, fmt.Errorf("a hash of %d octets", len(h))
		}
		path[i] = [32]byte(h)
	}
	return path, nil
}

// get fetches a path of the log.
func (w *watcher) get(ctx context.Context, path string) ([]byte, error) {
	target, err := w.root.Parse(path)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	a, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close() // it was read to its end
	body, err := io.ReadAll(a.Body)
	switch {
	case err != nil:
		return nil, err
	case a.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", path, os.ErrNotExist)
	case a.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d: %.80s", path, a.StatusCode, bytes.TrimSpace(body))
	}
	return body, nil
}
