package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A Manifest is what a backup's manifest.json says, and what `publisherd backup
// --json` prints. Nothing reads it but people and programs of theirs.
type Manifest struct {
	Format      int           `json:"format"` // 1
	Role        string        `json:"role"`
	Identity    envelope.Name `json:"identity"`
	Collections int           `json:"collections"`
	Agreements  int           `json:"agreements"`
	Receipts    int           `json:"receipts"`
	// Failed are receipts that do not hold, as in the store that was copied.
	Failed     []string      `json:"failed"`
	StoreBytes int64         `json:"store_bytes"`
	KeysBytes  int64         `json:"keys_bytes"`
	MadeAt     envelope.Time `json:"made_at"`
	Version    string        `json:"version"` // of the program that made it
}

// Backup makes a backup in the folder dir, which must not exist and must lie
// outside the publisher's, while the publisher goes on: store/ with journal,
// cursors and receipts; keys/; sources, trust, grants and configuration; and a
// manifest. Each row of the copy was read and each receipt in it evaluated
// again, and it is durable, when Backup returns. Errors: fs.ErrExist.
func (p *Publisher) Backup(dir, version string) (*Manifest, error) {
	from, err := filepath.Abs(p.dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if dir == from || strings.HasPrefix(dir, from+string(filepath.Separator)) {
		return nil, fmt.Errorf("backup to %s: it lies in the folder that is backed up; name another place", dir)
	}
	m := &Manifest{Format: 1, Role: "publisher", Identity: p.Identity(), Failed: []string{}, MadeAt: envelope.At(p.now()), Version: version}
	if err := durable.MakeFolder(dir, func(temp string) error { return p.fillBackup(temp, m) }); err != nil {
		return nil, fmt.Errorf("backup to %s: %w", dir, err)
	}
	return m, nil
}

// fillBackup copies the store first: what it names in files, such as a grant,
// was written before the row.
func (p *Publisher) fillBackup(temp string, m *Manifest) error {
	if err := p.store.Checkpoint(filepath.Join(temp, "store")); err != nil {
		return err
	}
	if err := durable.CopyFiles(temp, p.dir, notBackedUp); err != nil {
		return err
	}
	if err := p.checkBackup(temp, m); err != nil {
		return fmt.Errorf("the copy cannot be read: %w", err)
	}
	var err error
	if m.StoreBytes, err = durable.FolderSize(filepath.Join(temp, "store")); err != nil {
		return err
	}
	if m.KeysBytes, err = durable.FolderSize(filepath.Join(temp, "keys")); err != nil {
		return err
	}
	raw, err := json.Marshal(m, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(temp, "manifest.json"), append(raw, '\n'), 0o600)
}

// notBackedUp leaves out the store, which is copied by itself, what belongs to a
// running daemon, and what is unfinished.
func notBackedUp(path string) bool {
	name := filepath.Base(path)
	if strings.HasPrefix(name, ".") && name != "." {
		return true
	}
	return path == name && (name == "store" || name == "store.ballast" || name == openingsFile || name == "run.json" || name == "admin.sock")
}

// checkBackup opens a copy as far as it goes without changing it, and reads
// everything in it.
func (p *Publisher) checkBackup(dir string, m *Manifest) (err error) {
	local, err := identity.Load(dir, p.now())
	if err != nil {
		return err
	}
	trust, err := OpenTrust(dir)
	if err != nil {
		return err
	}
	store, err := durable.OpenReadOnly(filepath.Join(dir, "store"), durable.Options{Logger: slog.New(slog.DiscardHandler), CacheBytes: durable.CacheOnce})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, err := range store.Scan([]byte{0}, nil) {
		if err != nil {
			return err
		}
	}
	var damage error // the first is enough: there is no backup then
	err = store.CheckTables(context.Background(), func(table string, err error) {
		if damage == nil {
			damage = fmt.Errorf("table %s: %w", table, err)
		}
	})
	if err = errors.Join(err, damage); err != nil {
		return err
	}
	copied := &Publisher{dir: dir, log: p.log, clock: p.clock, local: local, trust: trust, store: store, edits: make(map[string]*sync.Mutex), pulse: newPulse()}
	n, bad, err := copied.VerifyReceipts()
	if err != nil {
		return err
	}
	m.Receipts = n
	for _, b := range bad {
		m.Failed = append(m.Failed, b.Error())
	}
	rels, err := Relationships(dir)
	if err != nil {
		return err
	}
	sources, err := Sources(dir)
	m.Agreements, m.Collections = len(rels), len(sources)
	return err
}
