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
	"text/template"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// configFile is written once by init, and never rewritten.
const configFile = "indexerd.yaml"

// config is indexerd.yaml. A flag wins over the environment (INDEXERD_LISTEN
// …), that over the file, and that over the default.
type config struct {
	Listen   string        `mapstructure:"listen"`
	Public   string        `mapstructure:"public"`
	Admin    string        `mapstructure:"admin"`
	Profiles bool          `mapstructure:"admin_profiles"`
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

# Where the status page, /healthz, /readyz and /metrics are served, as host:port;
# keep it on loopback. It answers to its address, to localhost, and to the name that
# stands here. "off" serves them nowhere. admin_profiles adds /debug/pprof/.
admin: {{.Admin}}
# admin_profiles: false

# Where consumers read the feed (mutual TLS), as host:port. "off" serves it to
# nobody; "consumer add" says who may read, and for what.
# feed: "off"

# Where pages whose policy lets them be passed on are handed out again, to anybody
# (TCT and SCP over HTTPS; doc/export.md), as host:port, or "off". gateway_url is the
# root by which others reach it. Whoever asks is taken to read for gateway_purpose, and
# may ask gateway_rate times a second, 0 to 1000000, where 0 is no limit. Certificate
# and key are files, loaded again when they are replaced; without them it has to be on
# loopback, behind a proxy that says whom it asks for by X-Forwarded-For.
# gateway: "off"
# gateway_url: ""
# gateway_purpose: rag.retrieve
# gateway_rate: 20
# gateway_certificate: ""
# gateway_key: ""

# A file that names the witnesses who cosign published checkpoints, and how many
# of them must (C2SP tlog-policy; doc/metrics.md has an example). Empty: nobody.
# Each has witness_timeout to answer, from 100ms to 1m. Once it is over, "open"
# publishes without the quorum, and "closed" holds the checkpoint back, so that
# the older one stays served. Receipts wait for neither.
# witnesses: ""
# witness_timeout: 5s
# witness_policy: open

# How often a checkpoint is published while the log grows.
# publish_interval: 1s

# The longest life of a grant that is accepted.
# max_grant: 2160h

# A full disk: how many MiB are held back in store.ballast, to be given up when
# a write finds no room, and how many have to be free for batches to be taken.
# Consent that is withdrawn is taken, and the log served, down to the last. 0 is
# none of it.
# ballast_mib: 64
# low_water_mib: 256

# How long a write may take before /readyz reports the disk; after four times as
# long the program ends, as after a write that failed.
# disk_stall: 30s

# Pages that grants of mode request or both let this indexer ask for (doc/freshness.md):
# how many a second, of each publisher, 0 to 100000, where 0 asks for nothing; how
# many may be asked for and not answered, of each publisher, 1 to 256; whether what
# was signalled last comes first (newest) or last (oldest); how many of one series
# are kept to be asked for, 1 to 100000000, beyond which those whose turn is last
# are dropped; and how long a request may bring nothing before it is taken back,
# from 1s to 1h. What a grant itself limits comes on top.
# request_rate: 50
# request_pages: 64
# request_order: newest
# request_backlog: 1000000
# request_timeout: 2m

` + cli.CertificateSettings + `
# What is logged: debug, info, warn or error.
# log_level: info
`

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

// writeConfig writes the commented configuration, and settings behind it.
func writeConfig(dir string, c config, settings string) error {
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
	return durable.WriteFile(path, []byte(b.String()+settings), 0o644)
}

func loadConfig(dir string) (config, error) {
	var c config
	err := cli.ReadConfig(dir, configFile, "indexerd", map[string]any{
		"listen": defaultListen, "public": defaultPublic, "admin": defaultAdmin, "admin_profiles": false, "feed": "off",
		"log_level": "info", "publish_interval": "1s", "max_grant": "2160h",
		"witnesses": "", "witness_timeout": "5s", "witness_policy": policyOpen,
		"ballast_mib": 64, "low_water_mib": 256, "disk_stall": "30s",
		"tls_certificate": "", "tls_key": "",
		"gateway": "off", "gateway_url": "", "gateway_purpose": "rag.retrieve", "gateway_rate": 20.0,
		"gateway_certificate": "", "gateway_key": "",
		"request_rate": 50, "request_pages": 64, "request_order": orderNewest, "request_backlog": 1_000_000, "request_timeout": "2m",
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
	for name, addr := range map[string]string{"listen": c.Listen, "public": c.Public, "admin": c.Admin, "feed": c.Feed} {
		if (name == "admin" || name == "feed") && addr == "off" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return cli.Errorf(cli.Config, "%s: %w", name, err)
		}
	}
	if c.Publish < 100*time.Millisecond || c.Publish > time.Hour {
		return cli.Errorf(cli.Config, "publish_interval: %s, want 100ms to 1h", c.Publish)
	}
	for name, mib := range map[string]int64{"ballast_mib": c.Ballast, "low_water_mib": c.LowWater} {
		if mib < 0 || mib > 1<<20 {
			return cli.Errorf(cli.Config, "%s: %d, want 0 to 1048576", name, mib)
		}
	}
	if c.Stall < time.Second || c.Stall > 10*time.Minute {
		return cli.Errorf(cli.Config, "disk_stall: %s, want 1s to 10m", c.Stall)
	}
	if c.WitnessTimeout < 100*time.Millisecond || c.WitnessTimeout > time.Minute {
		return cli.Errorf(cli.Config, "witness_timeout: %s, want 100ms to 1m", c.WitnessTimeout)
	}
	if c.WitnessPolicy != policyOpen && c.WitnessPolicy != policyClosed {
		return cli.Errorf(cli.Config, "witness_policy: %.40q, want open or closed", c.WitnessPolicy)
	}
	if err := errors.Join(c.checkRequests(), c.checkGateway()); err != nil {
		return err
	}
	if _, err := cli.CertificateFiles("", c.Certificate, c.Key); err != nil {
		return err
	}
	if c.MaxGrant < time.Hour || c.MaxGrant > 2160*time.Hour {
		return cli.Errorf(cli.Config, "max_grant: %s, want 1h to 2160h", c.MaxGrant)
	}
	return nil
}
