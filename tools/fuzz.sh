#!/bin/bash
# fuzz.sh TIME runs every fuzz target of this module for TIME, one after the
# other, and goes on after a failure; it ends with the names of those that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
budget=${1:-10s}

listing=$($go test -list '^Fuzz' ./...)
# The names of a package's targets stand above its "ok" line.
targets=$(awk '/^Fuzz/ { names[n++] = $1 } /^ok/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' <<<"$listing")
if [ -z "$targets" ]; then
	echo "There is no fuzz target yet."
	exit 0
fi

failed=()
while read -r package name; do
	echo "== $package $name, $budget"
	$go test -run '^$' -fuzz "^$name\$" -fuzztime "$budget" -fuzzminimizetime 10x "$package" </dev/null || failed+=("$package $name")
done <<<"$targets"

if [ ${#failed[@]} -gt 0 ]; then
	echo "These fuzz targets failed; each left its input below testdata/fuzz:" >&2
	printf '  %s\n' "${failed[@]}" >&2
	exit 1
fi
echo "$(wc -l <<<"$targets") fuzz targets, no failure"
