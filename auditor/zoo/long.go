package zoo

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Long is an honest log of n entries, in which a hundred series take turns.
//
// Its entries lie outside of the heap, as they are served: to serve them is a copy into
// the connection, as it is for files.
func Long(t testing.TB, indexer *identity.Local, n int, now time.Time) *Log {
	t.Helper()
	script := NewScript(indexer, now.Add(-time.Duration(n+1000)*time.Second))
	script.every = time.Second // a million of them are not older than the key
	var all []Grant
	for i := range 100 {
		g := Grant{Series: string(rune('A' + i)), Name: string(rune('A' + i)), Life: 1 << 60}
		script.Journal(g, 7)
		script.Batch(g, 10, Part{translog.Include, 10})
		all = append(all, g)
	}
	for i := 0; len(script.Drafts) < n; i++ {
		script.Batch(all[i%len(all)], 3, Part{translog.Update, 3})
	}
	l := New(t, indexer, script.Drafts, []uint64{0, 0}, now, Lie{})
	size := 0
	for _, raw := range l.Entries {
		size += 2 + len(raw)
	}
	room, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Entries, l.bundles, l.starts = nil, nil, nil
		if err := syscall.Munmap(room); err != nil {
			t.Error(err)
		}
	})
	at := 0
	for i, raw := range l.Entries {
		l.starts = append(l.starts, at)
		binary.BigEndian.PutUint16(room[at:], uint16(len(raw)))
		end := at + 2 + copy(room[at+2:], raw)
		l.Entries[i], at = room[at+2:end:end], end
	}
	l.bundles, l.starts = room, append(l.starts, at)
	return l
}
