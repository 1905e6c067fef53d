package publisher

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// TestABackupOfAPublisherIsOpenedAgain backs up a publisher that is open; what
// is in a backup after pushes, testdata/e2e/backup.txt shows.
func TestABackupOfAPublisherIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	if _, err := identity.Create(dir, identity.Options{Identity: "spiffe://example.com/publisher", Role: identity.Publisher, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := AddSource(dir, Source{Name: "site", Kind: "site", Location: t.TempDir(), BaseURL: "https://example.com/"}); err != nil {
		t.Fatal(err)
	}
	p, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	to := filepath.Join(t.TempDir(), "backup")
	m, err := p.Backup(to, "test")
	if err != nil || m.Collections != 1 || m.Receipts != 0 || m.KeysBytes == 0 || m.StoreBytes == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if info, err := os.Stat(filepath.Join(to, "keys", "envelope.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a key in the backup: %v, %v", info, err)
	}
	copied, err := Open(Config{Dir: to})
	if err != nil {
		t.Fatal(err)
	}
	if copied.Identity() != p.Identity() {
		t.Errorf("it is %s", copied.Identity())
	}
	if err := copied.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Backup(to, "test"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another one: %v", err)
	}
	if _, err := p.Backup(filepath.Join(dir, "b"), "test"); err == nil {
		t.Error("into the publisher's own folder")
	}
}
