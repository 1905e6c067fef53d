#!/bin/bash
# image-check.sh FOLDER builds the image of each daemon by deploy/Containerfile from
# what dist.sh left in FOLDER, with buildah and without a daemon or a network, and
# looks at it: who runs it, what is in it, and that its program works on a root that
# cannot be written to.
set -euo pipefail
dist=$(realpath "$1")
cd "$(dirname "$0")/.."
store=$(mktemp -d)
b() { buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"; }
trap 'b umount --all >/dev/null 2>&1 || true; rm -rf "$store"' EXIT
for program in indexerd publisherd; do
	b build -q --isolation chroot --network none -f deploy/Containerfile --build-arg "PROGRAM=$program" -t "$program" "$dist" >/dev/null
	user=$(b inspect --type image --format '{{.OCIv1.Config.User}}' "$program")
	[ "$user" = 65532:65532 ] || { echo "$program: the image runs as $user" >&2; exit 1; }
	container=$(b from "$program")
	root=$(b mount "$container")
	files=$(cd "$root" && find . -type f | sort | tr '\n' ' ')
	[ "$files" = "./etc/ssl/certs/ca-certificates.crt ./program " ] || { echo "$program: the image holds $files" >&2; exit 1; }
	data=$store/data-$program
	install -d -o 65532 -g 65532 -m 0700 "$data"
	mkdir -p "$root/data" "$root/proc"
	unshare -m bash -euc '
		mount --make-rprivate /
		mount --bind "$1" "$1"
		mount --bind "$2" "$1/data"
		mount -t proc none "$1/proc"
		mount -o remount,bind,ro "$1"
		shift 2
		exec chroot --userspec=65532:65532 "$@"
	' image "$root" "$data" "$root" /program version
	echo "$program: the image is built, runs as $user, and holds the program alone"
done
