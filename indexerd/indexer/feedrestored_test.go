package indexer

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestNeitherKeysNorBackupsGiveADeletedPageBack reads a known page out of a copy of
// store and keys from before a revocation, and out of nothing that is left of it.
func TestNeitherKeysNorBackupsGiveADeletedPageBack(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(3)
	url := urls(site, 3)[1]
	backup, other := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "whole")
	must[*Manifest](t)(r.x.Backup(t.Context(), backup, "test"))
	must[*Manifest](t)(r.x.Backup(t.Context(), other, "test"))
	c.close()
	f := r.feed()
	reader := f.consumer("spiffe://search.example/own", "search.index").subscribe("search.index", nil)
	reader.until("head")
	read := func(dir string) error {
		x, err := Open(Config{Dir: dir, Now: r.now, TrustStore: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.ownPayload(s.p.local.Name(), s.name, url)
		return errors.Join(x.Close(), err)
	}
	if err := read(other); err != nil {
		t.Errorf("the copy with its keys: %v", err)
	}
	keys := dataKeyFiles(t, other)
	for _, key := range keys {
		if fileWith(t, r.dir, key) == "" {
			t.Error("a data key is nowhere while its pages are held")
		}
	}
	s.p.settled(s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete)))
	reader.until("stop revoked")
	if _, err := r.x.ownPayload(s.p.local.Name(), s.name, url); !errors.Is(err, grants.ErrRevoked) {
		t.Errorf("the indexer itself: %v", err)
	}
	for _, key := range keys {
		if name := fileWith(t, r.dir, key); name != "" {
			t.Errorf("%s holds a data key of the series still", name)
		}
	}
	// The restored store, with the keys that are left.
	if err := os.RemoveAll(filepath.Join(backup, "keys", "data")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(backup, "keys", "data"), os.DirFS(filepath.Join(r.dir, "keys", "data"))); err != nil {
		t.Fatal(err)
	}
	if err := read(backup); !errors.Is(err, ErrNoDataKey) {
		t.Errorf("the restored store with the keys that are left: %v", err)
	}
	restoredTellsNothing(t, Config{Dir: backup, Now: r.now, TrustStore: true})
}

// restoredTellsNothing opens a store whose rows are from before a deletion: its feed
// ends, and names no page; nor does what exports and gateway read.
func restoredTellsNothing(t *testing.T, cfg Config) {
	t.Helper()
	x := must[*Indexer](t)(Open(cfg))
	defer x.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ops []string
	err := x.Feed(ctx, grants.SearchIndex, nil, false, func(it *FeedItem) error {
		ops = append(ops, it.Op)
		return nil
	})
	if err != nil || slices.Contains(ops, FeedPut) || len(ops) == 0 || ops[len(ops)-1] != FeedHead {
		t.Errorf("the restored store's feed is %v, %v", ops, err)
	}
	reading := must[*Reading](t)(x.Reading(grants.SearchIndex, false))
	defer reading.Close()
	offers := must[[]Offer](t)(reading.Offers())
	if len(offers) != 1 {
		t.Fatalf("%d series are offered of the restored store", len(offers))
	}
	for p, err := range reading.Pages(&offers[0]) {
		t.Errorf("the restored store's series has %v, %v", p, err)
	}
}

// dataKeyFiles are the contents of the files of data keys.
func dataKeyFiles(t *testing.T, dir string) (keys [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "keys", "data", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d data keys, %v", len(files), err)
	}
	for _, f := range files {
		keys = append(keys, must[[]byte](t)(os.ReadFile(f)))
	}
	return keys
}

// fileWith finds a file below dir that holds some octets.
func fileWith(t *testing.T, dir string, octets []byte) (name string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // the store has let it go
			return nil
		}
		if bytes.Contains(raw, octets) {
			name = path
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return name
}
