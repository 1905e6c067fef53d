package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// TestEachSettingIsDocumented in the file that init writes and in doc/config.md,
// which are made of the same words.
func TestEachSettingIsDocumented(t *testing.T) {
	for _, fault := range settings().Faults(cli.KeysOf(config{})) {
		t.Error(fault)
	}
	page, err := os.ReadFile("../doc/config.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+settings().Markdown()) {
		t.Error("doc/config.md does not hold the table that \"settings\" prints; replace it")
	}
}

// TestAllThatIsWrongIsTold has one file with several faults.
func TestAllThatIsWrongIsTold(t *testing.T) {
	dir := t.TempDir()
	text := "log_level: loud\nadmin: somewhere\ndisk_stall: 0s\ntls_key: a\nballast_mib: -1\nno_such_key: 1\ntrace_ratio: much\n"
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := loadConfig(dir)
	faults := cli.Faults(err)
	if len(faults) != 7 || cli.CodeOf(err) != cli.Config {
		t.Errorf("%d faults, want 7: %v", len(faults), err)
	}
	for _, key := range []string{"log_level", "admin", "disk_stall", "tls_key", "ballast_mib", "no_such_key", "trace_ratio"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not told of", key)
		}
	}
}
