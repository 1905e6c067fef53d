package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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
// (PUBLISHERD_LOG_LEVEL …), that over the file, and that over the default. What
// each key means stands in settings, and TestEachSettingIsDocumented holds the two
// together.
type config struct {
	LogLevel string        `mapstructure:"log_level"`
	Rescan   time.Duration `mapstructure:"rescan_interval"`
	Verify   time.Duration `mapstructure:"verify_interval"`
	Admin    string        `mapstructure:"admin"`
	Profiles bool          `mapstructure:"admin_profiles"`

	TraceEndpoint string  `mapstructure:"trace_endpoint"`
	TraceRatio    float64 `mapstructure:"trace_ratio"`

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

// writeConfig writes the commented configuration, in which said is said.
func writeConfig(dir string, said map[string]string) error {
	path := filepath.Join(dir, configFile)
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return durable.WriteFile(path, []byte(settings().File(configHead, said)), 0o644)
}

func loadConfig(dir string) (config, error) {
	var c config
	err := cli.ReadConfig(dir, configFile, "publisherd", settings().Defaults(), &c)
	if c == (config{}) { // there is no file, or it cannot be read
		return c, err
	}
	return c, cli.With(cli.Config, errors.Join(err, c.check()))
}

// check finds everything that is wrong with the values, each with its key.
func (c *config) check() error {
	var faults []error
	if err := c.level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		faults = append(faults, fmt.Errorf("log_level: want debug, info, warn or error, not %q", c.LogLevel))
	}
	if _, err := link.ProxyFor(c.Proxy); err != nil {
		faults = append(faults, err)
	}
	return cli.With(cli.Config, errors.Join(append(faults,
		cli.Within("rescan_interval", c.Rescan, time.Second, 24*time.Hour),
		cli.Within("verify_interval", c.Verify, 0, 30*24*time.Hour),
		cli.CheckAddressOrOff("admin", c.Admin),
		cli.Within("ballast_mib", c.Ballast, 0, cli.MaxMiB), cli.Within("low_water_mib", c.LowWater, 0, cli.MaxMiB),
		cli.CheckTraces(c.TraceEndpoint, c.TraceRatio),
		cli.Within("disk_stall", c.Stall, time.Second, 10*time.Minute),
		cli.Within("reply_timeout", c.Reply, time.Second, time.Hour),
		cli.Within("patch_cache_mib", c.Patches, 0, cli.MaxMiB),
		cli.CheckCertificatePair(c.Certificate, c.Key),
	)...))
}
