#!/bin/bash
# dist-try.sh FOLDER installs the Debian packages that dist.sh left in FOLDER, tries
# them as an operator would, and removes them again: in a throw-away layer over the
# root of this machine, which is not changed. It needs root, and Debian.
set -euo pipefail
dist=$(realpath "$1")
if [ "$(id -u)" -ne 0 ]; then
	echo "only root can install packages, even in a layer of their own" >&2
	exit 1
fi
arch=$(dpkg --print-architecture)

cat >"$dist/.try.sh" <<'TRY'
set -euo pipefail
say() { echo "packages: $*"; }
dpkg -i /dist/*_"$1".deb >/dev/null
for p in indexerd publisherd auditor; do
	"$p" version
	for file in /usr/share/man/man1/$p.1.gz /usr/share/man/man1/$p-version.1.gz /usr/share/doc/$p/copyright \
		/usr/share/bash-completion/completions/$p /usr/share/zsh/vendor-completions/_$p /usr/share/fish/vendor_completions.d/$p.fish; do
		test -s "$file" || { say "$p lacks $file"; exit 1; }
	done
	bash -n /usr/share/bash-completion/completions/$p
	gzip -t /usr/share/man/man1/$p*.gz
	dpkg --verify "$p"
done
for p in indexerd publisherd; do
	test -s /usr/share/doc/$p/examples/alerts.yaml || { say "$p lacks its alerts"; exit 1; }
	test "$(stat -c '%U %a' /var/lib/$p)" = "$p 700" || { say "/var/lib/$p is not its own"; exit 1; }
	systemd-analyze verify --man=no /usr/lib/systemd/system/$p.service
	systemd-analyze security --offline=true --threshold=15 --no-pager /usr/lib/systemd/system/$p.service | tail -1
done
as() { setpriv --reuid="$1" --regid="$1" --clear-groups env -C / HOME=/ "${@:2}"; }
as indexerd indexerd init --dir /var/lib/indexerd --identity spiffe://search.test/indexer --listen 127.0.0.1:0 --public 127.0.0.1:0 --admin 127.0.0.1:0 \
	--endpoint search.test:7443 --log-url http://search.test >/dev/null 2>&1
as publisherd publisherd init --dir /var/lib/publisherd --identity spiffe://docs.test/publisher --origin https://docs.test >/dev/null 2>&1
as indexerd indexerd check-config --dir /var/lib/indexerd
as publisherd publisherd check-config --dir /var/lib/publisherd
dpkg -r indexerd publisherd auditor >/dev/null
test ! -e /usr/bin/indexerd && test -e /var/lib/indexerd/identity.json || { say "removal took the wrong things"; exit 1; }
say "installed, tried and removed"
TRY
trap 'rm -f "$dist/.try.sh"' EXIT
unshare -m bash -euc '
	mount --make-rprivate /
	layer=$(mktemp -d)
	mount -t tmpfs -o size=1g none "$layer"
	mkdir "$layer/up" "$layer/work" "$layer/root"
	mount -t overlay none -o "lowerdir=/,upperdir=$layer/up,workdir=$layer/work" "$layer/root"
	mkdir -p "$layer/root/dist"
	mount --bind "$1" "$layer/root/dist"
	mount --rbind /dev "$layer/root/dev"
	mount -t proc none "$layer/root/proc"
	exec chroot "$layer/root" bash /dist/.try.sh "$2"
' try "$dist" "$arch"
