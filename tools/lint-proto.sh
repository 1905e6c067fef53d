#!/bin/bash
# lint-proto.sh checks the protocol's files: their style, that they still speak
# to what the branch main speaks, and that the Go code beside them is theirs.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
buf=${BUF:-$go tool -modfile=tools/go.mod buf}

if [ -z "$(find proto -name '*.proto' 2>/dev/null)" ]; then
	echo "proto/ holds no .proto file: nothing to lint"
	exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "buf lint"
$buf lint

# A clone may hold no more than a detached HEAD; then there is nothing to compare.
main=
for ref in refs/heads/main refs/remotes/origin/main; do
	if git rev-parse --verify --quiet "$ref^{commit}" >/dev/null 2>&1; then
		main=$ref
		break
	fi
done
if [ -z "$main" ]; then
	echo "buf breaking: this clone has no branch main to compare with"
elif [ -z "$(git ls-tree -r --name-only "$main" -- proto | grep '\.proto$' || true)" ]; then
	echo "buf breaking: $main has no .proto file yet"
else
	echo "buf breaking --against $main"
	mkdir "$scratch/main"
	git archive "$main" proto | tar -x -C "$scratch/main"
	cp buf.yaml "$scratch/main"
	$buf breaking --against "$scratch/main"
fi

# The copy keeps what people wrote and makes the rest anew, so that a file
# that is old, missing or left over shows up as a difference.
echo "buf generate, compared with what is committed"
mkdir "$scratch/new"
cp -R proto "$scratch/new/proto"
find "$scratch/new" -name '*.pb.go' -delete
$buf generate -o "$scratch/new"
if ! diff -r proto "$scratch/new/proto"; then
	echo "The generated code is not what proto/ says; run make gen and commit the result." >&2
	exit 1
fi
