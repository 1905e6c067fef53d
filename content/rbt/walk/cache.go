package walk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A cache keeps documents of HTTPS roots between two walks, each for as long as
// it says itself (8.5). An empty folder keeps nothing. What cannot be read from
// it, or is not what was written, is fetched anew.
type cache struct {
	folder  string
	now     func() time.Time
	options rbt.Options
}

// A kept document is one file: a line of this, and the octets.
type kept struct {
	URL     string    `json:"url"`
	ETag    string    `json:"etag"`
	Fetched time.Time `json:"fetched"`
	Sum     string    `json:"sha256"`
}

// maxKept is how many documents are kept; beyond, all are forgotten.
const maxKept = 20_000

// document returns a document: the kept one without a request while it is fresh,
// after that if the server says that it has not changed.
func (c *cache) document(ctx context.Context, w *web, url string) ([]byte, error) {
	k, data, ok := c.lookup(url)
	if ok && c.now().Before(k.Fetched.Add(c.maxAge(data))) && !k.Fetched.After(c.now()) {
		return data, nil
	}
	cond := fetch.Conditions{Accept: "application/json, */*;q=0.1"}
	if ok {
		cond.ETag = k.ETag
	}
	r, err := w.get(ctx, url, cond, rbt.MaxManifest)
	if err != nil {
		return nil, err
	}
	if !r.notModified {
		k, data = kept{URL: url, ETag: r.etag}, r.data
	}
	k.Fetched = c.now().UTC()
	return data, c.keep(k, data)
}

// maxAge is how long a document is fresh. One that cannot be read never is.
func (c *cache) maxAge(data []byte) time.Duration {
	m, err := rbt.ParsePage(data, c.options)
	if err != nil {
		return 0
	}
	return m.Cache.MaxAge
}

func (c *cache) file(url string) string {
	name := sha256.Sum256([]byte(url))
	return filepath.Join(c.folder, hex.EncodeToString(name[:16])+".json")
}

func (c *cache) lookup(url string) (k kept, data []byte, ok bool) {
	if c.folder == "" {
		return kept{}, nil, false
	}
	text, err := os.ReadFile(c.file(url))
	if err != nil {
		return kept{}, nil, false
	}
	line, data, ok := bytes.Cut(text, []byte("\n"))
	if !ok || json.Unmarshal(line, &k) != nil || k.URL != url || k.Sum != fmt.Sprintf("%x", sha256.Sum256(data)) {
		return kept{}, nil, false
	}
	return k, data, true
}

// keep writes a document.
func (c *cache) keep(k kept, data []byte) error {
	if c.folder == "" {
		return nil
	}
	if names, err := os.ReadDir(c.folder); err == nil && len(names) >= maxKept {
		if err := os.RemoveAll(c.folder); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.folder, 0o700); err != nil {
		return err
	}
	k.Sum = fmt.Sprintf("%x", sha256.Sum256(data))
	line, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return durable.WriteFile(c.file(k.URL), slices.Concat(line, []byte("\n"), data), 0o600)
}
