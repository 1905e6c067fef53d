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
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// configFile is written once by init, and never rewritten.
const configFile = "publisherd.yaml"

// config is publisherd.yaml. A flag wins over the environment
// (PUBLISHERD_LOG_LEVEL …), that over the file, and that over the default.
type config struct {
	LogLevel string        `mapstructure:"log_level"`
	Rescan   time.Duration `mapstructure:"rescan_interval"`
	Verify   time.Duration `mapstructure:"verify_interval"`
	Admin    string        `mapstructure:"admin"`
	Profiles bool          `mapstructure:"admin_profiles"`
	Ballast  int64         `mapstructure:"ballast_mib"`
	LowWater int64         `mapstructure:"low_water_mib"`
	Stall    time.Duration `mapstructure:"disk_stall"`
	Reply    time.Duration `mapstructure:"reply_timeout"`
	Patches  int64         `mapstructure:"patch_cache_mib"`

	Proxy            string `mapstructure:"proxy"`
	ProxyCredentials string `mapstructure:"proxy_credentials_file"`

	Certificate string `mapstructure:"tls_certificate"`
	Key         string `mapstructure:"tls_key"`

	level slog.Level
}

const configTemplate = `# publisherd: the publishing side. Each setting is shown with its default.
# The environment wins over this file: PUBLISHERD_LOG_LEVEL=debug, and so on.
# Sources, trusted indexers and grants are files of their own beside this one;
# use the commands "source", "trust" and "grant".

# How often "run" scans each collection, even if nothing seems to have changed.
# Changes of files are noticed within seconds; this finds what went unnoticed.
# rescan_interval: 5m

# How often a scan of a folder reads every file. Otherwise it reads those that
# have moved since, by their size, times and place on the disk. 0 reads all of
# them each time.
# verify_interval: 24h

# Where "run" serves the status page, /healthz, /readyz and /metrics, as host:port;
# keep it on loopback. It answers to its address, to localhost, and to the name that
# stands here. "off" opens no port. admin_profiles adds /debug/pprof/.
# admin: off
# admin_profiles: false

# A full disk: how many MiB are held back in store.ballast, to be given up when
# a write finds no room, and how many have to be free for collections to be
# scanned. Receipts are taken down to the last. 0 is none of it.
# ballast_mib: 16
# low_water_mib: 64

# How long a write may take before /readyz reports the disk; after four times as
# long the program ends, as after a write that failed.
# disk_stall: 30s


# How long an indexer may take for one answer. A batch is answered when it is in
# the log.
# reply_timeout: 2m

# How many MiB of delivered pages are kept in the store for each agreement, so
# that a change is sent as the difference to what the indexer has. 0: none, and
# changed pages go whole.
# patch_cache_mib: 256

# The HTTP proxy through which indexers are dialled: http://HOST:PORT or
# https://HOST:PORT; it resolves their names. "off" is none; without a value it is
# HTTPS_PROXY of the environment. What NO_PROXY names is dialled directly.
# proxy:

# The file, readable by its owner only, with "Basic USER:PASSWORD" or
# "Bearer TOKEN" for the proxy.
# proxy_credentials_file:
` + cli.CertificateSettings + `
# What is logged: debug, info, warn or error.
# log_level: warn
`

// verify is Verify as publisher.Config has it.
func (c *config) verify() time.Duration {
	if c.Verify == 0 {
		return -1
	}
	return c.Verify
}

// room is what is kept free of the disk.
func (c *config) room() durable.Room {
	return durable.Room{Ballast: c.Ballast << 20, LowWater: c.LowWater << 20}
}

// patchBytes is what is kept to make patches on, in octets; negative for nothing.
func (c *config) patchBytes() int64 {
	if c.Patches == 0 {
		return -1
	}
	return c.Patches << 20
}

// certificate is the files that the configuration in dir names, nil for none;
// check has seen that both are named.
func (c *config) certificate(dir string) *identity.CertificateFiles {
	files, _ := cli.CertificateFiles(dir, c.Certificate, c.Key)
	return files
}

// publisher is what the publisher in dir is opened with.
func (c *config) publisher(dir string, log *slog.Logger) publisher.Config {
	return publisher.Config{
		Dir: dir, Log: log, Room: c.room(), Stall: c.Stall, Certificate: c.certificate(dir), Reply: c.Reply, PatchBytes: c.patchBytes(),
		Verify: c.verify(), Proxy: c.Proxy, ProxyCredentials: c.ProxyCredentials,
	}
}

// writeConfig writes the commented configuration, and settings behind it.
func writeConfig(dir, settings string) error {
	path := filepath.Join(dir, configFile)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return durable.WriteFile(path, []byte(configTemplate+settings), 0o644)
}

func loadConfig(dir string) (config, error) {
	var c config
	err := cli.ReadConfig(dir, configFile, "publisherd", map[string]any{
		"log_level": "warn", "rescan_interval": "5m", "verify_interval": "24h", "admin": "off", "admin_profiles": false,
		"ballast_mib": 16, "low_water_mib": 64, "disk_stall": "30s", "reply_timeout": "2m", "patch_cache_mib": 256,
		"proxy": "", "proxy_credentials_file": "",
		"tls_certificate": "", "tls_key": "",
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
	if c.Verify < 0 || c.Verify > 30*24*time.Hour {
		return cli.Errorf(cli.Config, "verify_interval: %s, want 0 to 720h", c.Verify)
	}
	for name, mib := range map[string]int64{"ballast_mib": c.Ballast, "low_water_mib": c.LowWater, "patch_cache_mib": c.Patches} {
		if mib < 0 || mib > 1<<20 {
			return cli.Errorf(cli.Config, "%s: %d, want 0 to 1048576", name, mib)
		}
	}
	if c.Stall < time.Second || c.Stall > 10*time.Minute {
		return cli.Errorf(cli.Config, "disk_stall: %s, want 1s to 10m", c.Stall)
	}
	if _, err := cli.CertificateFiles("", c.Certificate, c.Key); err != nil {
		return err
	}
	if c.Reply < time.Second || c.Reply > time.Hour {
		return cli.Errorf(cli.Config, "reply_timeout: %s, want 1s to 1h", c.Reply)
	}
	if _, err := link.ProxyFor(c.Proxy); err != nil {
		return cli.Errorf(cli.Config, "%w", err)
	}
	if c.Admin == "off" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Admin); err != nil {
		return cli.Errorf(cli.Config, "admin: %w", err)
	}
	return nil
}
