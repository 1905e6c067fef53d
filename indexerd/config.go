package main

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// configFile is written once by init, and never rewritten.
const configFile = "indexerd.yaml"

// config is indexerd.yaml. A flag wins over the environment (INDEXERD_LISTEN
// …), that over the file, and that over the default.
type config struct {
	Listen   string        `mapstructure:"listen"`
	Public   string        `mapstructure:"public"`
	Admin    string        `mapstructure:"admin"`
	LogLevel string        `mapstructure:"log_level"`
	Publish  time.Duration `mapstructure:"publish_interval"`
	MaxGrant time.Duration `mapstructure:"max_grant"`

	level slog.Level
}

// Defaults of the addresses.
const (
	defaultListen = "127.0.0.1:7443"
	defaultPublic = "127.0.0.1:7480"
	defaultAdmin  = "127.0.0.1:7482"
)

const configTemplate = `# indexerd: the receiving side. Each setting that is commented out is shown with
# its default. The environment wins over this file: INDEXERD_LISTEN=…, and so on.
# Trusted publishers are files of their own beside this one; use "trust".

# Where publishers' sessions are accepted (mutual TLS), as host:port. Port 0
# takes a free one; run.json tells which.
listen: {{.Listen}}

# Where the public, read-only side of the log is served (HTTP), as host:port.
public: {{.Public}}

# Where /healthz and /readyz are served, as host:port; keep it on loopback.
# "off" serves them nowhere.
admin: {{.Admin}}

# How often a checkpoint is published while the log grows.
# publish_interval: 1s

# The longest life of a grant that is accepted.
# max_grant: 2160h

# What is logged: debug, info, warn or error.
# log_level: info
`

// writeConfig writes the commented configuration.
func writeConfig(dir string, c config) error {
	path := filepath.Join(dir, configFile)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	t, err := template.New("config").Parse(configTemplate)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, c); err != nil {
		return err
	}
	return durable.WriteFile(path, []byte(b.String()), 0o644)
}

func loadConfig(dir string) (config, error) {
	var c config
	err := cli.ReadConfig(dir, configFile, "indexerd", map[string]any{
		"listen": defaultListen, "public": defaultPublic, "admin": defaultAdmin,
		"log_level": "info", "publish_interval": "1s", "max_grant": "2160h",
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
	for name, addr := range map[string]string{"listen": c.Listen, "public": c.Public, "admin": c.Admin} {
		if name == "admin" && addr == "off" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return cli.Errorf(cli.Config, "%s: %w", name, err)
		}
	}
	if c.Publish < 100*time.Millisecond || c.Publish > time.Hour {
		return cli.Errorf(cli.Config, "publish_interval: %s, want 100ms to 1h", c.Publish)
	}
	if c.MaxGrant < time.Hour || c.MaxGrant > 2160*time.Hour {
		return cli.Errorf(cli.Config, "max_grant: %s, want 1h to 2160h", c.MaxGrant)
	}
	return nil
}
