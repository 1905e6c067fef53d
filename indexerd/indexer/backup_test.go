package indexer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// TestABackupUnderLoadIsWhole makes backups while pages are pushed, and opens
// each as the indexer that it was.
func TestABackupUnderLoadIsWhole(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(20)
	backups := t.TempDir()
	var pushing sync.WaitGroup
	pushing.Go(func() {
		for i := range 12 {
			c.push(s, puts("again", urls(site, 20)[i], urls(site, 20)[i+1])...)
		}
	})
	var made []*Manifest
	for _, name := range []string{"a", "b", "c"} {
		m, err := r.x.Backup(t.Context(), filepath.Join(backups, name), "test")
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, m)
	}
	pushing.Wait()
	c.close()
	view := r.x.tlog.Released()
	for i, name := range []string{"a", "b", "c"} {
		m, dir := made[i], filepath.Join(backups, name)
		if root, err := view.RootAt(m.TreeSize); err != nil || envelope.Hash(root) != m.Root {
			t.Errorf("backup %s: size %d with root %s, the log has %x, %v", name, m.TreeSize, m.Root, root, err)
		}
		if m.HighWater == nil || m.HighWater.TreeSize > m.TreeSize || m.Pages != 20 || m.Series != 1 {
			t.Errorf("backup %s: %+v", name, m)
		}
		if marks, _ := filepath.Glob(filepath.Join(dir, "high-water-*")); len(marks) > 0 {
			t.Errorf("backup %s holds the high-water mark", name)
		}
		if _, err := Open(Config{Dir: dir, Now: r.now}); !errors.Is(err, translog.ErrRollback) {
			t.Errorf("backup %s is opened without a word: %v", name, err)
		}
		x, err := Open(Config{Dir: dir, Now: r.now, TrustStore: true})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := x.ownPayload(s.p.local.Name(), s.name, urls(site, 20)[3]); err != nil || len(p) == 0 {
			t.Errorf("backup %s: a page: %v", name, err)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestABackupIsMadeOnceAndElsewhere(t *testing.T) {
	r := newRig(t)
	r.example().held(2)
	dir := filepath.Join(t.TempDir(), "b")
	if _, err := r.x.Backup(t.Context(), dir, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.x.Backup(t.Context(), dir, "test"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another one: %v", err)
	}
	if _, err := r.x.Backup(t.Context(), filepath.Join(r.dir, "b"), "test"); err == nil {
		t.Error("into the indexer's own folder")
	}
	r.close()
	if _, err := BackupFolder(t.Context(), r.dir, dir+"2", "test"); err != nil {
		t.Errorf("while nobody runs: %v", err)
	}
	r.open()
}

// TestADamagedStoreGivesNoBackup takes away what a page needs.
func TestADamagedStoreGivesNoBackup(t *testing.T) {
	r := newRig(t)
	r.example().held(2)
	keys, err := filepath.Glob(filepath.Join(r.dir, "keys", "data", "*"))
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := os.Remove(keys[0]); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	if _, err := r.x.Backup(t.Context(), filepath.Join(parent, "b"), "test"); !errors.Is(err, ErrBackup) || !strings.Contains(err.Error(), "data key") {
		t.Errorf("Backup = %v", err)
	}
	if left, _ := os.ReadDir(parent); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestABackupOutlastsADeletion makes backups while a series is deleted: each
// succeeds, with the pages or without them.
func TestABackupOutlastsADeletion(t *testing.T) {
	r := newRigWith(t, func() error { return nil })
	s, c := r.example().held(60)
	c.close()
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	s.p.revoke(rev)
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := r.x.Backup(t.Context(), filepath.Join(dir, name), "test"); err != nil {
			t.Errorf("backup %s: %v", name, err)
		}
	}
	s.p.settled(rev)
	m, err := r.x.Backup(t.Context(), filepath.Join(dir, "e"), "test")
	if err != nil || m.Pages != 0 {
		t.Errorf("afterwards: %+v, %v", m, err)
	}
}
