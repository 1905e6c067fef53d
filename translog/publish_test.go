package translog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func published(t *testing.T, v View) (*envelope.Object, Checkpoint) {
	t.Helper()
	var c Checkpoint
	o, err := envelope.Authenticate(v.Checkpoint.Raw, &c, envelope.Expecting(envelope.Checkpoint, testKeys{}, time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	if tree, err := OpenNote(v.Note, testVkey(t)); err != nil || tree != v.Tree || c.TreeSize != tree.Size || o.Sequence != tree.Size {
		t.Errorf("note %+v, artefact %+v, %v", tree, c, err)
	}
	return o, c
}

// TestPublishedCheckpointsAreChained follows the chain through commits that are
// not published, refreshes and restarts.
func TestPublishedCheckpointsAreChained(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	var firsts []envelope.Hash // object_id of the first at each size
	sizes := []uint64{0}
	o, c := published(t, r.Published())
	if c.TreeSize != 0 || !c.PreviousHash.IsZero() {
		t.Errorf("the first of all is %+v", c)
	}
	firsts = append(firsts, o.ID)
	for i := range 4 {
		r.grow(t, 1+i, true) // several commits, one publication
		if got := r.Published().Tree.Size; got != sizes[len(sizes)-1] {
			t.Errorf("published %d before its time", got)
		}
		r.publishNow(t)
		o, c = published(t, r.Published())
		if c.TreeSize != r.Released().Tree.Size || c.PreviousHash != firsts[len(firsts)-1] {
			t.Errorf("at %d: previous_hash %s, want %s", c.TreeSize, c.PreviousHash, firsts[len(firsts)-1])
		}
		sizes, firsts = append(sizes, c.TreeSize), append(firsts, o.ID)
		r.clock.Add(3599)
		r.publishNow(t)
		if again, _ := published(t, r.Published()); again.ID != o.ID {
			t.Error("refreshed before the hour")
		}
		r.clock.Add(1)
		r.publishNow(t)
		fresh, refresh := published(t, r.Published())
		if fresh.ID == o.ID || refresh.PreviousHash != c.PreviousHash || fresh.IssuedAt.Sub(o.IssuedAt) != time.Hour {
			t.Errorf("the refresh after an hour: %s, previous_hash %s", fresh.IssuedAt, refresh.PreviousHash)
		}
		if i%2 == 0 {
			r.close(t)
			var err error
			if r, err = tryOpen(d, r.clock.Load(), nil); err != nil {
				t.Fatal(err)
			}
			if same, _ := published(t, r.Published()); same.ID != fresh.ID {
				t.Error("a restart published something else")
			}
		}
	}
	for i, size := range sizes {
		raw, err := r.store.Get(publishedKey(size))
		if err != nil {
			t.Fatal(err)
		}
		if o, _, err := parseCheckpoint(raw); err != nil || o.ID != firsts[i] {
			t.Errorf("kept for size %d: %v, %v", size, o, err)
		}
	}
	r.close(t)
}

func TestAGrowingLogPublishesByItself(t *testing.T) {
	r := open(t, durabletest.New(), func(c *Config) { c.Publish = time.Millisecond })
	defer r.close(t)
	r.grow(t, 2, true)
	for deadline := time.Now().Add(10 * time.Second); r.Published().Tree.Size != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was published")
		}
	}
}

func TestCloseThenOpenPublishesTheRest(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 5, true)
	crashed := d.Crash(random(1), 0)
	r.close(t)
	r = open(t, d, nil)
	if got := r.Published().Tree.Size; got != 5 {
		t.Errorf("published after a clean end: %d, want 5", got)
	}
	r.close(t)
	r = open(t, crashed, nil)
	if got := r.Published().Tree.Size; got != 0 || r.Released().Tree.Size != 5 {
		t.Errorf("published after a crash: %d", got)
	}
	r.publishNow(t)
	if _, c := published(t, r.Published()); c.TreeSize != 5 {
		t.Errorf("then %d", c.TreeSize)
	}
	r.close(t)
}

// TestAQuietLogIsRefreshedHourly lets a log run by itself, on a clock that jumps
// from one event to the next.
func TestAQuietLogIsRefreshedHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, durabletest.New(), func(c *Config) { c.Now, c.Publish = time.Now, 0 })
		defer r.close(t)
		passes := func(d time.Duration) (size uint64, at time.Time) {
			time.Sleep(d)
			synctest.Wait()
			v := r.Published()
			return v.Tree.Size, v.Checkpoint.IssuedAt
		}
		_, begun := passes(0)
		for range 3 {
			r.grow(t, 2, true)
		}
		if size, _ := passes(998 * time.Millisecond); size != 0 {
			t.Errorf("published %d entries before the second was over", size)
		}
		size, first := passes(2 * time.Millisecond)
		if size != 6 || first.Before(begun) {
			t.Errorf("after a second: %d entries of %s", size, first)
		}
		last := first
		for range 3 {
			if _, at := passes(time.Until(last.Add(3598 * time.Second))); !at.Equal(last) {
				t.Errorf("refreshed at %s, within the hour after %s", at, last)
			}
			size, at := passes(4 * time.Second)
			if hour := at.Sub(last); size != 6 || hour < time.Hour || hour > time.Hour+2*time.Second {
				t.Errorf("refreshed after %s, with %d entries", hour, size)
			}
			last = at
		}
	})
}

// TestARefreshIsShownAtTheNewestOnly compares the three places at which a
// checkpoint is read, through growth and refreshes.
func TestARefreshIsShownAtTheNewestOnly(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	h := r.Handler()
	firsts := map[uint64][]byte{}
	rapid.Check(t, func(rt *rapid.T) {
		switch rapid.SampledFrom([]string{"grow", "publish", "refresh"}).Draw(rt, "step") {
		case "grow":
			r.grow(t, rapid.IntRange(1, 3).Draw(rt, "entries"), false)
		case "publish":
			r.publishNow(t)
		case "refresh":
			r.clock.Add(3600)
			r.publishNow(t)
		}
		v := r.Published()
		_, note := get(t, h, "/checkpoint")
		_, newest := get(t, h, "/signed-checkpoint.json")
		if string(note) != string(v.Note) || string(newest) != string(v.Checkpoint.Raw) {
			rt.Error("the newest checkpoint is not the one published last")
		}
		code, first := get(t, h, fmt.Sprintf("/signed-checkpoint/%d.json", v.Tree.Size))
		if known := firsts[v.Tree.Size]; code != 200 || known != nil && string(known) != string(first) {
			rt.Errorf("the first checkpoint of size %d is now another one: %d", v.Tree.Size, code)
		}
		firsts[v.Tree.Size] = first
		_, a, err := parseCheckpoint(first)
		_, b, bad := parseCheckpoint(newest)
		if err != nil || bad != nil || a.PreviousHash != b.PreviousHash || a.Root != b.Root {
			rt.Errorf("the newest at size %d names %s, the first %s; %v, %v", v.Tree.Size, b.PreviousHash, a.PreviousHash, err, bad)
		}
		for size, raw := range firsts {
			if _, again := get(t, h, fmt.Sprintf("/signed-checkpoint/%d.json", size)); string(again) != string(raw) {
				rt.Errorf("/signed-checkpoint/%d.json has changed", size)
			}
		}
	})
}

// TestEveryPublishedSizeIsServedWhole reads, for each tree that is published, all
// tiles and bundles of exactly that size, partial ones too, and computes its
// root from them alone. What was read once must read the same for ever.
func TestEveryPublishedSizeIsServedWhole(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	h, seen := r.Handler(), map[string]string{}
	read := func(rt *rapid.T, p tilePath) string {
		path := "/tile/" + p.String()
		code, b := get(t, h, path)
		if old, ok := seen[path]; code != 200 || ok && old != string(b) {
			rt.Fatalf("%s: %d, or it has changed", path, code)
		}
		seen[path] = string(b)
		return string(b)
	}
	published := []uint64{}
	rapid.Check(t, func(rt *rapid.T) {
		step := rapid.OneOf(rapid.IntRange(1, 4), rapid.IntRange(200, 300)).Draw(rt, "entries")
		if r.Released().Tree.Size > 600 {
			step = 1
		}
		r.commit(t, &proposal{opaque: entriesOf(step)})
		r.publishNow(t)
		published = append(published, r.Published().Tree.Size)
		// Any size that was ever published, and not only the newest.
		size := rapid.SampledFrom(published).Draw(rt, "size")
		hashes := make([]byte, 0, 32*size)
		for at := uint64(0); at < size; at += tileWidth {
			p := tilePath{0, at / tileWidth, int(min(tileWidth, size-at))}
			hashes = append(hashes, read(rt, p)...)
			p.level = entriesLevel
			checkBundle(rt, []byte(read(rt, p)), hashes[32*at:])
		}
		for level := 1; size>>(level*tileHeight) > 0; level++ {
			n := size >> (level * tileHeight)
			for at := uint64(0); at < n; at += tileWidth {
				above := read(rt, tilePath{level, at / tileWidth, int(min(tileWidth, n-at))})
				for i := range len(above) / 32 {
					if below := seen["/tile/"+(tilePath{level - 1, at + uint64(i), tileWidth}).String()]; above[32*i:32*i+32] != string(foldTile([]byte(below))) {
						rt.Fatalf("hash %d at level %d is not that of the tile below it", at+uint64(i), level)
					}
				}
			}
		}
		want, err := r.Published().RootAt(size)
		if got := rootOver(hashes); err != nil || got != want {
			rt.Fatalf("the tiles of size %d have the root %x, the log %x, %v", size, got, want, err)
		}
	})
}

// entriesOf makes n entries of any octets.
func entriesOf(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = fmt.Appendf(nil, "entry %d of %d", i, n)
	}
	return all
}

// checkBundle compares the entries of a bundle with the hashes of its tile.
func checkBundle(t *rapid.T, bundle, hashes []byte) {
	for len(bundle) >= 2 && len(hashes) >= 32 {
		n := 2 + int(binary.BigEndian.Uint16(bundle))
		if h := LeafHash(bundle[2:n]); string(h[:]) != string(hashes[:32]) {
			t.Fatal("an entry does not hash to its place in the tile")
		}
		bundle, hashes = bundle[n:], hashes[32:]
	}
	if len(bundle) != 0 || len(hashes) != 0 {
		t.Fatalf("%d octets and %d hashes are left over", len(bundle), len(hashes)/32)
	}
}

// rootOver is the root of RFC 6962 2.1, written down once more.
func rootOver(hashes []byte) [32]byte {
	n := len(hashes) / 32
	switch n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return [32]byte(hashes)
	}
	k := 1
	for 2*k < n {
		k *= 2
	}
	left, right := rootOver(hashes[:32*k]), rootOver(hashes[32*k:])
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}
