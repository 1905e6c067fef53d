#!/bin/bash
# debian-packages.sh PACKAGE… installs what is missing of the named packages.
# It touches nothing, and needs neither root nor a network, if all are there.
set -euo pipefail

missing=()
for package in "$@"; do
	state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
	echo "Debian packages are all installed: $*"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "These tests need the Debian packages ${missing[*]}, and this machine has no apt-get; run them on Debian." >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "The Debian packages ${missing[*]} are missing, and only root can install them; run as root: apt-get install ${missing[*]}" >&2
	exit 1
fi

export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-remove --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}"; }
echo "Installing ${missing[*]}"
# The package lists may be absent or too old; only then are they fetched.
if ! install; then
	echo "Fetching the package lists, then trying once more"
	apt-get update -qq
	install
fi
