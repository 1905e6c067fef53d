package publisher

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// TestAFullDiskLosesNothingAcknowledged: the ballast is given up, and the room ends in
// each commit in turn while requests are answered. What is opened then, on a disk with
// room, is what that left.
func TestAFullDiskLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	first := newCrashRun(t, 1) // the indexer asks for pages
	rng := rand.New(rand.NewPCG(1, 5))
	seen := make(map[string]int)
	for commits, ended := 0, true; ended; commits++ {
		c := first.again(t)
		disk := c.opens(durabletest.New())
		c.writeAll("first")
		results, err := c.push()
		check(t, err)
		c.report(results)
		for _, end := range roomEnds {
			disk.commits, disk.end, disk.rng = commits, end, rng
			var left string
			if disk, left = c.fillsUp(disk); left == "" {
				ended = false
				break
			}
			if seen[left]++; t.Failed() {
				t.Fatalf("the room ended in commit %d, %s; this left %s", commits, end.name, left)
			}
		}
		check(t, c.p.Close())
	}
	t.Logf("left behind: %v", seen)
	for _, left := range []string{leftNothing, leftUnsent, leftNoOctet, leftPart, leftLost, leftWhole} {
		if seen[left] == 0 {
			t.Errorf("no full disk left %s", left)
		}
	}
}

// A roomEnd is how the room of a disk ends in a commit. Of what was not synced then a
// loss of power leaves nothing, and the end of the process all.
type roomEnd struct {
	name     string
	part     func(octets int, rng *rand.Rand) int // of a write, that there is room for
	unsynced int                                  // percent that are left
}

var roomEnds = []roomEnd{
	{"with no octet of it written", func(int, *rand.Rand) int { return 0 }, 100},
	{"with a part of it written", func(octets int, rng *rand.Rand) int { return 1 + rng.IntN(max(1, octets-1)) }, 100},
	{"when it was synced, and it is lost", func(octets int, _ *rand.Rand) int { return octets }, 0},
	{"when it was synced, and it is kept", func(octets int, _ *rand.Rand) int { return octets }, 100},
}

// What a full disk leaves behind.
const (
	leftNothing = "no batch under way"
	leftUnsent  = "a batch that was not sent"
	leftNoOctet = "an answered batch, with no octet of its receipt"
	leftPart    = "an answered batch, with a part of its receipt"
	leftLost    = "an answered batch, with a receipt that was not synced"
	leftWhole   = "a receipt that was not reported"
)

// writeAll gives all three pages of the site new words.
func (c *crashRun) writeAll(words string) {
	for _, name := range []string{"a", "b", "c"} {
		c.write(name, words)
	}
}

// fillsUp has the room of a disk end while requests are answered, goes on from what is
// left, and says what that was; nothing if there was room for all.
func (c *crashRun) fillsUp(disk *lastRoom) (_ *lastRoom, left string) {
	t, f := c.t, c.fake
	t.Helper()
	c.writeAll(disk.end.name)
	f.mu.Lock()
	batches := f.batches
	f.freshLie = func(*oiv1.FreshnessAck) { disk.begin() } // all is signalled, and nothing asked for yet
	f.mu.Unlock()
	results, err := c.push()
	if err == nil {
		c.report(results)
		if err := c.p.Close(); err != nil && !errors.Is(err, durable.ErrFailed) {
			t.Errorf("Close = %v", err)
		}
		next := c.opens(disk.disk.Crash(disk.rng, disk.end.unsynced))
		c.settled(3)
		c.holds()
		return next, ""
	}
	if !errors.Is(err, durable.ErrFailed) || !durable.IsFull(err) {
		t.Errorf("push = %v", err)
	}
	if d := c.p.store.Disk(); d.Released != 1 || d.Ballast != 0 || c.p.Ready() == nil {
		t.Errorf("%+v, Ready = %v", d, c.p.Ready())
	}
	if _, err := c.push(); !errors.Is(err, durable.ErrFailed) {
		t.Errorf("another push = %v", err)
	}
	if err := c.p.Close(); !errors.Is(err, durable.ErrFailed) {
		t.Errorf("Close = %v", err)
	}
	given := c.given()
	for _, r := range results {
		for _, id := range r.Receipts {
			c.reported[id] = given[id]
		}
	}
	f.mu.Lock()
	f.freshLie = nil
	f.mu.Unlock()

	next := c.opens(disk.disk.Crash(disk.rng, disk.end.unsynced))
	c.holds()
	left, lost := c.left(disk)
	results, err = c.push()
	check(t, err)
	if r := results[0]; lost != nil && (len(r.Receipts) == 0 || !bytes.Equal(c.given()[r.Receipts[0]], lost)) {
		t.Errorf("a batch under way is not settled by its receipt: %+v", r)
	}
	c.settled(3)
	c.reported = c.given()
	c.holds()
	results, err = c.push()
	check(t, err)
	f.mu.Lock()
	batches = f.batches - batches
	f.mu.Unlock()
	// The fake takes what it asks for alone, and asks for two pages at once.
	if r := results[0]; batches != 2 || r.Sent+r.Signalled+len(r.Receipts) != 0 {
		t.Errorf("%d batches, and then %+v", batches, r)
	}
	return next, left
}

// left says what a full disk has left behind, and gives the receipt that a batch under
// way has and that is not stored.
func (c *crashRun) left(disk *lastRoom) (left string, lost []byte) {
	t, f := c.t, c.fake
	t.Helper()
	p, err := agreement{c.p.store, c.rel}.pending(c.p.store)
	check(t, err)
	if p != nil {
		manifest, err := envelope.Parse(p.Manifest)
		check(t, err)
		f.mu.Lock()
		lost = f.answered[manifest.ID].GetCommitted().GetReceipt()
		f.mu.Unlock()
	}
	if _, err := c.p.ReceiptFile(c.cursor().Receipt); err != nil {
		t.Errorf("the cursor's receipt: %v", err)
	}
	given, stored, reported := len(c.given()), c.receipts(), len(c.reported)
	switch {
	case given == stored && p == nil && stored == reported:
		return leftNothing, nil
	case given == stored && p == nil && stored == reported+1:
		return leftWhole, nil
	case given == stored && p != nil && lost == nil:
		return leftUnsent, nil
	case given == stored+1 && lost != nil && disk.kept == 0:
		return leftNoOctet, lost
	case given == stored+1 && lost != nil && disk.kept < disk.most:
		return leftPart, lost
	case given == stored+1 && lost != nil:
		return leftLost, lost
	}
	t.Fatalf("%d receipts were given, %d are stored, %d were reported; under way is %+v", given, stored, reported, p)
	return "", nil
}

// opens opens the publisher on a disk with room, and gives the disk.
func (c *crashRun) opens(d *durabletest.Disk) *lastRoom {
	c.t.Helper()
	disk := &lastRoom{FS: d.FS(), disk: d, ballast: filepath.Join(c.dir, "store.ballast")}
	var err error
	c.p, err = Open(Config{
		Dir: c.dir, Now: func() time.Time { return c.s.Now }, FS: disk,
		Room: durable.Room{Ballast: 64 << 10, LowWater: 1 << 20, Every: time.Millisecond},
	})
	check(c.t, err)
	c.p.public = nil // what it writes comes at any time
	return disk
}

// given is every receipt that the indexer has signed.
func (c *crashRun) given() map[envelope.Hash][]byte {
	c.t.Helper()
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	all := make(map[envelope.Hash][]byte)
	for _, r := range c.fake.answered {
		o, err := envelope.Parse(r.Committed.Receipt)
		check(c.t, err)
		all[o.ID] = o.Raw
	}
	return all
}

// A lastRoom is a disk that is full from begin on. Its ballast makes room for so many
// commits, and for a part of the next.
type lastRoom struct {
	durable.FS
	disk    *durabletest.Disk
	ballast string
	end     roomEnd
	rng     *rand.Rand

	mu      sync.Mutex // guards what follows
	commits int
	full    bool
	ended   bool
	most    int // octets that the last commit was to write
	kept    int // of them, those that were written
}

func (r *lastRoom) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = true
	r.disk.SetFree(0)
	r.disk.OnWrite(func(_ int64, op, path string) error {
		if op != durabletest.OpSync || !strings.HasSuffix(path, ".log") {
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.commits--; r.commits >= 0 {
			return nil
		}
		r.ended = true
		return durabletest.ENOSPC
	})
}

// fits is how many octets of a write there is room for.
func (r *lastRoom) fits(octets int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.full {
		return octets
	}
	if _, err := r.disk.Size(r.ballast); err == nil || r.ended {
		return 0
	}
	if r.commits > 0 {
		return octets
	}
	n := r.end.part(octets, r.rng)
	r.most, r.kept, r.ended = r.most+octets, r.kept+n, n < octets
	return n
}

func (r *lastRoom) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.Create(name, c)
	return lastFile{f, r}, err
}

func (r *lastRoom) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.ReuseForWrite(from, to, c)
	return lastFile{f, r}, err
}

type lastFile struct {
	vfs.File
	room *lastRoom
}

func (f lastFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:f.room.fits(len(p))])
	if err == nil && n < len(p) {
		err = durabletest.ENOSPC
	}
	return n, err
}
