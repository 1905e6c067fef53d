package main

import "github.com/uzpif-oi/uzpif-oi/internal/cli"

// Defaults of the addresses.
const (
	defaultListen = "127.0.0.1:7443"
	defaultPublic = "127.0.0.1:7480"
	defaultAdmin  = "127.0.0.1:7482"
)

const configHead = `indexerd: the receiving side. Each setting that is commented out is shown with
its default. The environment wins over this file: INDEXERD_LISTEN=…, and so on.
Trusted publishers are files of their own beside this one; use "trust".`

// settings are the keys of indexerd.yaml.
func settings() cli.Settings {
	all := append(listenSettings(), gatewaySettings()...)
	all = append(append(all, logSettings()...), limitSettings()...)
	all = append(append(all, requestSettings()...), cli.CertificateSettings()...)
	all = append(all, cli.TraceSettings()...)
	return append(all, cli.Setting{Key: "log_level", Default: "info", Values: "debug, info, warn or error", Live: true, Doc: "What is logged."})
}

func listenSettings() cli.Settings {
	return cli.Settings{
		{Key: "listen", Default: defaultListen, Values: "HOST:PORT",
			Doc: "Where publishers' sessions are accepted (mutual TLS). Port 0 takes a free one; run.json tells which."},
		{Key: "public", Default: defaultPublic, Values: "HOST:PORT",
			Doc: "Where the public, read-only side of the log is served (HTTP)."},
		{Key: "admin", Default: defaultAdmin, Values: "HOST:PORT, or off",
			Doc: "Where the status page, /healthz, /readyz and /metrics are served; keep it on loopback. It answers to its address, to localhost, and to the name that stands here."},
		{Key: "admin_profiles", Default: "false", Values: "true or false",
			Doc: "Whether /debug/pprof/ is served there too."},
		{Key: "feed", Default: `"off"`, Values: "HOST:PORT, or off",
			Doc: "Where consumers read the feed (mutual TLS). \"consumer add\" says who may read, and for what."},
	}
}

func gatewaySettings() cli.Settings {
	return cli.Settings{
		{Key: "gateway", Default: `"off"`, Values: "HOST:PORT, or off; without a certificate, on loopback",
			Doc: "Where pages whose policy lets them be passed on are handed out again, to anybody (TCT and SCP over HTTPS; doc/export.md). Without a certificate it stands behind a proxy that says whom it asks for by X-Forwarded-For."},
		{Key: "gateway_url", Default: `""`, Values: "the root of an origin, such as https://mirror.example/",
			Doc: "The root by which others reach the gateway."},
		{Key: "gateway_purpose", Default: "rag.retrieve", Values: "a purpose",
			Doc: "What whoever asks the gateway is taken to read for."},
		{Key: "gateway_rate", Default: "20", Values: "requests a second, 0 to 1000000; 0 is no limit", Live: true,
			Doc: "How often each client may ask the gateway."},
		{Key: "gateway_certificate", Default: `""`, Values: "the path of a PEM file, from this folder on if it is not absolute",
			Doc: "The gateway's certificate, with gateway_key; both are loaded again when they are replaced."},
		{Key: "gateway_key", Default: `""`, Values: "the path of a PEM file",
			Doc: "Its key."},
	}
}

func logSettings() cli.Settings {
	return cli.Settings{
		{Key: "witnesses", Default: `""`, Values: "the path of a policy file, from this folder on if it is not absolute; empty is nobody",
			Doc: "The witnesses who cosign published checkpoints, and how many of them must (C2SP tlog-policy; doc/metrics.md has an example)."},
		{Key: "witness_timeout", Default: "5s", Values: "a duration, 100ms to 1m",
			Doc: "How long each witness has to answer. Receipts wait for none."},
		{Key: "witness_policy", Default: policyOpen, Values: "open or closed",
			Doc: "Once the time is over, open publishes without the quorum, and closed holds the checkpoint back, so that the older one stays served."},
		{Key: "publish_interval", Default: "1s", Values: "a duration, 100ms to 1h",
			Doc: "How often a checkpoint is published while the log grows."},
		{Key: "max_grant", Default: "2160h", Values: "a duration, 1h to 2160h", Live: true,
			Doc: "The longest life of a grant that is accepted. What is agreed already stays."},
		{Key: "ballast_mib", Default: "64", Values: "MiB, 0 to 1048576; 0 is none",
			Doc: "How much of the disk is held back in store.ballast, to be given up when a write finds no room. Consent that is withdrawn is taken, and the log served, down to the last."},
		{Key: "low_water_mib", Default: "256", Values: "MiB, 0 to 1048576; 0 asks for none",
			Doc: "How much of the disk has to be free for batches to be taken."},
		{Key: "disk_stall", Default: "30s", Values: "a duration, 1s to 10m",
			Doc: "How long a write may take before /readyz reports the disk; after four times as long the program ends, as after a write that failed."},
	}
}

func limitSettings() cli.Settings {
	return cli.Settings{
		{Key: "publisher_pages", Default: "20000000", Values: "pages, 0 to 1000000000; 0 is no limit", Live: true,
			Doc: "How many pages are held of one publisher, over all its agreements. What a grant itself limits comes on top of these four (doc/limits.md)."},
		{Key: "publisher_storage_mib", Default: "102400", Values: "MiB of payload, 0 to 1048576; 0 is no limit", Live: true,
			Doc: "How much is held of one publisher, over all its agreements. Beyond it batches that add are refused until it deletes something; deletions and revocations are always taken."},
		{Key: "publisher_rate_mib", Default: "256", Values: "MiB a second, 0 to 1048576; 0 is no limit", Live: true,
			Doc: "How much one publisher may send, decompressed, in the long run. What is above that waits before it is read."},
		{Key: "publisher_batches", Default: "200", Values: "batches a second, 0 to 100000; 0 is no limit", Live: true,
			Doc: "How many batches one publisher may send, each of which stays in the log for ever. What is above that waits before it is read."},
	}
}

func requestSettings() cli.Settings {
	return cli.Settings{
		{Key: "request_rate", Default: "50", Values: "pages a second, 0 to 100000; 0 asks for nothing", Live: true,
			Doc: "How many pages are asked for of each publisher whose grants are of mode request or both (doc/freshness.md). What a grant limits comes on top."},
		{Key: "request_pages", Default: "64", Values: "pages, 1 to 256", Live: true,
			Doc: "How many may be asked for and not answered, of each publisher."},
		{Key: "request_order", Default: orderNewest, Values: "newest or oldest", Live: true,
			Doc: "Whether what was signalled last is asked for first or last."},
		{Key: "request_backlog", Default: "1000000", Values: "pages, 1 to 100000000", Live: true,
			Doc: "How many pages of one series are kept to be asked for; beyond it those whose turn is last are dropped."},
		{Key: "request_timeout", Default: "2m", Values: "a duration, 1s to 1h", Live: true,
			Doc: "How long a request may bring nothing before it is taken back."},
	}
}
