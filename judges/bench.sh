#!/usr/bin/env bash
# tgt beside other targets in one run: 4 KiB random reads at depth 32, 1 MiB sequential reads and writes at depth 8.
#
#   judges/bench.sh [NAME=URL]...
#
#   NAME=URL  a logical unit of 512 MiB and 512-byte blocks, on a server that the caller pinned to core 0; IT IS OVERWRITTEN
#
# tgt is started here, on core 0, over a file in /dev/shm, twice: with the backing store it takes when nothing is said
# (rdwr) and with the fastest it has (aio). Clients run on core 1. Everybody serves the same random bytes. The
# contenders take turns, REPEATS times (default 5); medians with the range are printed, and ratios to tgt.
# The figures also go to target/judges/bench.csv.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly REPEATS=${REPEATS:-5} SECONDS_EACH=${SECONDS_EACH:-2}
readonly SERVER_CORE=0 CLIENT_CORE=1
readonly SIZE_MIB=512 WRITES=2000 RUN_TIMEOUT_S=60
readonly CSV=target/judges/bench.csv

for tool in tgtd tgtadm iscsi-perf qemu-img taskset; do
  PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || { echo "bench: $tool is missing; run judges/setup.sh" >&2; exit 2; }
done
PATH=$PATH:/usr/sbin
[ "$(nproc)" -ge 2 ] || { echo "bench: two processors are needed, one for the server and one for the client" >&2; exit 2; }

dir=$(mktemp -d /dev/shm/masu-bench.XXXXXX)
tgtd=""
stop() {
  trap - EXIT INT TERM
  [ -z "$tgtd" ] || kill -KILL "$tgtd" 2>/dev/null || true # tgtd ignores SIGTERM while it has targets
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

head -c "${SIZE_MIB}M" /dev/urandom >"$dir/data"
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
port=$((30000 + RANDOM % 2000)); while listens "$port"; do port=$((port + 1)); done
export TGT_IPC_SOCKET=$dir/socket
readonly CONTROL=1 TARGET=iqn.2026-11.example.tgt:bench
taskset -c "$SERVER_CORE" tgtd -f -C "$CONTROL" --iscsi portal=127.0.0.1:"$port" >"$dir/log" 2>&1 &
tgtd=$!
tgt() { tgtadm -C "$CONTROL" --lld iscsi "$@"; }
for _ in $(seq 50); do listens "$port" && break; sleep 0.1; done
tgt --mode target --op new --tid 1 -T "$TARGET"
lun=0
for store in rdwr aio; do
  lun=$((lun + 1))
  cp "$dir/data" "$dir/$store"
  tgt --mode logicalunit --op new --tid 1 --lun "$lun" --bstype "$store" -b "$dir/$store"
done
tgt --mode target --op bind --tid 1 -I ALL

names=(tgt-rdwr tgt-aio); urls=("iscsi://127.0.0.1:$port/$TARGET/1" "iscsi://127.0.0.1:$port/$TARGET/2")
for pair in "$@"; do
  names+=("${pair%%=*}"); urls+=("${pair#*=}")
  qemu-img convert -n -f raw -O raw "$dir/data" "${pair#*=}"
done
rm "$dir/data"

client() { timeout "$RUN_TIMEOUT_S" taskset -c "$CLIENT_CORE" "$@"; }
iops() { client iscsi-perf -t "$SECONDS_EACH" "$@" | tr '\r' '\n' | sed -n 's/^iops average \([0-9]*\) .*/\1/p' | tail -n 1; }
random_read() { iops -m 32 -b 8 -r "$1"; }
sequential_read() { iops -m 8 -b 2048 "$1"; }
sequential_write() {
  client qemu-img bench -f raw -t none -w -d 8 -s 1M -c "$WRITES" "$1" | sed -n 's/^Run completed in \(.*\) seconds.*/\1/p' |
    awk -v n="$WRITES" '{ printf "%.0f\n", n / $1 }'
}

mkdir -p target/judges
echo "workload,contender,repeat,value" >"$CSV"
for workload in random_read sequential_read sequential_write; do
  for repeat in $(seq "$REPEATS"); do
    for i in "${!names[@]}"; do
      value=$($workload "${urls[$i]}")
      [ -n "$value" ] || { echo "bench: $workload on ${names[$i]} gave no figure" >&2; exit 1; }
      echo "$workload,${names[$i]},$repeat,$value" >>"$CSV"
    done
  done
done

# median low high, of one contender in one workload
spread() {
  awk -F, -v w="$1" -v c="$2" '$1 == w && $2 == c { print $4 }' "$CSV" | sort -n |
    awk '{ v[NR] = $1 } END { m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; print m, v[1], v[NR] }'
}
median() { spread "$1" "$2" | cut -d ' ' -f 1; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
show() {
  local workload=$1 name m lo hi
  echo "$2"
  for name in "${names[@]}"; do
    read -r m lo hi < <(spread "$workload" "$name")
    printf '  %-12s %8.0f  (%.0f to %.0f)   %5s x tgt-rdwr  %5s x tgt-aio\n' "$name" "$m" "$lo" "$hi" \
      "$(ratio "$m" "$(median "$workload" tgt-rdwr)")" "$(ratio "$m" "$(median "$workload" tgt-aio)")"
  done
}
echo "medians of $REPEATS turns (lowest to highest); server on core $SERVER_CORE, client on core $CLIENT_CORE, memory-backed, loopback"
show random_read "4 KiB random reads at depth 32, IOPS (iscsi-perf)"
show sequential_read "1 MiB sequential reads at depth 8, MiB/s (iscsi-perf)"
show sequential_write "1 MiB sequential writes at depth 8, MiB/s (qemu-img bench)"
