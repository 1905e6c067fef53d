package indexer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// manifestFile says what a backup holds. Nothing reads it but people and
// programs of theirs.
const manifestFile = "manifest.json"

// A Manifest is what a backup's manifest.json says, and what `indexerd backup
// --json` prints. HighWater is for people: a restored store is not measured by
// it, since it is as old as the store is.
type Manifest struct {
	Format       int           `json:"format"` // 1
	Role         string        `json:"role"`
	Identity     envelope.Name `json:"identity"`
	LogOrigin    string        `json:"log_origin"`
	TreeSize     uint64        `json:"tree_size"`
	Root         envelope.Hash `json:"root"`
	HighWater    *HighWater    `json:"high_water,omitempty"`
	Series       uint64        `json:"series"`
	Pages        uint64        `json:"pages"`
	PayloadBytes uint64        `json:"payload_bytes"`
	StoreBytes   int64         `json:"store_bytes"`
	KeysBytes    int64         `json:"keys_bytes"`
	MadeAt       envelope.Time `json:"made_at"`
	Version      string        `json:"version"` // of the program that made it
}

// HighWater is how far the log had come by the mark outside its store, shortly
// before the store was copied.
type HighWater struct {
	TreeSize uint64        `json:"tree_size"`
	Root     envelope.Hash `json:"root"`
}

// ErrBackup: the copy does not pass the check that `indexerd fsck` makes, and
// was removed.
var ErrBackup = errors.New("the backup does not hold what it has to")

// errKeyWent: a data key that a copied segment needs was destroyed while the
// backup was made: a deletion ended meanwhile.
var errKeyWent = errors.New("a deletion ended meanwhile")

// Backup makes a backup in the folder dir, which must not exist and must lie
// outside the indexer's, while the indexer goes on: store/ and keys/ apart, the
// configuration, and a manifest. The copy was checked whole, and is durable,
// when it returns. Errors: fs.ErrExist, ErrBackup.
func (x *Indexer) Backup(ctx context.Context, dir, version string) (*Manifest, error) {
	defer x.large.hold()()
	b := &backup{from: x.cfg.Dir, store: x.store, now: x.cfg.Now, version: version, files: x.cfg.FS}
	return b.make(ctx, dir)
}

// BackupFolder is Backup of the indexer that lives in from and does not run.
// Errors: those of Backup; durable.ErrLocked.
func BackupFolder(ctx context.Context, from, dir, version string) (_ *Manifest, err error) {
	if _, err := readCard(from); err != nil {
		return nil, err
	}
	s, err := durable.Open(filepath.Join(from, "store"), durable.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b := &backup{from: from, store: s, now: time.Now, version: version}
	return b.make(ctx, dir)
}

type backup struct {
	from    string
	store   *durable.Store
	now     func() time.Time
	version string
	files   durable.FS // of the store; nil means the operating system's
}

func (b *backup) make(ctx context.Context, dir string) (*Manifest, error) {
	from, err := filepath.Abs(b.from)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if dir == from || strings.HasPrefix(dir, from+string(filepath.Separator)) {
		return nil, fmt.Errorf("backup to %s: it lies in the folder that is backed up; name another place", dir)
	}
	for try := 1; ; try++ {
		m := &Manifest{Format: 1, Role: "indexer", Version: b.version}
		err := durable.MakeFolder(dir, func(temp string) error { return b.fill(ctx, temp, m) })
		if errors.Is(err, errKeyWent) && try < 3 {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("backup to %s: %w", dir, err)
		}
		return m, nil
	}
}

// fill makes the copy. The keys follow the store: one that a copied segment
// needs is older than that segment, and is gone only if the segment is to go.
func (b *backup) fill(ctx context.Context, temp string, m *Manifest) error {
	card, err := readCard(b.from)
	if err != nil {
		return err
	}
	mark, err := readMark(b.files, b.from, card.Log)
	if err != nil {
		return err
	}
	if mark != nil {
		m.HighWater = &HighWater{mark.Size, mark.Root}
	}
	if err := b.store.Checkpoint(filepath.Join(temp, "store")); err != nil {
		return err
	}
	if err := durable.CopyFiles(temp, b.from, notBackedUp); err != nil {
		return err
	}
	report, err := FsckFolder(ctx, temp, FsckOptions{NoMark: true, FS: b.files})
	if err != nil {
		return err
	}
	if !report.OK() {
		err := fmt.Errorf("%w: %d findings, the first: %s", ErrBackup, report.Found(), report.Findings[0])
		if report.Findings[0].Kind == findKey {
			err = errors.Join(err, errKeyWent)
		}
		return err
	}
	return b.describe(temp, m, report)
}

// notBackedUp leaves out the store, which is copied by itself, what belongs to a
// running daemon, and the high-water mark: beside a restored store it would say
// that nothing newer was ever shown, which nobody can know.
func notBackedUp(path string) bool {
	name := filepath.Base(path)
	if path != name {
		return strings.HasPrefix(name, ".") // unfinished
	}
	return name == "store" || name == "store.ballast" || name == "run.json" || name == "admin.sock" ||
		strings.HasPrefix(name, "high-water-") || strings.HasPrefix(name, ".") && name != "."
}

// describe fills the manifest, and writes it last.
func (b *backup) describe(temp string, m *Manifest, report *FsckReport) error {
	card, err := readCard(temp)
	if err != nil {
		return err
	}
	m.Identity, m.LogOrigin, m.TreeSize, m.Root = card.Identity, report.Origin, report.TreeSize, report.Root
	m.Series, m.Pages, m.PayloadBytes = report.Series, report.Pages, report.PayloadBytes
	m.MadeAt = envelope.At(b.now())
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
	return durable.WriteFile(filepath.Join(temp, manifestFile), append(raw, '\n'), 0o600)
}
