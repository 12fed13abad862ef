#!/usr/bin/env bash
# 4 KiB random reads and writes at depth 32 on Ceph RBD images: through masu and iSCSI, beside fio's librbd engine, in one run.
#   judges/ceph_bench.sh [DIR]   (default: a Ceph cluster of one node is started and ended; DIR: the directory of one that runs)
# The contenders take turns, REPEATS times (default 5) for SECONDS_EACH (default 5); medians with the range and ratios are printed, and the
# figures go to target/judges/ceph_bench.csv. Everything is on one machine: the OSD, masu and the clients share its processors.
# librbd's cache is off for all.
#   masu          the load (masu load) -> iSCSI -> volume, pool, group -> librbd, without a cache: a write is acknowledged when Ceph has
#                 acknowledged it (write-through)
#   fio           fio -> librbd, in its own process
#   masu-journal  an array with a write-back cache and its journal on a second image: a write is acknowledged when it is in the journal.
#                 What was written before fills the cache, so that destaging goes on while it is measured
#   masu-mem      the same as masu, on a memory drive: what the array and iSCSI cost without Ceph
# Needs Ceph and fio (judges/setup.sh --ceph). MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly REPEATS=${REPEATS:-5} SECONDS_EACH=${SECONDS_EACH:-5} SIZE=1GiB DEPTH=32
readonly CSV=target/judges/ceph_bench.csv TARGET=iqn.2026-11.example.masu:ceph-bench
# The cache holds less than half of a second of writes: a rate that lasts is one at which it is destaged.
readonly CACHE=64MiB CONTENDERS="masu fio masu-journal masu-mem"
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "ceph_bench: $masu is missing; run make release" >&2; exit 2; }
command -v fio >/dev/null || { echo "ceph_bench: fio is missing; run judges/setup.sh" >&2; exit 2; }
# shellcheck source=judges/ports.sh
. judges/ports.sh
mkdir -p target/judges
dir=$(mktemp -d "$PWD/target/judges/ceph_bench.XXXXXX")
declare -A pid port
stop() {
  trap - EXIT INT TERM
  local array
  for array in "${pid[@]}"; do { kill -TERM "$array" && wait "$array"; } 2>/dev/null || true; done
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
for image in bench-masu bench-fio bench-cached bench-journal; do
  rbd info "vms/$image" >/dev/null 2>&1 && rbd rm --no-progress "vms/$image"
done
rbd create vms/bench-masu --size 1200M
rbd create vms/bench-cached --size 1200M
rbd create vms/bench-journal --size 256M
rbd create vms/bench-fio --size 1G

rbd_drive() { printf '[[drive]]\nname = "%s"\nrbd = "vms/%s"\nrbd_conf = "%s"\n' "$1" "$2" "$CEPH_CONF"; }
group() { printf '[[group]]\nname = "%s"\nlevel = "raid0"\ndrives = ["%s"]\n' "$1" "$2"; }
volume() { printf '[[volume]]\nname = "%s"\npool = "%s"\nsize = "%s"\n' "$1" "$2" "$SIZE"; }
array_head() { printf 'target = "%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n' "$TARGET" "$1"; }
# An array without a cache on an RBD image and on memory, and one with a cache and a journal: a cache is of all pools of an array.
port[plain]=$(free_port); port[journal]=$((port[plain] + 1))
{
  array_head "${port[plain]}"
  rbd_drive d0 bench-masu
  printf '[[drive]]\nname = "d1"\nmemory = true\nsize = "1200MiB"\n'
  for i in 0 1; do group "g$i" "d$i"; printf '[[pool]]\nname = "p%s"\ngroups = ["g%s"]\n' "$i" "$i"; volume "v$i" "p$i"; done
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0", 1 = "v1" }\n'
} >"$dir/plain.toml"
{
  array_head "${port[journal]}"
  printf '[cache]\nmemory = "%s"\n' "$CACHE"
  rbd_drive d0 bench-cached; rbd_drive j0 bench-journal
  group g0 d0; group journal j0
  printf '[[pool]]\nname = "p0"\ngroups = ["g0"]\njournal = "journal"\n'
  volume v0 p0
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "v0" }\n'
} >"$dir/journal.toml"
for array in plain journal; do
  "$masu" serve --data "$dir/data-$array" --config "$dir/$array.toml" >"$dir/$array.log" 2>&1 &
  pid[$array]=$!
done
for array in plain journal; do
  until listens "${port[$array]}"; do
    kill -0 "${pid[$array]}" 2>/dev/null || { echo "ceph_bench: the array ($array) does not start: $(tail -n 1 "$dir/$array.log")" >&2; exit 1; }
    sleep 0.1
  done
done

load() {
  local field=$1; shift
  timeout 600 "$masu" load --json --destroy-data "$@" | python3 -c "import json, sys; print(round(json.load(sys.stdin)['$field']))"
}
fio_rbd() {
  timeout 600 fio --name=bench --ioengine=rbd --clientname=admin --pool=vms --rbdname=bench-fio --output-format=json --direct=1 "$@" 2>"$dir/fio.log"
}
url() { echo "iscsi://127.0.0.1:${port[$1]}/$TARGET/$2"; }
run_masu() { load iops --warm-up-seconds 1 --seconds "$SECONDS_EACH" --pattern "$3" --depth "$DEPTH" "$(url "$1" "$2")"; }
run() {
  case $1 in
    masu) run_masu plain 0 "$2" ;;
    masu-journal) run_masu journal 0 "$2" ;;
    masu-mem) run_masu plain 1 "$2" ;;
    fio) fio_rbd --rw="$2" --bs=4k --iodepth="$DEPTH" --ramp_time=1 --time_based --runtime="$SECONDS_EACH" |
      python3 -c "import json, sys; job = json.load(sys.stdin)['jobs'][0]; print(round(job['read']['iops'] + job['write']['iops']))" ;;
  esac
}
# Everything is written once: neither side makes objects or pages while it is measured.
for lu in "plain 0" "plain 1" "journal 0"; do
  read -r array lun <<<"$lu"
  load mb_per_s --pattern seqwrite --size 1MiB --depth 4 --seconds 20 --warm-up-seconds 0 "$(url "$array" "$lun")" >/dev/null
done
fio_rbd --rw=write --bs=1M --iodepth=4 >/dev/null

echo "workload,contender,repeat,iops" >"$CSV"
for workload in randread randwrite; do
  for repeat in $(seq "$REPEATS"); do
    for contender in $CONTENDERS; do
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
  for contender in $CONTENDERS; do
    read -r m lo hi < <(spread "$workload" "$contender")
    printf '  %-10s %-12s %8.0f  (%.0f to %.0f)  %5s x fio\n' "$workload" "$contender" "$m" "$lo" "$hi" "$(awk -v a="$m" -v b="$reference" 'BEGIN { printf "%.2f", a / b }')"
  done
done
