#!/bin/bash
# Builds what is handed out, into the folder $1 (dist): for each architecture an
# archive of all three programs with manual pages, completions and units, and a
# Debian package of each; and SHA256SUMS. The same commit gives the same octets,
# in whatever folder and whenever it is built; tools/dist-check.sh compares.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
version=${VERSION:-$(git describe --tags --match 'v[0-9]*' 2>/dev/null || echo "0.0.0-$(git log -1 --format=%cd --date=format:%Y%m%d).$(git rev-parse --short=12 HEAD)")}
version=${version#v}
export VERSION=$version CGO_ENABLED=0 GOFLAGS="-trimpath -mod=readonly"
rm -rf "$out"
mkdir -p "$out"
programs=(publisherd indexerd auditor)

# The pages and completions come from a build for this machine.
host=$(mktemp -d)
trap 'rm -rf "$host"' EXIT
go build -o "$host/" "${programs[@]/#/./}"
for p in "${programs[@]}"; do
	"$host/$p" man "$host/man/$p"
	gzip -9n "$host/man/$p"/*.1
	mkdir -p "$host/completions"
	"$host/$p" completion bash >"$host/completions/$p.bash"
	"$host/$p" completion zsh >"$host/completions/_$p"
	"$host/$p" completion fish >"$host/completions/$p.fish"
done
cp /etc/ssl/certs/ca-certificates.crt "$out/" 2>/dev/null || echo "no CA certificates here: a container built from this trusts no web server" >&2

for arch in ${ARCHS:-amd64 arm64}; do
	stage=$out/linux-$arch
	mkdir -p "$stage/bin"
	GOOS=linux GOARCH=$arch go build -ldflags "-s -w -buildid=" -o "$stage/bin/" "${programs[@]/#/./}"
	cp -r "$host/man" "$host/completions" "$stage/"
	mkdir -p "$stage/systemd"
	cp deploy/systemd/*.service "$stage/systemd/"
	cp LICENSE README.md NEWS.md deploy/alerts.yaml "$stage/"
	for p in "${programs[@]}"; do
		ARCH=$arch STAGE=$stage "$(GOFLAGS='' GOWORK=off go -C tools/dist tool -n nfpm)" package --packager deb --config "deploy/debian/$p.yaml" --target "$out/"
	done
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
		-C "$out" --transform "s,^linux-$arch,uzpif-oi-$version-linux-$arch," -cf - "linux-$arch" |
		gzip -9n >"$out/uzpif-oi-$version-linux-$arch.tar.gz"
done
cd "$out"
sha256sum -- *.deb *.tar.gz >SHA256SUMS
cat SHA256SUMS
