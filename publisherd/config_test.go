package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func TestConfigurationIsReadStrictly(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		wants      string // part of the error; "" for none
	}{
		{"nothing is said", "", ""},
		{"everything is said", "rescan_interval: 90s\nadmin: 127.0.0.1:7481\nlog_level: debug\n", ""},
		{"a setting that does not exist", "rescan: 5m\n", "rescan"},
		{"no duration", "rescan_interval: often\n", "rescan_interval"},
		{"a scan without a pause", "rescan_interval: 0s\n", "want 1s to 24h"},
		{"no address", "admin: somewhere\n", "admin"},
		{"no level", "log_level: loud\n", "log_level"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, configFile), []byte(tt.file), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := loadConfig(dir)
			if (err == nil) != (tt.wants == "") || err != nil && !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("error %v, want %q in it", err, tt.wants)
			}
		})
	}
}

func TestTheConfigurationThatIsWrittenShowsTheDefaults(t *testing.T) {
	dir := t.TempDir()
	if err := writeConfig(dir, nil); err != nil {
		t.Fatal(err)
	}
	silent, err := loadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	// With every setting said it says the same.
	said := make(map[string]string)
	for _, one := range settings() {
		said[one.Key] = one.Default
	}
	if err := os.Remove(filepath.Join(dir, configFile)); err != nil {
		t.Fatal(err)
	}
	if err := writeConfig(dir, said); err != nil {
		t.Fatal(err)
	}
	loud, err := loadConfig(dir)
	if err != nil || loud != silent {
		t.Errorf("%+v, %v; want %+v", loud, err, silent)
	}
	if silent.Rescan != 5*time.Minute || silent.Admin != "off" || silent.level != slog.LevelInfo {
		t.Errorf("%+v", silent)
	}
}

func TestTheEnvironmentWinsOverTheFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte("rescan_interval: 90s\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PUBLISHERD_RESCAN_INTERVAL", "7s")
	if c, err := loadConfig(dir); err != nil || c.Rescan != 7*time.Second {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestInitWritesWhereTheStatusPageIs only if that was said, and nothing at all where it
// makes no sense.
func TestInitWritesWhereTheStatusPageIs(t *testing.T) {
	for _, tt := range []struct {
		name, admin, want string
		code              int
	}{
		{"nothing was said", "", "off", 0},
		{"an address", "127.0.0.1:7481", "127.0.0.1:7481", 0},
		{"no address", "7481", "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pub")
			args := []string{"init", "--dir", dir, "--identity", "spiffe://docs.test/publisher", "--origin", "https://docs.test"}
			if tt.admin != "" {
				args = append(args, "--admin", tt.admin)
			}
			root := newRoot()
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			if code := cli.Run(root, args, io.Discard); code != tt.code {
				t.Fatalf("exit code %d, want %d", code, tt.code)
			}
			if tt.code != 0 {
				if _, err := os.Stat(dir); err == nil {
					t.Error("an identity was made")
				}
				return
			}
			c, err := loadConfig(dir)
			if err != nil || c.Admin != tt.want {
				t.Errorf("admin = %q, %v, want %q", c.Admin, err, tt.want)
			}
		})
	}
}
