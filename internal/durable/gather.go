package durable

import (
	"bufio"
	"cmp"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gatherBytes is how much of a table, or of a file of values, is written at once. Pebble
// writes block by block, of a few kilobytes when they are compressed, and for each the system would
// take memory, look the file up and note what is to be written.
const gatherBytes = 128 << 10

// A gatheringFile is written from its beginning to its end, and read when it is closed.
// What it still holds is written before it is synced or closed.
type gatheringFile struct {
	vfs.File
	w *bufio.Writer
}

var gatherers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, gatherBytes) }}

// gathers reports whether the file of that name is one of those.
func gathers(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

func gathering(f vfs.File) vfs.File {
	w := gatherers.Get().(*bufio.Writer)
	w.Reset(f)
	return &gatheringFile{f, w}
}

func (f *gatheringFile) Write(p []byte) (int, error) { return f.w.Write(p) }

func (f *gatheringFile) Sync() error { return cmp.Or(f.w.Flush(), f.File.Sync()) }

func (f *gatheringFile) SyncData() error { return cmp.Or(f.w.Flush(), f.File.SyncData()) }

func (f *gatheringFile) SyncTo(length int64) (full bool, err error) {
	if err := f.w.Flush(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

func (f *gatheringFile) Close() error {
	err := f.w.Flush()
	f.w.Reset(nil)
	gatherers.Put(f.w)
	f.w = nil
	return cmp.Or(err, f.File.Close())
}
