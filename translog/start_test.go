package translog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func TestALogGoesOnWhereItStopped(t *testing.T) {
	d := durabletest.New()
	var shown []Tree
	for _, n := range []int{0, 1, 254, 1, 1, 300} {
		r := open(t, d, nil)
		if n > 0 {
			r.grow(t, n, false)
			r.publishNow(t)
		}
		shown = append(shown, r.Released().Tree)
		for _, old := range shown {
			if root, err := r.Released().RootAt(old.Size); err != nil || root != old.Root {
				t.Errorf("root at %d is now %x, %v", old.Size, root, err)
			}
		}
		r.close(t)
	}
	if last := shown[len(shown)-1].Size; last != 557 {
		t.Errorf("size %d", last)
	}
}

// onCopy opens the log on an earlier copy of the store, beside the newest mark.
func onCopy(t *testing.T, d *durabletest.Disk, change func(*Config)) (*rig, error) {
	t.Helper()
	s, err := durable.Open("/data/copy", durable.Options{FS: d.FS(), Logger: quiet, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{store: s, disk: d, clock: newClock(noon)}
	err = r.reopen(change)
	if err != nil {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	return r, err
}

func TestAnOlderStoreIsRefused(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 10, true)
	if err := r.store.Checkpoint("/data/copy"); err != nil {
		t.Fatal(err)
	}
	r.grow(t, 2, true)
	r.close(t)
	_, err := onCopy(t, d, nil)
	if !errors.Is(err, ErrRollback) {
		t.Fatalf("Open on a copy that lacks two entries = %v", err)
	}
	for _, part := range []string{"holds 10 entries", "a tree of 12", "Put the newest copy of the store back"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if _, err := onCopy(t, d, func(c *Config) { c.TrustStore = true }); !errors.Is(err, ErrRollback) {
		t.Errorf("the same, trusted = %v", err)
	}
}

func TestAnEmptyStoreBesideAMarkIsRefused(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 3, true)
	r.close(t)
	if _, err := onCopy(t, d, nil); !errors.Is(err, ErrRollback) {
		t.Errorf("Open on a new store = %v", err)
	}
	// Another log may begin there: it has a mark of its own.
	other, err := onCopy(t, d, func(c *Config) { c.Origin = "other.example/log" })
	if err != nil {
		t.Fatal(err)
	}
	other.close(t)
}

func TestAStoreThatWentAnotherWayIsRefused(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 5, true)
	if err := r.store.Checkpoint("/data/copy"); err != nil {
		t.Fatal(err)
	}
	r.grow(t, 1, true)
	r.close(t)
	// The copy goes on elsewhere, with a mark of its own.
	c, err := onCopy(t, d, func(c *Config) { c.Dir, c.TrustStore = "/elsewhere", true })
	if err != nil {
		t.Fatal(err)
	}
	c.commit(t, &proposal{opaque: [][]byte{[]byte("another entry"), []byte("and one more")}})
	c.close(t)
	if _, err := onCopy(t, d, nil); !errors.Is(err, ErrRollback) || !strings.Contains(err.Error(), "at size 6") {
		t.Errorf("Open = %v", err)
	}
}

// TestSilentlyLostCommitsAreFound: Pebble takes damage near the end of its log
// for an unclean end, and opens a shorter store.
func TestSilentlyLostCommitsAreFound(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 8, true)
	damaged := d.Crash(random(1), 0)
	r.close(t)
	names, err := damaged.List("/data/store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := "/data/store/" + name
		if size, err := damaged.Size(path); strings.HasSuffix(name, ".log") && err == nil && size > 4000 {
			if err := damaged.Damage(path, int(size)*3/4); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := tryOpen(damaged, noon, nil); !errors.Is(err, ErrRollback) {
		t.Errorf("Open = %v, want ErrRollback", err)
	}
}

func TestAMissingMarkIsRefusedUnlessTheStoreIsTrusted(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 3, true)
	r.close(t)
	if err := d.Remove("/data/marks/" + markFile(testVkey(t))); err != nil {
		t.Fatal(err)
	}
	if _, err := tryOpen(d, noon, nil); !errors.Is(err, ErrRollback) || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("Open = %v", err)
	}
	r = open(t, d, func(c *Config) { c.TrustStore = true })
	r.grow(t, 1, true)
	r.close(t)
	r = open(t, d, nil)
	r.close(t)
}

func TestAStoreKeepsItsLog(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.close(t)
	for name, change := range map[string]func(*Config){
		"another origin":    func(c *Config) { c.Origin = "other.example" },
		"another note key":  func(c *Config) { c.NoteKey = testKey(3) },
		"another indexer":   func(c *Config) { c.Indexer = "spiffe://indexer.example/two" },
		"another authority": func(c *Config) { c.Authority = "spiffe://other.example" },
	} {
		if _, err := tryOpen(d, noon, change); !errors.Is(err, ErrIdentity) {
			t.Errorf("with %s: %v", name, err)
		}
	}
	signer, err := envelope.NewSigner(testKey(4))
	if err != nil {
		t.Fatal(err)
	}
	r = open(t, d, func(c *Config) { c.Signer, c.Epoch = signer, 4 }) // these may change
	r.close(t)
	for name, change := range map[string]func(*Config){
		"no store":         func(c *Config) { c.Store = nil },
		"no signer":        func(c *Config) { c.Signer = nil },
		"no indexer":       func(c *Config) { c.Indexer = "" },
		"a short note key": func(c *Config) { c.NoteKey = c.NoteKey[:31] },
		"a bad origin":     func(c *Config) { c.Origin = "a b" },
	} {
		if _, err := tryOpen(d, noon, change); err == nil {
			t.Errorf("a log was opened with %s", name)
		}
	}
}

func TestAStoreHasOneLogAtATime(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	second := &rig{store: r.store, clock: r.clock}
	if err := second.reopen(nil); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second Open = %v", err)
	}
}

// TestDamageAtTheEdgeIsFoundAtStart changes each kind of row that a start rests
// on.
func TestDamageAtTheEdgeIsFoundAtStart(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	r.grow(t, 300, false)
	r.grow(t, 3, true)
	r.publishNow(t)
	good := map[string][]byte{}
	rows := map[string][]byte{
		"the identity":                        []byte(rowIdentity),
		"the checkpoint of the last commit":   []byte(rowHead + "o"),
		"its note":                            []byte(rowHead + "n"),
		"the checkpoint published last":       []byte(rowLatest + "o"),
		"its note, too":                       []byte(rowLatest + "n"),
		"the first one published at its size": publishedKey(303),
		"the last entry":                      entryKey(302),
		"an entry of the partial bundle":      entryKey(256),
		"an entry of the last full bundle":    entryKey(17),
		"the full tile":                       tileKey(0, 0),
	}
	for name, key := range rows {
		v, err := r.store.Get(key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		good[name] = v
	}
	if err := r.Log.Close(); err != nil {
		t.Fatal(err)
	}
	set := func(key, value []byte) {
		t.Helper()
		b := r.store.NewBatch()
		err := b.Set(key, value)
		if value == nil {
			err = b.Delete(key)
		}
		if err := errors.Join(err, b.Commit(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for name, key := range rows {
		flipped := slices.Clone(good[name])
		flipped[len(flipped)*2/3] ^= 1
		for how, value := range map[string][]byte{"changed": flipped, "missing": nil, "cut": good[name][:len(good[name])-1]} {
			set(key, value)
			if err := r.reopen(nil); err == nil {
				t.Errorf("the log opens with %s %s", name, how)
				if err := r.Log.Close(); err != nil {
					t.Fatal(err)
				}
			} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrIdentity) {
				t.Errorf("%s %s: %v", name, how, err)
			}
			set(key, good[name])
		}
	}
	set(entryKey(303), []byte("behind the end"))
	if err := r.reopen(nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with an entry behind the end: %v", err)
	}
	set(entryKey(303), nil)
	if err := r.reopen(nil); err != nil {
		t.Fatal(err)
	}
	r.close(t)
}

func TestAnotherFormatIsRefused(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	id, err := envelope.Canonical(identity{testIndexer.Authority(), nil, formatVersion + 1, testIndexer, testOrigin, testVkey(t)})
	if err != nil {
		t.Fatal(err)
	}
	b := r.store.NewBatch()
	if err := errors.Join(b.Set([]byte(rowIdentity), id), b.Commit(), b.Close()); err != nil {
		t.Fatal(err)
	}
	r.close(t)
	if _, err := tryOpen(d, noon, nil); !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), fmt.Sprint("format ", formatVersion+1)) {
		t.Errorf("Open = %v", err)
	}
}

// TestEachRefusalAtStartSaysWhatIsWrong spoils one thing that a start rests on
// at a time.
func TestEachRefusalAtStartSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*durable.Batch) error
		want  string
	}{
		{"an entry behind the tree", func(b *durable.Batch) error { return b.Set(entryKey(303), []byte("one more")) }, "an entry 4c65000000000000012f behind a tree of size 303"},
		{"an entry that is missing", func(b *durable.Batch) error { return b.Delete(entryKey(301)) }, "row 4c65000000000000012d is missing"},
		{"an entry of the last full bundle that is another", func(b *durable.Batch) error { return b.Set(entryKey(9), []byte("another")) }, "entry 9 is not what its tile says"},
		{"a tile of another length", func(b *durable.Batch) error { return b.Set(tileKey(0, 0), make([]byte, 31)) }, "has 31 octets"},
		{"an entry of the right edge that is another", func(b *durable.Batch) error { return b.Set(entryKey(300), []byte("another")) }, "the root"},
		{"no checkpoint of the last commit", func(b *durable.Batch) error { return b.Delete([]byte(rowHead + "n")) }, "checkpoint of the last commit"},
		{"no checkpoint published last", func(b *durable.Batch) error { return b.Delete([]byte(rowLatest + "o")) }, "the checkpoint published last"},
		{"no first checkpoint of the size published last", func(b *durable.Batch) error { return b.Delete(publishedKey(303)) }, "the first checkpoint published at size 303"},
		{"a gap in the chain of published checkpoints", func(b *durable.Batch) error { return b.Delete(publishedKey(300)) }, "the checkpoint published before size 303 is not"},
		{"no identity", func(b *durable.Batch) error { return b.Delete([]byte(rowIdentity)) }, `rows of a log, and no "Lf"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, durabletest.New(), nil)
			r.commit(t, &proposal{opaque: entriesOf(300)})
			r.publishNow(t)
			r.grow(t, 3, true)
			r.publishNow(t)
			b := r.store.NewBatch()
			if err := errors.Join(r.Log.Close(), tt.spoil(b), b.Commit(), b.Close()); err != nil {
				t.Fatal(err)
			}
			if err := r.reopen(nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want %q", err, tt.want)
			}
			if err := r.store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzMark(f *testing.F) {
	f.Add(mark{7, [32]byte{1}, newTime(noon), false}.bytes())
	f.Add(mark{7, [32]byte{1}, newTime(noon), true}.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseMark(b); err == nil && string(m.bytes()) != string(b) {
			t.Errorf("%x reads as %+v, which is written %x", b, m, m.bytes())
		}
	})
}
