package thirdparty

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

const (
	origin  = "log.example/thirdparty"
	indexer = envelope.Name("spiffe://indexer.example/one")
)

// sizes at which the log is published and read.
var sizes = []int64{1, 255, 256, 257, 600}

// A running is a log behind an HTTP server.
type running struct {
	log  *translog.Log
	url  string
	vkey string
}

func run(t *testing.T) *running {
	t.Helper()
	dir := t.TempDir()
	quiet := slog.New(slog.DiscardHandler)
	store, err := durable.Open(filepath.Join(dir, "store"), durable.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := envelope.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := translog.Open(translog.Config{
		Store: store, Dir: dir, Origin: origin, Indexer: indexer, Authority: indexer.Authority(), Epoch: 1,
		Signer: signer, NoteKey: ed25519.NewKeyFromSeed([]byte("a seed of 32 octets, for a test.")),
		Publish: time.Hour, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(l.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := errors.Join(l.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return &running{l, server.URL, l.VerifierKey()}
}

// step is how many entries are committed at once.
const step = 8192

// growTo commits entries until the log has size, and publishes that.
func (r *running) growTo(t *testing.T, size int64) {
	t.Helper()
	ctx := context.Background()
	for n := size - int64(r.log.Released().Tree.Size); n > 0; n -= step {
		if err := r.log.Commit(ctx, &proposal{n: min(n, step)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.log.Publish(ctx); err != nil {
		t.Fatal(err)
	}
	if got := r.log.Published().Tree.Size; got != uint64(size) {
		t.Fatalf("published %d, want %d", got, size)
	}
}

type proposal struct{ n int64 }

func (p *proposal) Prepare(tx *translog.Tx) error {
	for range p.n {
		i := tx.NextIndex()
		h := envelope.TaggedHash("thirdparty", []byte{byte(i >> 8), byte(i)})
		err := tx.Append("urn:uzpif-oi:rel:test", translog.Entry{
			BatchID: h, CollectionRef: h, Decision: translog.Include, From: i, GrantExpiresAt: envelope.At(tx.Now().Add(time.Hour)),
			GrantID: h, JournalEpoch: 1, Objects: translog.SetOf(nil), PolicyHash: h, Purposes: []string{"archive"},
			ScopeHash: h, State: h, Status: translog.Accepted, Through: i + 1,
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *proposal) Finish(*translog.Tx, *translog.Committed) error { return nil }
