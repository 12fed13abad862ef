#!/usr/bin/env bash
# 4 KiB random reads and writes at depth 32 on Ceph RBD images: through masu and iSCSI, beside fio's librbd engine, in one run.
#   judges/ceph_bench.sh [DIR]   (default: a Ceph cluster of one node is started and ended; DIR: the directory of one that runs)
# The contenders take turns, REPEATS times (default 5) for SECONDS_EACH (default 5); medians with the range and ratios are printed, and the
# figures go to target/judges/ceph_bench.csv. Everything is on one machine: the OSD, masu and the clients share its processors.
# masu has no cache and no journal: a write is acknowledged when Ceph has acknowledged it (write-through). librbd's cache is off for both.
#   masu        the load (masu load) -> iSCSI -> volume, pool, group -> librbd
#   fio         fio -> librbd, in its own process
#   masu-mem    the same as masu, on a memory drive: what the array and iSCSI cost without Ceph
# Needs Ceph and fio (judges/setup.sh --ceph). MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly REPEATS=${REPEATS:-5} SECONDS_EACH=${SECONDS_EACH:-5} SIZE=1GiB DEPTH=32
readonly CSV=target/judges/ceph_bench.csv TARGET=iqn.2026-11.example.masu:ceph-bench
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "ceph_bench: $masu is missing; run make release" >&2; exit 2; }
command -v fio >/dev/null || { echo "ceph_bench: fio is missing; run judges/setup.sh" >&2; exit 2; }
# shellcheck source=judges/ports.sh
. judges/ports.sh
mkdir -p target/judges
dir=$(mktemp -d "$PWD/target/judges/ceph_bench.XXXXXX")
pid=""
stop() {
  trap - EXIT INT TERM
  [ -z "$pid" ] || { kill -TERM "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; } || true
  [ ! -d "$dir/ceph" ] || judges/ceph.sh stop "$dir/ceph"
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM
if [ $# -gt 0 ]; then
  ceph=$1
else
  ceph=$dir/ceph
  judges/ceph.sh start "$ceph" || { rc=$?; [ "$rc" = 77 ] && exit 0; exit "$rc"; }
fi
cp "$ceph/ceph.conf" "$dir/ceph.conf"
printf '[client]\nrbd cache = false\n' >>"$dir/ceph.conf"
export CEPH_CONF=$dir/ceph.conf
for image in bench-masu bench-fio; do
  rbd info "vms/$image" >/dev/null 2>&1 && rbd rm --no-progress "vms/$image"
done
rbd create vms/bench-masu --size 1200M
rbd create vms/bench-fio --size 1G

port=$(free_port)
{
  printf 'target = "%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n' "$TARGET" "$port"
  printf '[[drive]]\nname = "d0"\nrbd = "vms/bench-masu"\nrbd_conf = "%s"\n' "$CEPH_CONF"
  printf '[[drive]]\nname = "d1"\nmemory = true\nsize = "1200MiB"\n'
  for i in 0 1; do
    printf '[[group]]\nname = "g%s"\nlevel = "raid0"\ndrives = ["d%s"]\n[[pool]]\nname = "p%s"\ngroups = ["g%s"]\n' "$i" "$i" "$i" "$i"
    printf '[[volume]]\nname = "v%s"\npool = "p%s"\nsize = "%s"\n' "$i" "$i" "$SIZE"
  done
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0", 1 = "v1" }\n'
} >"$dir/array.toml"
"$masu" serve --data "$dir/data" --config "$dir/array.toml" >"$dir/log" 2>&1 &
pid=$!
until listens "$port"; do
  kill -0 "$pid" 2>/dev/null || { echo "ceph_bench: the array does not start: $(tail -n 1 "$dir/log")" >&2; exit 1; }
  sleep 0.1
done

load() {
  local field=$1; shift
  timeout 600 "$masu" load --json --destroy-data "$@" | python3 -c "import json, sys; print(round(json.load(sys.stdin)['$field']))"
}
fio_rbd() {
  timeout 600 fio --name=bench --ioengine=rbd --clientname=admin --pool=vms --rbdname=bench-fio --output-format=json --direct=1 "$@" 2>"$dir/fio.log"
}
url() { echo "iscsi://127.0.0.1:$port/$TARGET/$1"; }
run_masu() { load iops --warm-up-seconds 1 --seconds "$SECONDS_EACH" --pattern "$2" --depth "$DEPTH" "$(url "$1")"; }
run() {
  case $1 in
    masu) run_masu 0 "$2" ;;
    masu-mem) run_masu 1 "$2" ;;
    fio) fio_rbd --rw="$2" --bs=4k --iodepth="$DEPTH" --ramp_time=1 --time_based --runtime="$SECONDS_EACH" |
      python3 -c "import json, sys; job = json.load(sys.stdin)['jobs'][0]; print(round(job['read']['iops'] + job['write']['iops']))" ;;
  esac
}
# Everything is written once: neither side makes objects or pages while it is measured.
for lun in 0 1; do load mb_per_s --pattern seqwrite --size 1MiB --depth 4 --seconds 20 --warm-up-seconds 0 "$(url "$lun")" >/dev/null; done
fio_rbd --rw=write --bs=1M --iodepth=4 >/dev/null

echo "workload,contender,repeat,iops" >"$CSV"
for workload in randread randwrite; do
  for repeat in $(seq "$REPEATS"); do
    for contender in masu fio masu-mem; do
      value=$(run "$contender" "$workload")
      [ -n "$value" ] || { echo "ceph_bench: $workload by $contender gave no figure" >&2; exit 1; }
      echo "$workload,$contender,$repeat,$value" >>"$CSV"
    done
  done
done
spread() {
  awk -F, -v w="$1" -v c="$2" '$1 == w && $2 == c { print $4 }' "$CSV" | sort -n |
    awk '{ v[NR] = $1 } END { m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; print m, v[1], v[NR] }'
}
echo "4 KiB at depth $DEPTH on RBD, IOPS: medians of $REPEATS turns (lowest to highest)"
for workload in randread randwrite; do
  read -r reference _ _ < <(spread "$workload" fio)
  for contender in masu fio masu-mem; do
    read -r m lo hi < <(spread "$workload" "$contender")
    printf '  %-10s %-9s %8.0f  (%.0f to %.0f)  %5s x fio\n' "$workload" "$contender" "$m" "$lo" "$hi" "$(awk -v a="$m" -v b="$reference" 'BEGIN { printf "%.2f", a / b }')"
  done
done
