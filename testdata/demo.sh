#!/usr/bin/env bash
# The whole of it in one go, on this machine: two identities in ./demo, a push
# of testdata/site, the receipt, the audit, an edit pushed as a delta, a push
# with nothing to say, a kill -9 in the middle, a revocation with both
# acknowledgements, and the audit of it all. Exits 0 when every step did what it
# should.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/bin:$PATH
demo=$PWD/demo
step() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

rm -rf "$demo"
mkdir -p "$demo"
cp -r testdata/site "$demo/site"

step "Two identities: an indexer and a publisher, with keys, certificate and card"
run indexerd init --dir demo/indexer --identity spiffe://search.example/indexer \
  --listen 127.0.0.1:0 --public 127.0.0.1:0 --admin off --endpoint indexer.example:7443 --log-url http://indexer.example
run publisherd init --dir demo/publisher --identity spiffe://docs.example/publisher --origin https://docs.example

step "They exchange their cards, once"
indexerd card --dir demo/indexer >demo/indexer.card.json
publisherd card --dir demo/publisher >demo/publisher.card.json
run indexerd trust add demo/publisher.card.json --origin https://docs.example --dir demo/indexer

step "The indexer begins to listen"
indexerd run --dir demo/indexer 2>demo/indexer.log &
indexer=$!
trap 'kill "$indexer" 2>/dev/null || true' EXIT
for _ in $(seq 300); do [ -s demo/indexer/run.json ] && break; sleep 0.1; done
address() { sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p' demo/indexer/run.json; }
listen=$(address listen) public=$(address public)
[ -n "$listen" ] && [ -n "$public" ] || { cat demo/indexer.log >&2; exit 1; }

step "The publisher trusts it, names its pages, and grants two purposes"
run publisherd trust add demo/indexer.card.json --endpoint "$listen" --dir demo/publisher
run publisherd source add site --kind site --location demo/site --base-url https://docs.example/ --dir demo/publisher
run publisherd grant issue --indexer spiffe://search.example/indexer --source site \
  --scope https://docs.example/ --purpose search.index --purpose rag.retrieve --dir demo/publisher

step "The first push"
run publisherd push --dir demo/publisher
run publisherd receipts list --dir demo/publisher
run indexerd status --dir demo/indexer

step "What was acknowledged about one page, proven by someone who trusts neither"
run publisherd evidence https://docs.example/ -o demo/evidence.json --dir demo/publisher
run auditor verify demo/evidence.json --key demo/indexer.card.json --key demo/publisher.card.json --log "http://$public"

step "An edit: one page goes"
cat >demo/site/index.html <<'HTML'
<!DOCTYPE html>
<html lang="en"><head><title>Edited</title></head>
<body><main><h1>Edited</h1><p>The front page, as it reads after the edit.</p></main></body></html>
HTML
publisherd push --json --dir demo/publisher | tee demo/delta.json
grep -q '"sent":1,' demo/delta.json

step "Nothing to say: nothing goes"
publisherd push --json --dir demo/publisher | tee demo/empty.json
grep -q '"sent":0,' demo/empty.json

step "A kill -9 in the middle: the indexer dies while pages are on their way"
for page in demo/site/docs/*.html demo/site/notes/*.html; do
  sed -i 's#</body>#<p>Edited before the accident.</p></body>#' "$page"
done
publisherd push --dir demo/publisher >demo/killed.txt 2>&1 &
push=$!
kill -9 "$indexer"
wait "$push" && printf 'the push was faster than the kill\n' || printf 'the push was cut off\n'
wait "$indexer" 2>/dev/null || true
rm -f demo/indexer/run.json
INDEXERD_LISTEN=$listen INDEXERD_PUBLIC=$public indexerd run --dir demo/indexer 2>>demo/indexer.log &
indexer=$!
for _ in $(seq 300); do [ -s demo/indexer/run.json ] && break; sleep 0.1; done
run publisherd push --dir demo/publisher
publisherd push --json --dir demo/publisher | tee demo/after.json
grep -q '"sent":0,' demo/after.json
run publisherd receipts verify --dir demo/publisher

step "The publisher takes its consent back, and has everything deleted"
grant=$(publisherd grant list --json --dir demo/publisher | sed -n 's/.*"grant_id":"\([^"]*\)".*/\1/p')
run publisherd grant revoke "$grant" --disposition delete --dir demo/publisher
indexerd status --json --dir demo/indexer | tee demo/revoked.json
grep -q '"pages":0,' demo/revoked.json
run publisherd status --dir demo/publisher

step "The audit of the whole: delivery then, deletion now, one unbroken log"
run auditor verify demo/evidence.json --key demo/indexer.card.json --key demo/publisher.card.json --log "http://$public"
run publisherd receipts verify --dir demo/publisher
run auditor lint "http://$public" --key demo/indexer.card.json
run auditor follow "http://$public" --key demo/indexer.card.json --state demo/followed --once

step "The indexer stops"
kill -TERM "$indexer"
wait "$indexer"
trap - EXIT
printf '\nAll of it is in ./demo: look around.\n'
