#!/usr/bin/env bash
# kill -9 of the owner of an array whose pool has 10 TiB mapped, until a host reads a block from the next node: at most LIMIT_S seconds (the bar
# is for 1 TiB).
#   judges/takeover.sh [ROUNDS]   (default 3)
# Two nodes on one file drive with a registry directory; the lease is that of every registry. Needs qemu-io, and the example open_ten_tb,
# which makes the pool: a sparse file, every page mapped and scattered. MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly ROUNDS=${1:-3} LIMIT_S=15 GIVE_UP_S=60
readonly TARGET=iqn.2026-11.example.masu:takeover
readonly DRIVE=$PWD/target/open_ten_tb.drive
masu=${MASU:-target/release/masu}
maker=$(dirname "$masu")/examples/open_ten_tb
for needed in "$masu" "$maker"; do
  [ -x "$needed" ] || { echo "takeover: $needed is missing" >&2; exit 2; }
done
# shellcheck source=judges/ports.sh
. judges/ports.sh
mkdir -p target/judges
dir=$(mktemp -d "$PWD/target/judges/takeover.XXXXXX")
declare -A pid port=([n1]=$(free_port) [n2]=$(free_port))
stop() {
  trap - EXIT INT TERM
  local node
  for node in "${pid[@]}"; do kill -KILL "$node" 2>/dev/null || true; done
  rm -rf "$dir" "$DRIVE"
}
trap stop EXIT
trap 'exit 130' INT TERM

now_ms() { echo $(($(date +%s%N) / 1000000)); }
# start NODE: one that has ended begins anew.
start() {
  "$masu" serve --node "$1" --listen "127.0.0.1:${port[$1]}" --registry "$dir/registry" --data "$dir/$1" --config "$dir/array.toml" >>"$dir/$1.log" 2>&1 &
  pid[$1]=$!
  disown "${pid[$1]}"
}
url() { echo "iscsi://127.0.0.1:${port[$1]}/$TARGET/0"; }
# until_done NODE WHAT BEGUN COMMAND...: COMMAND succeeds, before GIVE_UP_S are over.
until_done() {
  local node=$1 what=$2 begun=$3
  shift 3
  until "$@" >/dev/null 2>&1; do
    kill -0 "${pid[$node]}" 2>/dev/null || { echo "takeover: node $node ended: $(tail -n 1 "$dir/$node.log")" >&2; exit 1; }
    [ $(($(now_ms) - begun)) -lt $((GIVE_UP_S * 1000)) ] || { echo "takeover: $what: not after $GIVE_UP_S s: $(tail -n 1 "$dir/$node.log")" >&2; exit 1; }
    sleep 0.02
  done
}

"$maker" keep >"$dir/made"
printf 'target = "%s"\n' "$TARGET" >"$dir/array.toml"
start n1
until_done n1 "status of n1" "$(now_ms)" env MASU_DATA="$dir/n1" "$masu" status
MASU_DATA=$dir/n1 "$masu" pool import --force "$DRIVE" >/dev/null
MASU_DATA=$dir/n1 "$masu" host set any '*' >/dev/null
MASU_DATA=$dir/n1 "$masu" host map any v3 >/dev/null
until_done n1 "a read at n1" "$(now_ms)" qemu-io -r -f raw -c "read 0 4k" "$(url n1)"
start n2
owner=n1 next=n2
for round in $(seq "$ROUNDS"); do
  until_done "$next" "standby of $owner" "$(now_ms)" grep -q "standby of $owner" "$dir/$next.log"
  # What a journal has that no checkpoint took over.
  qemu-io -f raw -c "write -P $round 0 64k" -c flush "$(url "$owner")" >/dev/null
  begun=$(now_ms)
  kill -KILL "${pid[$owner]}"
  until_done "$next" "a read at $next" "$begun" qemu-io -r -f raw -c "read 0 4k" "$(url "$next")"
  took=$(($(now_ms) - begun))
  qemu-io -r -f raw -c "read -P $round 0 64k" "$(url "$next")" | grep -q "failed" && { echo "takeover: what was flushed is not there" >&2; exit 1; }
  echo "takeover: round $round: $owner killed with 10 TiB mapped, a host reads at $next after $took ms"
  [ "$took" -le $((LIMIT_S * 1000)) ] || { echo "takeover: that is more than $LIMIT_S s" >&2; exit 1; }
  start "$owner"
  read -r owner next <<<"$next $owner"
done
