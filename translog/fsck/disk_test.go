package fsck

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// TestDamageOfTheStoresFilesIsFound flips single bits of the files of a store
// that was closed: to open it fails, or the check finds it, or the log that is
// read is whole and the newest, since the octet was no part of it.
func TestDamageOfTheStoresFilesIsFound(t *testing.T) {
	r := newRig(t)
	r.grow(600)
	r.publish()
	o := r.options()
	o.Signatures = false
	want := tableOf(t, r.store)
	check(t, r.log.Close())
	check(t, r.store.Checkpoint("/data/flushed")) // so that tables are read, and no log alone
	check(t, r.store.Close())
	again, err := durable.Open("/data/store", durable.Options{FS: r.disk.FS(), Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	check(t, again.Close())
	names, err := r.disk.List("/data/store")
	check(t, err)
	rng := rand.New(rand.NewPCG(5, 6))
	found, harmless := 0, 0
	for _, name := range names {
		path := "/data/store/" + name
		size, err := r.disk.Size(path)
		check(t, err)
		if size == 0 || name == "LOCK" {
			continue
		}
		flips := 3
		if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob") {
			flips = 25
		}
		for range flips {
			at := rng.IntN(int(size))
			disk := r.disk.Crash(rng, 0)
			check(t, disk.Damage(path, at))
			switch damaged(t, disk, want, o) {
			case true:
				found++
			case false:
				harmless++
			}
		}
	}
	t.Logf("%d flips found, %d in what holds no row", found, harmless)
	if found < 15 {
		t.Errorf("only %d of %d flips are found: are any in the tables?", found, found+harmless)
	}
}

// damaged opens the store of a disk and checks it. Without a finding it must
// hold every row.
func damaged(t *testing.T, disk *durabletest.Disk, want table, o Options) bool {
	t.Helper()
	s, err := durable.OpenReadOnly("/data/store", durable.Options{FS: disk.FS(), Logger: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20})
	if err != nil {
		return true
	}
	defer s.Close()
	report, err := Store(t.Context(), s, o)
	if err != nil || !report.OK() {
		return true
	}
	got := tableOf(t, s)
	for i, row := range want {
		if i >= len(got) || string(got[i].Key) != string(row.Key) || string(got[i].Value) != string(row.Value) {
			t.Errorf("%s differs, and nothing is found", translog.ParseRowKey(row.Key))
			break
		}
	}
	return false
}
