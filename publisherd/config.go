package main

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// configFile is written once by init, and never rewritten.
const configFile = "publisherd.yaml"

// config is publisherd.yaml. A flag wins over the environment
// (PUBLISHERD_LOG_LEVEL …), that over the file, and that over the default.
type config struct {
	LogLevel string        `mapstructure:"log_level"`
	Rescan   time.Duration `mapstructure:"rescan_interval"`
	Admin    string        `mapstructure:"admin"`

	level slog.Level
}

const configTemplate = `# publisherd: the publishing side. Each setting is shown with its default.
# The environment wins over this file: PUBLISHERD_LOG_LEVEL=debug, and so on.
# Sources, trusted indexers and grants are files of their own beside this one;
# use the commands "source", "trust" and "grant".

# How often "run" scans each collection, even if nothing seems to have changed.
# Changes of files are noticed within seconds; this finds what went unnoticed.
# rescan_interval: 5m

# Where "run" serves /healthz and /readyz, as host:port; keep it on loopback.
# "off" opens no port.
# admin: off

# What is logged: debug, info, warn or error.
# log_level: warn
`

// writeConfig writes the commented configuration.
func writeConfig(dir string) error {
	path := filepath.Join(dir, configFile)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return durable.WriteFile(path, []byte(configTemplate), 0o644)
}

func loadConfig(dir string) (config, error) {
	var c config
	err := cli.ReadConfig(dir, configFile, "publisherd", map[string]any{
		"log_level": "warn", "rescan_interval": "5m", "admin": "off",
	}, &c)
	if err != nil {
		return config{}, err
	}
	return c, c.check()
}

func (c *config) check() error {
	if err := c.level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return cli.Errorf(cli.Config, "log_level: %w", err)
	}
	if c.Rescan < time.Second || c.Rescan > 24*time.Hour {
		return cli.Errorf(cli.Config, "rescan_interval: %s, want 1s to 24h", c.Rescan)
	}
	if c.Admin == "off" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Admin); err != nil {
		return cli.Errorf(cli.Config, "admin: %w", err)
	}
	return nil
}
