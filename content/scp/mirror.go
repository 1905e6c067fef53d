package scp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A mirror is a folder with what is held of a source: the layers that were
// verified, and state.json, which says which of them count. A layer's files
// are complete and synced before state.json names them, and state.json is
// replaced as a whole: whenever the machine stops, the mirror is as it was or
// as it was to become (TestABrokenCollectionLeavesTheMirrorAsItWas). Its files
// are removed when no state names them any more.
type mirror struct {
	dir   string
	state mirrorState
	open  map[string]*layer // by name
}

// mirrorState is state.json.
type mirrorState struct {
	Version  string                   `json:"version"`
	Next     uint64                   `json:"next"` // number of the next layer
	Layers   []layerState             `json:"layers"`
	Sections map[string]*sectionState `json:"sections"`
	Known    map[string]validators    `json:"known"` // by URL, of what was fetched
	Rejected map[string]rejection     `json:"rejected"`
}

const mirrorVersion = "scp-mirror/2"

type layerState struct {
	Name      string    `json:"name"`
	Section   string    `json:"section"`
	Type      Type      `json:"type"` // or fallback
	Generated time.Time `json:"generated"`
	URL       string    `json:"url"`
	Identity  string    `json:"identity,omitempty"` // of a local file, what it holds
	Pages     int64     `json:"pages"`
	Size      int64     `json:"size"` // of its files
}

// fallback is the type of a layer that was read from web pages, because the
// collection could not be.
const fallback Type = "html"

type sectionState struct {
	Base    time.Time `json:"base"`
	Reached time.Time `json:"reached"`
	Fetched time.Time `json:"fetched"`
}

// validators are what a server said about a body that we hold.
type validators struct {
	ETag         string    `json:"etag,omitempty"`
	LastModified time.Time `json:"last_modified,omitzero"`
	// Fresh is until when Cache-Control says that it need not be asked for.
	Fresh time.Time `json:"fresh,omitzero"`
}

// A rejection remembers a broken collection, so that it is not fetched at
// every reading.
type rejection struct {
	Generated time.Time `json:"generated"`
	At        time.Time `json:"at"`
}

// openMirror reads the mirror in dir, or begins one. A state that cannot be
// read, or whose layers are not there, is thrown away: it is all fetched anew.
func openMirror(dir string) (*mirror, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m := &mirror{dir: dir, open: make(map[string]*layer)}
	if err := m.load(); err != nil {
		m.close()
		m.state = mirrorState{}
	}
	if m.state.Sections == nil {
		m.state.Sections = make(map[string]*sectionState)
	}
	if m.state.Known == nil {
		m.state.Known = make(map[string]validators)
	}
	if m.state.Rejected == nil {
		m.state.Rejected = make(map[string]rejection)
	}
	m.state.Version = mirrorVersion
	return m, m.sweep()
}

func (m *mirror) load() error {
	b, err := os.ReadFile(m.path("state.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &m.state); err != nil {
		return err
	}
	if m.state.Version != mirrorVersion {
		return fmt.Errorf("mirror of version %q", m.state.Version)
	}
	for _, l := range m.state.Layers {
		if err := m.openLayer(l); err != nil {
			return err
		}
	}
	return nil
}

func (m *mirror) path(name string) string { return filepath.Join(m.dir, name) }

func (m *mirror) openLayer(s layerState) error {
	if !isName(s.Name) {
		return fmt.Errorf("mirror: layer %q", s.Name)
	}
	spool, err := os.Open(m.path(s.Name + ".pages"))
	if err != nil {
		return err
	}
	index, err := os.Open(m.path(s.Name + ".index"))
	if err != nil {
		spool.Close()
		return err
	}
	m.open[s.Name] = newLayer(s.Generated, spool, index)
	return nil
}

// sweep removes files of layers that the state does not name.
func (m *mirror) sweep() error {
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name, ext, _ := strings.Cut(f.Name(), ".")
		if ext != "pages" && ext != "index" {
			continue
		}
		if _, ok := m.open[name]; !ok {
			if err := os.Remove(m.path(f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// layers returns what counts, in the order in which it applies.
func (m *mirror) layers() []*layer {
	var all []*layer
	for _, l := range m.state.Layers {
		all = append(all, m.open[l.Name])
	}
	byGenerated(all)
	return all
}

// used is how many octets the layers take.
func (m *mirror) used() (n int64) {
	for _, l := range m.state.Layers {
		n += l.Size
	}
	return n
}

// A draft is a layer that is being written.
type draft struct {
	m            *mirror
	name         string
	spool, index *os.File
	writer       layerWriter
}

func (m *mirror) draft() (*draft, error) {
	d := &draft{m: m, name: fmt.Sprintf("layer-%d", m.state.Next)}
	m.state.Next++
	var err error
	if d.spool, err = os.OpenFile(m.path(d.name+".pages"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, err
	}
	if d.index, err = os.OpenFile(m.path(d.name+".index"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		d.discard()
		return nil, err
	}
	d.writer = layerWriter{spool: newSpoolWriter(d.spool), sorter: sorter{dir: m.dir}}
	return d, nil
}

func (d *draft) discard() {
	d.writer.sorter.close()
	for _, f := range []*os.File{d.spool, d.index} {
		if f != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}
}

// finish makes the files durable and the layer readable; it does not count yet.
func (d *draft) finish(s layerState) (layerState, error) {
	err := d.writer.flush()
	if err == nil {
		err = d.writer.sorter.finish(d.index)
	}
	if err == nil {
		err = errors.Join(d.spool.Sync(), d.index.Sync(), durable.SyncDir(d.m.dir))
	}
	if err != nil {
		d.discard()
		return s, err
	}
	at, err := d.index.Seek(0, io.SeekEnd)
	s.Name, s.Pages, s.Size = d.name, d.writer.pages, d.writer.spool.at+at
	d.m.open[d.name] = newLayer(s.Generated, d.spool, d.index)
	return s, err
}

// adopt makes a finished layer count, in memory. A snapshot takes the place of
// all that its section had from before it; a fallback that of the last one.
func (m *mirror) adopt(s layerState, now time.Time) {
	section := m.state.Sections[s.Section]
	if section == nil {
		section = &sectionState{}
		m.state.Sections[s.Section] = section
	}
	m.state.Layers = slices.DeleteFunc(m.state.Layers, func(old layerState) bool {
		if old.Section != s.Section {
			return false
		}
		return s.Type == Snapshot && !old.Generated.After(s.Generated) || s.Type == fallback && old.Type == fallback
	})
	m.state.Layers = append(m.state.Layers, s)
	switch s.Type {
	case Snapshot:
		section.Base, section.Fetched = s.Generated, now
		section.Reached = s.Generated
		for _, l := range m.state.Layers {
			if l.Section == s.Section && l.Type == Delta && l.Generated.After(section.Reached) {
				section.Reached = l.Generated
			}
		}
	case Delta:
		if s.Generated.After(section.Reached) {
			section.Reached = s.Generated
		}
	}
}

// commit makes the state durable, and then removes what it does not name.
func (m *mirror) commit() error {
	b, err := json.MarshalIndent(m.state, "", " ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(m.path("state.json"), append(b, '\n'), 0o600); err != nil {
		return err
	}
	for name, l := range m.open {
		if !slices.ContainsFunc(m.state.Layers, func(s layerState) bool { return s.Name == name }) {
			delete(m.open, name)
			l.release()
		}
	}
	return m.sweep()
}

func (m *mirror) close() {
	for name, l := range m.open {
		l.release()
		delete(m.open, name)
	}
}
