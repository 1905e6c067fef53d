package main

import "github.com/uzpif-oi/uzpif-oi/internal/cli"

const configHead = `publisherd: the publishing side. Each setting is shown with its default. The
environment wins over this file: PUBLISHERD_LOG_LEVEL=debug, and so on. Sources,
trusted indexers and grants are files of their own beside this one; use the
commands "source", "trust" and "grant".`

// settings are the keys of publisherd.yaml.
func settings() cli.Settings {
	all := cli.Settings{
		{Key: "rescan_interval", Default: "5m", Values: "a duration, 1s to 24h", Live: true,
			Doc: "How often \"run\" scans each collection, even if nothing seems to have changed. Changes of files are noticed within seconds; this finds what went unnoticed."},
		{Key: "verify_interval", Default: "24h", Values: "a duration, 0 to 720h; 0 is each scan", Live: true,
			Doc: "How often a scan of a folder reads every file. Otherwise it reads those that have moved since, by their size, times and place on the disk."},
		{Key: "admin", Default: `"off"`, Values: "HOST:PORT, or off",
			Doc: "Where \"run\" serves the status page, /healthz, /readyz and /metrics; keep it on loopback. It answers to its address, to localhost, and to the name that stands here. Off opens no port."},
		{Key: "admin_profiles", Default: "false", Values: "true or false",
			Doc: "Whether /debug/pprof/ is served there too."},
		{Key: "ballast_mib", Default: "16", Values: "MiB, 0 to 1048576; 0 is none",
			Doc: "How much of the disk is held back in store.ballast, to be given up when a write finds no room. Receipts are taken down to the last."},
		{Key: "low_water_mib", Default: "64", Values: "MiB, 0 to 1048576; 0 asks for none",
			Doc: "How much of the disk has to be free for collections to be scanned."},
		{Key: "disk_stall", Default: "30s", Values: "a duration, 1s to 10m",
			Doc: "How long a write may take before /readyz reports the disk; after four times as long the program ends, as after a write that failed."},
		{Key: "reply_timeout", Default: "2m", Values: "a duration, 1s to 1h", Live: true,
			Doc: "How long an indexer may take for one answer. A batch is answered when it is in the log."},
		{Key: "patch_cache_mib", Default: "256", Values: "MiB for each agreement, 0 to 1048576; 0 is none, and changed pages go whole",
			Doc: "How much of the delivered pages is kept in the store, so that a change is sent as the difference to what the indexer has."},
		{Key: "proxy", Default: `""`, Values: "http://HOST:PORT, https://HOST:PORT, or off; empty is HTTPS_PROXY of the environment",
			Doc: "The HTTP proxy through which indexers are dialled; it resolves their names. What NO_PROXY names is dialled directly."},
		{Key: "proxy_credentials_file", Default: `""`, Values: "the path of a file that nobody but its owner may read",
			Doc: "Holds \"Basic USER:PASSWORD\" or \"Bearer TOKEN\" for the proxy."},
	}
	all = append(append(all, cli.CertificateSettings()...), cli.TraceSettings()...)
	return append(all, cli.Setting{Key: "log_level", Default: "info", Values: "debug, info, warn or error", Live: true,
		Doc: "What is logged. Commands other than \"run\" leave info out, which tells of what goes well."})
}
