#!/usr/bin/env bash
# kill -9 of an array whose pool has 10 TiB mapped, until a host has logged in again and read a block: at most LIMIT_S seconds.
#   judges/restart.sh [ROUNDS]   (default 3)
# Needs qemu-io, and the example open_ten_tb, which makes the pool: a sparse file, every page mapped and scattered, with a journal that
# a checkpoint has not taken over. MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly ROUNDS=${1:-3} LIMIT_S=5 GIVE_UP_S=60
readonly TARGET=iqn.2026-11.example.masu:restart
readonly DRIVE=$PWD/target/open_ten_tb.drive
masu=${MASU:-target/release/masu}
maker=$(dirname "$masu")/examples/open_ten_tb
for needed in "$masu" "$maker"; do
  [ -x "$needed" ] || { echo "restart: $needed is missing" >&2; exit 2; }
done
# shellcheck source=judges/ports.sh
. judges/ports.sh
port=$(free_port)
mkdir -p target/judges
dir=$(mktemp -d target/judges/restart.XXXXXX)
pid=""
stop() {
  trap - EXIT INT TERM
  [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
  rm -rf "$dir" "$DRIVE"
}
trap stop EXIT
trap 'exit 130' INT TERM

now_ms() { echo $(($(date +%s%N) / 1000000)); }
start() { "$masu" serve --data "$dir/data" "$@" >>"$dir/log" 2>&1 & pid=$!; disown "$pid"; }
read_block() { qemu-io -r -f raw -c "read 0 4k" "iscsi://127.0.0.1:$port/$TARGET/0" >/dev/null 2>&1; }
until_read() {
  local begun=$1
  until read_block; do
    kill -0 "$pid" 2>/dev/null || { echo "restart: the array ended: $(tail -n 1 "$dir/log")" >&2; exit 1; }
    [ $(($(now_ms) - begun)) -lt $((GIVE_UP_S * 1000)) ] || { echo "restart: no host can read after $GIVE_UP_S s" >&2; exit 1; }
    sleep 0.02
  done
}

"$maker" keep >"$dir/made"
printf 'target = "%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n' "$TARGET" "$port" >"$dir/array.toml"
start --config "$dir/array.toml"
export MASU_DATA=$dir/data
until "$masu" status >/dev/null 2>&1; do
  kill -0 "$pid" 2>/dev/null || { echo "restart: the array does not start: $(tail -n 1 "$dir/log")" >&2; exit 1; }
  sleep 0.1
done
"$masu" pool import --force "$DRIVE" >/dev/null
"$masu" host set any '*' >/dev/null
"$masu" host map any v3 >/dev/null
until_read "$(now_ms)"
for round in $(seq "$ROUNDS"); do
  # What a journal has that no checkpoint took over.
  qemu-io -f raw -c "write -P $round 0 64k" -c flush "iscsi://127.0.0.1:$port/$TARGET/0" >/dev/null
  begun=$(now_ms)
  kill -KILL "$pid"
  # At once: the process before may not have ended yet.
  start
  until_read "$begun"
  took=$(($(now_ms) - begun))
  qemu-io -r -f raw -c "read -P $round 0 64k" "iscsi://127.0.0.1:$port/$TARGET/0" | grep -q "failed" && { echo "restart: what was flushed is not there" >&2; exit 1; }
  echo "restart: round $round: killed with 10 TiB mapped, a host reads again after $took ms"
  [ "$took" -le $((LIMIT_S * 1000)) ] || { echo "restart: that is more than $LIMIT_S s" >&2; exit 1; }
done
