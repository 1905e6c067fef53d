#!/bin/bash
# image-check.sh FOLDER builds the image of each daemon by deploy/Containerfile from
# what dist.sh left in FOLDER, with buildah and without a daemon, and looks at it: who
# runs it, what is in it, and that on a root that cannot be written to its program
# makes an identity, runs, and ends in order.
set -euo pipefail
dist=$(realpath "$1")
cd "$(dirname "$0")/.."
store=$(mktemp -d)
b() { buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
trap 'b umount --all >/dev/null 2>&1 || true; rm -rf "$store"' EXIT

# inside runs a command as the image's user, with $root as a root that is read-only
# but for /data, which is $data. The command takes its place, and its signals.
inside() {
	exec unshare -m bash -euc '
		mount --make-rprivate /
		mount --bind "$1" "$1"
		mount --bind "$2" "$1/data"
		mount -t proc none "$1/proc"
		mount -o remount,bind,ro "$1"
		cd "$1"
		shift 2
		exec chroot --userspec=65532:65532 . "$@"
	' image "$root" "$data" "$@"
}

for program in indexerd publisherd; do
	b build -q --isolation chroot --network host -f deploy/Containerfile --build-arg "PROGRAM=$program" -t "$program" "$dist" >/dev/null
	user=$(b inspect --type image --format '{{.OCIv1.Config.User}}' "$program")
	[ "$user" = 65532:65532 ] || { echo "$program: the image runs as $user" >&2; exit 1; }
	container=$(b from "$program")
	root=$(b mount "$container")
	files=$(cd "$root" && find . -type f | sort | tr '\n' ' ')
	[ "$files" = "./etc/ssl/certs/ca-certificates.crt ./program " ] || { echo "$program: the image holds $files" >&2; exit 1; }
	data=$store/data-$program
	install -d -o 65532 -g 65532 -m 0700 "$data"
	mkdir -p "$root/data" "$root/proc"
	(inside /program version)
	case $program in
	indexerd) init=(--identity spiffe://search.test/indexer --listen 127.0.0.1:0 --public 127.0.0.1:0 --admin 127.0.0.1:0 --endpoint search.test:7443 --log-url http://search.test) ;;
	publisherd) init=(--identity spiffe://docs.test/publisher --origin https://docs.test) ;;
	esac
	(inside /program init --dir /data "${init[@]}") 2>"$store/log" >/dev/null || { cat "$store/log" >&2; exit 1; }
	(inside /program check-config --dir /data)
	(inside /program run --dir /data) 2>"$store/log" &
	daemon=$!
	for _ in $(seq 300); do
		[ -e "$data/run.json" ] && break
		sleep 0.1
	done
	[ -e "$data/run.json" ] || { kill "$daemon" || true; cat "$store/log" >&2; echo "$program does not run on a root that is read-only" >&2; exit 1; }
	kill -TERM "$daemon"
	wait "$daemon" || { cat "$store/log" >&2; echo "$program ended with an error" >&2; exit 1; }
	echo "$program: the image is built, holds the program alone, and runs as $user on a root that is read-only"
done
