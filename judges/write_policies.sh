#!/usr/bin/env bash
# What the write policies of a cache give on this machine's disk: 4 KiB random writes at depth 32 by masu load, to four volumes of
# one array, by turns.
#
#   judges/write_policies.sh
#
#   off        no cache: every write goes to the pool and is flushed
#   through    in the cache and in the pool, and flushed, before it is acknowledged
#   back       acknowledged from a volatile cache, as a disk whose write cache is on (WCE = 1): the host has to flush
#   journal    acknowledged when it is in the journal: nothing to flush (WCE = 0)
#
# Medians of REPEATS (default 3) turns of SECONDS_EACH (default 3) seconds. MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly REPEATS=${REPEATS:-3} SECONDS_EACH=${SECONDS_EACH:-3} START_TIMEOUT_S=20
readonly TARGET=iqn.2026-11.example.masu:policies
readonly POLICIES=(off through back journal)
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "write_policies: $masu is missing; run make build" >&2; exit 2; }

mkdir -p target/judges
dir=$(mktemp -d target/judges/policies.XXXXXX)
pid=""
stop() {
  trap - EXIT INT TERM
  [ -z "$pid" ] || { kill -TERM "$pid" && wait "$pid"; } 2>/dev/null || true
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
port=$((20000 + RANDOM % 10000)); while listens "$port"; do port=$((port + 1)); done
{
  printf 'target = "%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n[cache]\nmemory = "512MiB"\n' "$TARGET" "$port"
  for drive in d0 d1 j0; do printf '[[drive]]\nname = "%s"\nfile = "%s.img"\nsize = "2GiB"\n' "$drive" "$drive"; done
  printf '[[group]]\nname = "%s"\nlevel = "raid0"\ndrives = ["%s"]\n' g0 d0 g1 d1 gj j0
  printf '[[pool]]\nname = "p0"\ngroups = ["g0"]\n[[pool]]\nname = "p1"\ngroups = ["g1"]\njournal = "gj"\n'
  volume() { printf '[[volume]]\nname = "%s"\npool = "%s"\nsize = "256MiB"\ncache = "%s"\n' "$@"; }
  volume off p0 off; volume through p0 write-through; volume back p0 write-back; volume journal p1 write-back
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "off", 1 = "through", 2 = "back", 3 = "journal" }\n'
} >"$dir/array.toml"
"$masu" serve --data "$dir/data" --config "$dir/array.toml" >"$dir/log" 2>&1 &
pid=$!
waited=0
until listens "$port"; do
  kill -0 "$pid" 2>/dev/null || { echo "write_policies: the array did not start: $(tail -n 1 "$dir/log")" >&2; exit 2; }
  [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || { echo "write_policies: the array does not listen" >&2; exit 2; }
  sleep 0.1; waited=$((waited + 1))
done

# pattern seconds lun
writes() {
  "$masu" load --json --pattern "$1" --size "$2" --depth "$3" --seconds "$4" --destroy-data "iscsi://127.0.0.1:$port/$TARGET/$5" |
    python3 -c "import json, sys; print(round(json.load(sys.stdin)['iops']))"
}
# Pages are mapped first, so that all that is measured is in place.
for lun in "${!POLICIES[@]}"; do writes seqwrite 1MiB 8 2 "$lun" >/dev/null; done
figures=$dir/figures
for _ in $(seq "$REPEATS"); do
  for lun in "${!POLICIES[@]}"; do echo "${POLICIES[$lun]} $(writes randwrite 4KiB 32 "$SECONDS_EACH" "$lun")" >>"$figures"; done
done
median() { awk -v p="$1" '$1 == p { print $2 }' "$figures" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
off=$(median off)
echo "4 KiB random writes at depth 32, IOPS, medians of $REPEATS turns, file drives"
for policy in "${POLICIES[@]}"; do
  it=$(median "$policy")
  awk -v p="$policy" -v i="$it" -v o="$off" 'BEGIN { printf "  %-8s %8d   %6.1f x off\n", p, i, i / o }'
done
