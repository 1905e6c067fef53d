package peer

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
	"k8s.io/klog/v2"
)

// TesseraVersion is what go.mod requires.
const TesseraVersion = "v1.0.4"

// Tessera is the POSIX driver of github.com/transparency-dev/tessera.
type Tessera struct {
	appender *tessera.Appender
	shutdown func(context.Context) error
	await    *tessera.PublicationAwaiter
	cancel   context.CancelFunc
}

// TesseraSettings are those that matter for its speed; the rest is as Tessera
// has it.
type TesseraSettings struct {
	Batch      uint          // entries of a batch, at most
	Age        time.Duration // for which a batch waits to become full
	Checkpoint time.Duration // between published checkpoints; 100 ms at least
	Poll       time.Duration // between looks of the awaiter at the checkpoint
}

// String is how the settings are printed.
func (s TesseraSettings) String() string {
	return fmt.Sprintf("batch %d or %v, checkpoint every %v", s.Batch, s.Age, s.Checkpoint)
}

// OpenTessera begins a log in dir.
func OpenTessera(dir string, s TesseraSettings) (*Tessera, error) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	secret, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	driver, err := posix.New(ctx, posix.Config{Path: dir})
	if err != nil {
		cancel()
		return nil, err
	}
	options := tessera.NewAppendOptions().WithCheckpointSigner(signer).
		WithBatching(s.Batch, s.Age).WithCheckpointInterval(s.Checkpoint)
	a, shutdown, reader, err := tessera.NewAppender(ctx, driver, options)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Tessera{a, shutdown, tessera.NewPublicationAwaiter(ctx, reader.ReadCheckpoint, s.Poll), cancel}, nil
}

// Add waits until the entry is durable and integrated: the POSIX driver
// integrates a batch before it resolves the futures of its entries.
func (t *Tessera) Add(ctx context.Context, entry []byte) error {
	_, err := t.appender.Add(ctx, tessera.NewEntry(entry))()
	return err
}

// AddPublished waits until a published checkpoint covers the entry.
func (t *Tessera) AddPublished(ctx context.Context, entry []byte) error {
	_, _, err := t.await.Await(ctx, t.appender.Add(ctx, tessera.NewEntry(entry)))
	return err
}

// Close waits for what was added, and ends the appender.
func (t *Tessera) Close() error {
	defer t.cancel()
	return t.shutdown(context.Background())
}
