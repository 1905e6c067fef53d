package arc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A mirror is a folder with what is held of a source: a listing, and state.json,
// which names it. The listing's file is complete and synced before state.json
// names it, and state.json is replaced as a whole, so that whenever the machine
// stops the mirror is as it was or as it was to become. All of it can be had anew
// from the source.
type mirror struct {
	dir   string
	state mirrorState
}

const mirrorVersion = "arc-mirror/1"

// mirrorState is state.json.
type mirrorState struct {
	Version string `json:"version"`
	Next    uint64 `json:"next"`    // number of the next listing
	Entries string `json:"entries"` // file of the listing; empty before the first
	Head    Head   `json:"head"`    // of the sitemap, with the time of the last delta
	// Sitemap is the URL that the listing was read from; Held what its server said
	// of that body, and Full when it was last asked for as a whole.
	Sitemap string               `json:"sitemap"`
	Held    validators           `json:"held"`
	Full    time.Time            `json:"full,omitzero"`
	Deltas  map[string]heldDelta `json:"deltas,omitempty"` // by URL, of the last days
}

// validators are what a server said about a body that is held.
type validators struct {
	ETag     string    `json:"etag,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
}

// A heldDelta is one that has been applied, and until when it reaches.
type heldDelta struct {
	validators
	Generated time.Time `json:"generated"`
}

// openMirror reads the mirror in dir, or begins one. A state that cannot be read
// is thrown away.
func openMirror(dir string) (*mirror, *listing, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	m := &mirror{dir: dir}
	b, err := os.ReadFile(m.path("state.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	var l *listing
	if err == nil && json.Unmarshal(b, &m.state) == nil && m.state.Version == mirrorVersion && isListing(m.state.Entries) {
		l, err = openListing(m.path(m.state.Entries))
	}
	if l == nil || err != nil {
		m.state, l = mirrorState{}, nil
	}
	m.state.Version = mirrorVersion
	return m, l, m.sweep()
}

func (m *mirror) path(name string) string { return filepath.Join(m.dir, name) }

// isListing recognises the files of listings.
func isListing(name string) bool {
	digits, ok := strings.CutPrefix(name, "entries-")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// sweep removes listings that the state does not name, and drafts.
func (m *mirror) sweep() error {
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := f.Name()
		if name == m.state.Entries || !isListing(name) && !strings.HasPrefix(name, "draft-") {
			continue
		}
		if err := os.Remove(m.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// adopt makes a draft the listing that counts.
func (m *mirror) adopt(d *draft, state mirrorState, double func(url string)) (*listing, error) {
	state.Version, state.Next = mirrorVersion, m.state.Next+1
	state.Entries = fmt.Sprintf("entries-%d", m.state.Next)
	if err := d.finish(m.path(state.Entries), double); err != nil {
		return nil, err
	}
	l, err := openListing(m.path(state.Entries))
	if err != nil {
		return nil, err
	}
	m.state = state
	if err := m.save(); err != nil {
		l.release()
		return nil, err
	}
	return l, m.sweep()
}

// save makes the state durable.
func (m *mirror) save() error {
	b, err := json.MarshalIndent(m.state, "", " ")
	if err != nil {
		return err
	}
	return durable.WriteFile(m.path("state.json"), append(b, '\n'), 0o600)
}

// A heldPage is a page that was read from its server, and whose entry has no
// checksum to tell by whether it has changed.
type heldPage struct {
	validators
	Sum     string    `json:"sum"` // SHA-256 of the body
	LastMod time.Time `json:"lastmod,omitzero"`
}

// pageCache is pages.json. What it says of a page counts only if the caller holds
// the page that it speaks of, so it may be lost, and may run ahead of the caller.
type pageCache struct {
	cacheMu sync.Mutex
	pages   map[string]heldPage // by URL; at most maxCached
	changed bool
}

const maxCached = 100_000

func (m *mirror) openCache() *pageCache {
	c := &pageCache{pages: make(map[string]heldPage)}
	b, err := os.ReadFile(m.path("pages.json"))
	if err != nil || json.Unmarshal(b, &c.pages) != nil || c.pages == nil {
		c.pages = make(map[string]heldPage)
	}
	return c
}

func (c *pageCache) lookup(url string) (heldPage, bool) {
	c.cacheMu.Lock()
	defer c.cacheMu.Unlock()
	h, ok := c.pages[url]
	return h, ok
}

func (c *pageCache) keep(url string, h heldPage) {
	c.cacheMu.Lock()
	defer c.cacheMu.Unlock()
	if _, has := c.pages[url]; !has && len(c.pages) >= maxCached {
		return
	}
	c.pages[url], c.changed = h, true
}

// save writes the cache, without the pages that are listed no more.
func (c *pageCache) save(m *mirror, l *listing) error {
	c.cacheMu.Lock()
	defer c.cacheMu.Unlock()
	for url := range c.pages {
		if _, ok := l.find(url); !ok {
			delete(c.pages, url)
			c.changed = true
		}
	}
	if !c.changed {
		return nil
	}
	b, err := json.Marshal(c.pages)
	if err != nil {
		return err
	}
	c.changed = false
	return durable.WriteFile(m.path("pages.json"), b, 0o600)
}
