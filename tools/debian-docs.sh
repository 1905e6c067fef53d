#!/bin/bash
# debian-docs.sh FOLDER PACKAGE… unpacks Debian packages of documentation into
# FOLDER, without installing them: one of them may be in conflict with a program
# that is installed here, and apt-get would remove that.
set -euo pipefail

folder=$1
shift
mkdir -p "$folder"
for package in "$@"; do
	[ ! -e "$folder/.$package" ] || continue
	if ! command -v apt-get >/dev/null; then
		echo "These tests read the Debian package $package, and this machine has no apt-get; run them on Debian." >&2
		exit 1
	fi
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	chmod 755 "$work"
	fetch() { (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package"); }
	if ! fetch; then
		echo "Fetching the package lists, then trying once more"
		apt-get update -qq
		fetch
	fi
	dpkg-deb -x "$work"/*.deb "$folder"
	touch "$folder/.$package"
	rm -rf "$work"
done
echo "Unpacked in $folder: $*"
