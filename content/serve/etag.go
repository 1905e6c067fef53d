package serve

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// ETags makes the ETags of files of their octets, and remembers them as long as
// a file's time and size stay the same: who replaces a file must move its time
// on. The zero value is ready.
type ETags struct {
	etagsMu sync.Mutex
	etags   map[string]fileETag // by file name, at most maxETags
}

type fileETag struct {
	size     int64
	modified time.Time
	etag     string
}

const maxETags = 4096

// Open opens a regular file of a folder, outside of which nothing is ever opened, with
// what is known of it and its ETag, as Of makes it. What is no regular file is
// fs.ErrNotExist.
func (t *ETags) Open(dir *os.Root, name string, limit int64) (*os.File, fs.FileInfo, string, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, nil, "", err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	var etag string
	if err == nil {
		etag, err = t.Of(name, f, info, limit)
	}
	if err != nil {
		f.Close()
		return nil, nil, "", err
	}
	return f, info, etag, nil
}

// Of returns the ETag of a file's content, decompressed if its name ends in
// .gz: sha256- and 64 hexadecimal digits. It leaves the file at its start, and
// reads at most limit octets of content; more is an error.
func (t *ETags) Of(name string, f *os.File, info fs.FileInfo, limit int64) (string, error) {
	t.etagsMu.Lock()
	known := t.etags[name]
	t.etagsMu.Unlock()
	if known.etag != "" && known.size == info.Size() && known.modified.Equal(info.ModTime()) {
		return known.etag, nil
	}
	var content io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return "", err
		}
		content = z
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(content, limit+1))
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", fmt.Errorf("%s: more than %d octets", name, limit)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	known = fileETag{info.Size(), info.ModTime(), "sha256-" + hex.EncodeToString(h.Sum(nil))}
	t.etagsMu.Lock()
	defer t.etagsMu.Unlock()
	if len(t.etags) >= maxETags {
		clear(t.etags)
	}
	if t.etags == nil {
		t.etags = make(map[string]fileETag)
	}
	t.etags[name] = known
	return known.etag, nil
}
