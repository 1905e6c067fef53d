package witnesses

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
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

// sizes at which the log is cosigned.
var sizes = []int64{1, 255, 256, 257, 600}

// A running is a log that is open.
type running struct {
	log  *translog.Log
	stop func() // may be called more than once
}

// runIn opens a log in a folder.
func runIn(t *testing.T, dir string, change func(*translog.Config)) *running {
	t.Helper()
	r, err := tryRun(t, dir, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	return r
}

func tryRun(t *testing.T, dir string, change func(*translog.Config)) (*running, error) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := durable.Open(filepath.Join(dir, "store"), durable.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := envelope.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	c := translog.Config{
		Store: store, Dir: dir, Origin: origin, Indexer: indexer, Authority: indexer.Authority(), Epoch: 1,
		Signer: signer, NoteKey: noteKey(), Publish: time.Hour, Logger: quiet,
	}
	if change != nil {
		change(&c)
	}
	l, err := translog.Open(c)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &running{l, sync.OnceFunc(func() {
		if err := errors.Join(l.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})}, nil
}

func noteKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte("a seed of 32 octets, for a test."))
}

func logVKey(t *testing.T) string {
	t.Helper()
	vkey, err := translog.VerifierKey(origin, noteKey().Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return vkey
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// growTo commits entries until the log has size, and publishes that.
func (r *running) growTo(t *testing.T, size int64) {
	t.Helper()
	ctx := context.Background()
	if err := r.log.Commit(ctx, &proposal{n: size - int64(r.log.Released().Tree.Size)}); err != nil {
		t.Fatal(err)
	}
	if err := r.log.Publish(ctx); err != nil {
		t.Fatal(err)
	}
}

// A proposal appends n entries; other words make others of them.
type proposal struct {
	n    int64
	word string
}

func (p *proposal) Prepare(tx *translog.Tx) error {
	for range p.n {
		i := tx.NextIndex()
		h := envelope.TaggedHash("thirdparty"+p.word, []byte{byte(i >> 8), byte(i)})
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
