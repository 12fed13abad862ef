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
set -euo pipefail
cd "$(dirname "$0")/.."
readonly REPEATS=${REPEATS:-3} SECONDS_EACH=${SECONDS_EACH:-3}
readonly POLICIES=(off through back journal)
masu=${MASU:-target/release/masu}

declaration() {
  printf '[cache]\nmemory = "512MiB"\n'
  for drive in d0 d1 j0; do printf '[[drive]]\nname = "%s"\nfile = "%s.img"\nsize = "2GiB"\n' "$drive" "$drive"; done
  printf '[[group]]\nname = "%s"\nlevel = "raid0"\ndrives = ["%s"]\n' g0 d0 g1 d1 gj j0
  printf '[[pool]]\nname = "p0"\ngroups = ["g0"]\n[[pool]]\nname = "p1"\ngroups = ["g1"]\njournal = "gj"\n'
  printf '[[volume]]\nname = "%s"\npool = "%s"\nsize = "256MiB"\ncache = "%s"\n' \
    off p0 off through p0 write-through back p0 write-back journal p1 write-back
  printf '[[host]]\nname = "any"\ninitiator = "*"\nluns = { 0 = "off", 1 = "through", 2 = "back", 3 = "journal" }\n'
}
# First it runs itself against such an array.
if [ -z "${MASU_URL:-}" ]; then exec judges/with_masu.sh --with <(declaration) "$0"; fi

# writes PATTERN SIZE DEPTH SECONDS LUN: IOPS
writes() {
  "$masu" load --json --pattern "$1" --size "$2" --depth "$3" --seconds "$4" --destroy-data "${MASU_URL%0}$5" |
    python3 -c "import json, sys; print(round(json.load(sys.stdin)['iops']))"
}
# Pages are mapped first, so that all that is measured is in place.
for lun in "${!POLICIES[@]}"; do writes seqwrite 1MiB 8 2 "$lun" >/dev/null; done
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
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
