#!/bin/bash
# Builds twice, from two clones in folders of different names, and requires the
# same octets. Then, as root on Debian, the packages are installed and tried in a
# layer of their own (tools/dist-try.sh), and the image is built if buildah is there
# (tools/image-check.sh).
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
if [ "$(id -u)" -ne 0 ] || ! command -v dpkg >/dev/null; then
	echo "the packages were not tried: that takes root, and Debian"
	exit 0
fi
tools/dist-try.sh "$work/one/dist"
if command -v buildah >/dev/null; then
	tools/image-check.sh "$work/one/dist"
else
	echo "the image was not built: buildah is not installed"
fi
