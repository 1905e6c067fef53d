package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/viper"

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

// configError is a mistake in the configuration.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

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
	v := viper.New()
	v.SetDefault("log_level", "warn")
	v.SetDefault("rescan_interval", "5m")
	v.SetDefault("admin", "off")
	v.SetEnvPrefix("publisherd")
	v.AutomaticEnv()
	v.SetConfigFile(filepath.Join(dir, configFile))
	if err := v.ReadInConfig(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return config{}, &configError{fmt.Errorf("%s: no %s here; make an identity with init, or say --dir", dir, configFile)}
		}
		return config{}, &configError{fmt.Errorf("%s: %w", configFile, err)}
	}
	var c config
	if err := v.UnmarshalExact(&c); err != nil {
		return config{}, &configError{fmt.Errorf("%s: %s", configFile, strings.Join(strings.Fields(err.Error()), " "))}
	}
	return c, c.check()
}

func (c *config) check() error {
	if err := c.level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return &configError{fmt.Errorf("log_level: %w", err)}
	}
	if c.Rescan < time.Second || c.Rescan > 24*time.Hour {
		return &configError{fmt.Errorf("rescan_interval: %s, want 1s to 24h", c.Rescan)}
	}
	if c.Admin == "off" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Admin); err != nil {
		return &configError{fmt.Errorf("admin: %w", err)}
	}
	return nil
}
