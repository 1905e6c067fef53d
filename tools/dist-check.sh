#!/bin/bash
# Builds twice, from two clones in folders of different names, and requires the
# same octets.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for clone in one another-folder; do
	git clone -q --no-hardlinks . "$work/$clone"
	ARCHS=${ARCHS:-amd64} "$work/$clone/tools/dist.sh" "$work/$clone/dist" >/dev/null
done
diff "$work/one/dist/SHA256SUMS" "$work/another-folder/dist/SHA256SUMS"
echo "two builds are the same to the octet:"
cat "$work/one/dist/SHA256SUMS"
