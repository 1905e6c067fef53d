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
)

// configFile is written once by init, and never rewritten.
const configFile = "indexerd.yaml"

// config is indexerd.yaml. A flag wins over the environment (INDEXERD_LISTEN
// …), that over the file, and that over the default. What each key means stands
// in settings, and TestEachSettingIsDocumented holds the two together.
type config struct {
	Listen   string `mapstructure:"listen"`
	Public   string `mapstructure:"public"`
	Admin    string `mapstructure:"admin"`
	Profiles bool   `mapstructure:"admin_profiles"`

	TraceEndpoint string  `mapstructure:"trace_endpoint"`
	TraceRatio    float64 `mapstructure:"trace_ratio"`

	Feed     string        `mapstructure:"feed"`
	LogLevel string        `mapstructure:"log_level"`
	Publish  time.Duration `mapstructure:"publish_interval"`
	MaxGrant time.Duration `mapstructure:"max_grant"`
	Ballast  int64         `mapstructure:"ballast_mib"`
	LowWater int64         `mapstructure:"low_water_mib"`
	Stall    time.Duration `mapstructure:"disk_stall"`

	Certificate string `mapstructure:"tls_certificate"`
	Key         string `mapstructure:"tls_key"`

	Witnesses      string        `mapstructure:"witnesses"`
	WitnessTimeout time.Duration `mapstructure:"witness_timeout"`
	WitnessPolicy  string        `mapstructure:"witness_policy"`

	PublisherPages   uint64  `mapstructure:"publisher_pages"`
	PublisherStorage uint64  `mapstructure:"publisher_storage_mib"`
	PublisherRate    float64 `mapstructure:"publisher_rate_mib"`
	PublisherBatches float64 `mapstructure:"publisher_batches"`

	RequestRate    float64       `mapstructure:"request_rate"`
	RequestPages   int           `mapstructure:"request_pages"`
	RequestOrder   string        `mapstructure:"request_order"`
	RequestBacklog uint64        `mapstructure:"request_backlog"`
	RequestTimeout time.Duration `mapstructure:"request_timeout"`

	Gateway            string  `mapstructure:"gateway"`
	GatewayURL         string  `mapstructure:"gateway_url"`
	GatewayPurpose     string  `mapstructure:"gateway_purpose"`
	GatewayRate        float64 `mapstructure:"gateway_rate"`
	GatewayCertificate string  `mapstructure:"gateway_certificate"`
	GatewayKey         string  `mapstructure:"gateway_key"`

	level      slog.Level
	trustStore bool // a flag of run, on purpose in no file
}

// room is what is kept free of the disk.
func (c *config) room() durable.Room {
	return durable.Room{Ballast: c.Ballast << 20, LowWater: c.LowWater << 20}
}

// certificate is the files that the configuration in dir names, nil for none;
// check has seen that both are named.
func (c *config) certificate(dir string) *identity.CertificateFiles {
	files, _ := cli.CertificateFiles(dir, c.Certificate, c.Key)
	return files
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
	err := cli.ReadConfig(dir, configFile, "indexerd", settings().Defaults(), &c)
	if c == (config{}) { // there is no file, or it cannot be read
		return c, err
	}
	return c, cli.With(cli.Config, errors.Join(err, c.check()))
}

// check finds everything that is wrong with the values, each with its key.
func (c *config) check() error {
	return cli.With(cli.Config, errors.Join(append(c.checkAddresses(), c.checkLevel(),
		cli.Within("publish_interval", c.Publish, 100*time.Millisecond, time.Hour),
		cli.Within("max_grant", c.MaxGrant, time.Hour, 2160*time.Hour),
		cli.Within("ballast_mib", c.Ballast, 0, cli.MaxMiB), cli.Within("low_water_mib", c.LowWater, 0, cli.MaxMiB),
		cli.CheckTraces(c.TraceEndpoint, c.TraceRatio),
		cli.Within("disk_stall", c.Stall, time.Second, 10*time.Minute),
		cli.Within("witness_timeout", c.WitnessTimeout, 100*time.Millisecond, time.Minute),
		cli.OneOf("witness_policy", c.WitnessPolicy, policyOpen, policyClosed),
		c.checkAllowance(), c.checkRequests(), c.checkGateway(),
		cli.CheckCertificatePair(c.Certificate, c.Key),
	)...))
}

func (c *config) checkLevel() error {
	if err := c.level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return fmt.Errorf("log_level: want debug, info, warn or error, not %q", c.LogLevel)
	}
	return nil
}

func (c *config) checkAddresses() []error {
	return []error{
		cli.CheckAddress("listen", c.Listen), cli.CheckAddress("public", c.Public),
		cli.CheckAddressOrOff("admin", c.Admin), cli.CheckAddressOrOff("feed", c.Feed), cli.CheckAddressOrOff("gateway", c.Gateway),
	}
}
