package publisher

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// wordy is a text of so many octets.
func wordy(octets int) string { return strings.Repeat("many words ", octets/11) }

func TestALargePageTravelsAlone(t *testing.T) {
	x := newFixture(t)
	x.fake.alone = 64 << 10
	x.write("a", "first")
	x.write("b-large", wordy(300<<10))
	x.write("c-large", wordy(200<<10))
	x.write("d", "first")
	x.write("e", "first")
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 5 || len(r.Receipts) != 4 || len(r.Refused) != 0 {
		t.Errorf("%+v", r)
	}
	if x.fake.batches != 4 || x.fake.alones != 2 || len(x.fake.pages) != 5 || x.receipts() != 4 {
		t.Errorf("%d batches, %d of them with a page alone, %d pages", x.fake.batches, x.fake.alones, len(x.fake.pages))
	}
	if c := x.cursor(); c.Pages != 5 || c.State != rootOf(t, x.fake.pages) {
		t.Errorf("cursor %+v", c)
	}
	results, err = x.push()
	check(t, err)
	if len(results[0].Receipts) != 0 || x.fake.batches != 4 {
		t.Errorf("nothing changed: %+v", results[0])
	}
	x.write("c-large", wordy(250<<10))
	if _, err = x.push(); err != nil || x.fake.alones != 3 || x.receipts() != 5 {
		t.Errorf("an update: %d pages alone, %v", x.fake.alones, err)
	}
}

func TestAPageThatIsTooLargeIsNamedAndTheRestIsSent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		alone uint64
		fits  int // octets of text of the page that does fit
	}{
		{"to an indexer that takes pages alone", 64 << 10, 900 << 10},
		{"to an indexer that does not", 0, 900 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			x.fake.alone = tt.alone
			x.write("a", "first")
			x.write("b", wordy(1100<<10))
			x.write("c", wordy(tt.fits))
			x.write("d", "first")
			results, err := x.push()
			check(t, err)
			r := results[0]
			if r.Sent != 3 || len(r.Refused) != 1 || !strings.HasSuffix(r.Refused[0].URL, "/b.html") || r.Refused[0].Reason != string(grants.ErrOversize) {
				t.Errorf("sent %d, refused %v", r.Sent, r.Refused)
			}
		})
	}
	d := &drafter{limits: &oiv1.Limits{PageBytes: 1 << 50, AloneBytes: 1 << 50, BatchBytes: 1 << 50}}
	if d.maxPage() != largestPage {
		t.Errorf("an indexer may ask for pages of %d octets", d.maxPage())
	}
}

func TestAPageAloneThatIsLostIsSentAgain(t *testing.T) {
	x := newFixture(t)
	x.fake.alone = 64 << 10
	x.write("a-large", wordy(300<<10))
	x.fake.hangUp = true
	if _, err := x.push(); err == nil {
		t.Fatal("a push whose answer was lost succeeded")
	}
	_, err := x.push()
	check(t, err)
	if x.fake.batches != 1 || x.receipts() != 1 || x.cursor().Pages != 1 {
		t.Errorf("%d batches, cursor %+v", x.fake.batches, x.cursor())
	}
}

// A sink is a stream whose other side decompresses what comes, and keeps its hash.
type sink struct {
	batch *oiv1.Batch
	pipe  *io.PipeWriter
	last  bool
	most  int // octets of a chunk
}

func (k *sink) Recv() (*oiv1.IndexerFrame, error) { select {} }

func (k *sink) Send(f *oiv1.PublisherFrame) error {
	if f.GetBatch() != nil {
		k.batch = f.GetBatch()
		return nil
	}
	c := f.GetChunk()
	if k.last || len(c.Data) == 0 {
		return errors.New("a chunk behind the last, or one without an octet")
	}
	k.most = max(k.most, len(c.Data))
	if _, err := k.pipe.Write(c.Data); err != nil {
		return err
	}
	if k.last = c.Last; c.Last {
		return k.pipe.Close()
	}
	return nil
}

func TestALargePageIsSentInBoundedMemory(t *testing.T) {
	payload := make([]byte, 64<<20)
	state := [32]byte{1}
	for i := 0; i < len(payload); i += len(state) {
		if i%(1<<10) == 0 { // most of it shrinks
			state = sha256.Sum256(state[:])
		}
		copy(payload[i:], state[:])
	}
	r, w := io.Pipe()
	k := &sink{pipe: w}
	s := &session{welcome: &oiv1.Welcome{Limits: &oiv1.Limits{ChunkBytes: 1 << 20}}, credit: 1 << 30, wire: new(counter)}
	s.link = link.New[*oiv1.PublisherFrame, *oiv1.IndexerFrame](k, link.Options[*oiv1.PublisherFrame, *oiv1.IndexerFrame]{
		Heartbeat: time.Hour, Silence: time.Hour,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.link.Write(ctx)
	got := make(chan [32]byte, 1)
	go func() {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		h := sha256.New()
		if err == nil {
			_, err = io.Copy(h, d)
		}
		if err != nil {
			t.Error(err)
		}
		got <- [32]byte(h.Sum(nil))
	}()

	peak := watchHeap()
	list := []byte("the item")
	dr := &draft{alone: &alone{list, payload}, itemsBytes: len(list), rawBytes: len(list) + len(payload)}
	if err := s.sendAlone(ctx, "docs", &envelope.Object{Raw: []byte("{}")}, dr); err != nil {
		t.Fatal(err)
	}
	sum := <-got
	const bound = 56 << 20 // for both sides of the test, and less than the payload
	grown := peak()
	t.Logf("the heap grew by %d MiB", grown>>20)
	if grown > bound {
		t.Errorf("the heap grew by %d MiB, at most %d are meant", grown>>20, bound>>20)
	}
	if want := sha256.Sum256(bytes.Join([][]byte{list, payload}, nil)); sum != want {
		t.Error("something else came out")
	}
	if !k.batch.Alone || k.batch.FrameBytes != 0 || k.batch.RawBytes != uint64(dr.rawBytes) || k.most != mostChunk {
		t.Errorf("header %v, chunks of up to %d octets", k.batch, k.most)
	}
}

// watchHeap begins to watch; what it returns ends that, and gives by how much
// the heap was larger at most than now. The collector runs all the time.
func watchHeap() func() uint64 {
	read := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	start := read()
	var peak uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				peak = max(peak, read())
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return peak - min(peak, start)
	}
}
