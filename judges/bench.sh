#!/usr/bin/env bash
# tgt beside other targets in one run, and beside a bare exchange of the same bytes over loopback.
#
#   judges/bench.sh [NAME=URL]...
#
#   NAME=URL  a logical unit of 512 MiB and 512-byte blocks, on a server that the caller pinned to core 0; IT IS OVERWRITTEN
#
# tgt is started here, on core 0, over a file in /dev/shm, twice: with the backing store it takes when nothing is said
# (rdwr) and with the fastest it has (aio). Clients run on core 1. Everybody serves the same random bytes. The
# contenders take turns, REPEATS times (default 5); medians with the range are printed, and ratios. Workloads:
#   iscsi_perf    4 KiB random reads at depth 32, by libiscsi's iscsi-perf
#   random_read   the same by the laboratory's own initiator (masu load), beside "bare": 48 bytes out and 4,144 back,
#                 batched, two threads with blocking sockets, one on each core
#   sequential_*  1 MiB at depth 8, by the laboratory's own initiator
# The figures also go to target/judges/bench.csv. MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=judges/ports.sh
. judges/ports.sh
readonly REPEATS=${REPEATS:-5} SECONDS_EACH=${SECONDS_EACH:-2}
readonly SERVER_CORE=0 CLIENT_CORE=1
readonly SIZE_MIB=512
readonly CSV=target/judges/bench.csv

masu=${MASU:-target/release/masu}
bare=${BARE:-target/release/examples/loopback}
for program in "$masu" "$bare"; do
  [ -x "$program" ] || { echo "bench: $program is missing; run make bench" >&2; exit 2; }
done
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
port=$(free_port)
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
names+=(bare); urls+=(bare)

# shellcheck source=judges/bench_loads.sh
. judges/bench_loads.sh
random_read() {
  if [ "$1" = bare ]; then "$bare" --bare --depth 32 --seconds "$SECONDS_EACH"; else random_read_of "$1"; fi
}

mkdir -p target/judges
echo "workload,contender,repeat,value" >"$CSV"
for workload in iscsi_perf random_read sequential_read sequential_write; do
  for repeat in $(seq "$REPEATS"); do
    for i in "${!names[@]}"; do
      [ "${names[$i]}" != bare ] || [ "$workload" = random_read ] || continue
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
    [ "$name" != bare ] || [ "$workload" = random_read ] || continue
    read -r m lo hi < <(spread "$workload" "$name")
    printf '  %-12s %8.0f  (%.0f to %.0f)   %5s x tgt-rdwr  %5s x tgt-aio' "$name" "$m" "$lo" "$hi" \
      "$(ratio "$m" "$(median "$workload" tgt-rdwr)")" "$(ratio "$m" "$(median "$workload" tgt-aio)")"
    [ "$workload" != random_read ] || printf '  %5s x bare' "$(ratio "$m" "$(median "$workload" bare)")"
    echo
  done
}
echo "medians of $REPEATS turns (lowest to highest); server on core $SERVER_CORE, client on core $CLIENT_CORE, memory-backed, loopback"
show iscsi_perf "4 KiB random reads at depth 32, IOPS, by iscsi-perf"
show random_read "4 KiB random reads at depth 32, IOPS, by masu load"
show sequential_read "1 MiB sequential reads at depth 8, MB/s, by masu load"
show sequential_write "1 MiB sequential writes at depth 8, MB/s, by masu load"
