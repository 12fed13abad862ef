#!/usr/bin/env bash
# This version beside an older one in the same run: are reads and writes as fast as they were?
#   judges/bench_pair.sh [COMMIT]   the older version (default: the commit before this one); it is built in target/older
# MASU_OLDER names a binary of it instead, MASU another one of this version, REPEATS the turns (default 30) and SECONDS_EACH their
# length (0.5; 1 where iscsi-perf runs), LOADS some of the four loads. Each version has an array with a cache and one without, all
# on core 0; loads are on core 1. Versions take turns: what a turn of this version gave, over the turn of the older one beside it,
# is one ratio. Printed are the median of the ratios and its interval of 95 % (order statistics): other guests of the machine
# disturb single turns by half.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly CONTENDERS=(older this older-cached this-cached)
readonly CLIENT_CORE=1 CSV=$PWD/target/judges/bench_pair.csv
REPEATS=${REPEATS:-30} SECONDS_EACH=${SECONDS_EACH:-0.5}
export REPEATS SECONDS_EACH

if [ "${1:-}" = --served ]; then
  # One more array is up: with_masu.sh has called this script again.
  shift
  set -- "$@" "${CONTENDERS[$#]}=$MASU_URL"
else
  commit=${1:-HEAD^}
  set --
  export THIS=${MASU:-target/release/masu}
  if [ -z "${MASU_OLDER:-}" ]; then
    commit=$(git rev-parse --verify --quiet "$commit^{commit}") || { echo "bench_pair: no such commit here: $commit" >&2; exit 2; }
    tree=$PWD/target/older/$commit
    [ -d "$tree" ] || { mkdir -p "$tree" && git archive "$commit" | tar xf - -C "$tree"; }
    mkdir -p "$tree/web" && cp -r web/dist "$tree/web/"
    echo "bench_pair: builds $commit: minutes"
    (cd "$tree" && CARGO_TARGET_DIR=$PWD/../target cargo build --locked --quiet --release --package masu)
    MASU_OLDER=$PWD/target/older/target/release/masu
  fi
  export MASU_OLDER
fi

if [ $# -lt ${#CONTENDERS[@]} ]; then
  name=${CONTENDERS[$#]} options=()
  case $name in older*) binary=$MASU_OLDER ;; *) binary=$THIS ;; esac
  case $name in *-cached) options=(--cache 1GiB) ;; esac
  MASU=$binary exec judges/with_masu.sh --memory --pin 0 "${options[@]}" judges/bench_pair.sh --served "$@"
fi

masu=$THIS
# shellcheck source=judges/bench_loads.sh
. judges/bench_loads.sh
iscsi_perf_1s() { SECONDS_EACH=1 iscsi_perf "$1"; }

echo "workload,contender,repeat,value" >"$CSV"
# What is read has been written: pages of a pool that nobody wrote cost nothing.
for contender in "$@"; do SECONDS_EACH=1 sequential_write "${contender#*=}" >/dev/null; done
for workload in ${LOADS:-sequential_write random_read_of iscsi_perf_1s sequential_read}; do
  for repeat in $(seq "$REPEATS"); do
    for contender in "$@"; do
      value=$($workload "${contender#*=}")
      [ -n "$value" ] || { echo "bench_pair: $workload on ${contender%%=*} gave no figure" >&2; exit 1; }
      echo "$workload,${contender%%=*},$repeat,$value" >>"$CSV"
    done
  done
done
echo "this version over the older one: median of $REPEATS turns (95 % interval), medians of both"
python3 - "$CSV" <<'PY'
import csv, math, statistics, sys
titles = {
    "sequential_write": "1 MiB sequential writes, MB/s",
    "random_read_of": "4 KiB random reads, IOPS, by masu load",
    "iscsi_perf_1s": "4 KiB random reads, IOPS, by iscsi-perf",
    "sequential_read": "1 MiB sequential reads, MB/s",
}
turns = {}
for row in csv.DictReader(open(sys.argv[1])):
    turns.setdefault((row["workload"], row["contender"]), []).append(float(row["value"]))
for workload in dict.fromkeys(workload for workload, _ in turns):
    title = titles[workload]
    for kind in ("", "-cached"):
        this, older = turns[workload, "this" + kind], turns[workload, "older" + kind]
        ratios = sorted(new / old for new, old in zip(this, older))
        n = len(ratios)
        # The ranks of a sign test at 5 %.
        rank = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)))
        low, median, high = ratios[rank], statistics.median(ratios), ratios[n - 1 - rank]
        verdict = "   slower by more than 3 %" if high < 0.97 else ""
        name = title + (", with a cache" if kind else "")
        print(f"  {name:55} {median:5.3f}  ({low:.3f} to {high:.3f})  {statistics.median(this):.0f} / {statistics.median(older):.0f}{verdict}")
PY
