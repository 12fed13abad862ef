#!/usr/bin/env bash
# A file server in a guest is killed, or the array and then the guest: what it had been told is durable is there afterwards. Two switches:
# the volatile write cache of its disk (on, off), and the array's cache (with a journal, without). Each life has the next of the four.
#
#   judges/write_cache.sh [KILLS] [SEED]     (default 2, and the process number; life by life the moment is drawn from it)
#
# What was acknowledged as written only, and is gone, is counted and shown: with a volatile cache it may be. The guest's own acknowledgements
# on its console are what is compared, by the checksums of what was written. MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly KILLS=${1:-2} SEED=${2:-$$}
readonly TARGET=iqn.2026-11.example.masu:write-cache INITIATOR=iqn.2026-11.example.judge:server
readonly OUT=target/judges/write_cache START_TIMEOUT_S=20
# A life takes some 15 s of one core under TCG; others use the machine, too.
readonly LIFE_TIMEOUT_S=150
# Acknowledged as durable before the kill, at least; then it comes within so many ms.
readonly DURABLE_MIN=12 WITHIN_MS=3000
# Life by life: the write cache of the disk, LUN, the array's cache, and who is killed.
readonly LIVES=("on 1 without-journal both" "off 0 journal guest" "on 0 journal both" "off 1 without-journal both" "on 1 without-journal guest")
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "write_cache: $masu is missing; run make build" >&2; exit 2; }
command -v qemu-system-x86_64 >/dev/null || { echo "write_cache: qemu-system-x86_64 is missing; run judges/setup.sh" >&2; exit 2; }
judges/guest/build.sh
# shellcheck source=judges/ports.sh
. judges/ports.sh
rm -rf "$OUT"; mkdir -p "$OUT"
port=$(free_port); RANDOM=$SEED
array="" guest=""
kill_now() { [ -z "$1" ] || { kill -KILL "$1" 2>/dev/null || true; wait "$1" 2>/dev/null || true; }; }
stop() { trap - EXIT INT TERM; kill_now "$guest"; kill_now "$array"; rm -rf "$OUT/data"; }
trap stop EXIT
trap 'exit 130' INT TERM
fail() { echo "write_cache: FAIL $* (seed $SEED; $OUT)" >&2; exit 1; }

{
  printf 'target = "%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n[cache]\nmemory = "64MiB"\n' "$TARGET" "$port"
  for drive in a b c d e f; do printf '[[drive]]\nname = "%s"\nfile = "%s.img"\nsize = "512MiB"\n' "$drive" "$drive"; done
  for group in 'journaled:"a", "b"' 'plain:"c", "d"' 'journal:"e", "f"'; do
    printf '[[group]]\nname = "%s"\nlevel = "raid1"\ndrives = [%s]\n' "${group%%:*}" "${group#*:}"
  done
  printf '[[pool]]\nname = "p0"\ngroups = ["journaled"]\njournal = "journal"\n[[pool]]\nname = "p1"\ngroups = ["plain"]\n'
  printf '[[volume]]\nname = "v%s"\npool = "p%s"\nsize = "256MiB"\n' 0 0 1 1
  printf '[[host]]\nname = "server"\ninitiator = "%s"\nluns = { 0 = "v0", 1 = "v1" }\n' "$INITIATOR"
} >"$OUT/array.toml"

start_array() {
  local waited=0 config=()
  [ -e "$OUT/data" ] || config=(--config "$OUT/array.toml")
  "$masu" serve --data "$OUT/data" "${config[@]+"${config[@]}"}" >>"$OUT/array.log" 2>&1 & array=$!
  until listens "$port"; do
    kill -0 "$array" 2>/dev/null || fail "the array did not start: $(tail -n 1 "$OUT/array.log")"
    [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || fail "the array does not listen after $START_TIMEOUT_S s"
    sleep 0.1; waited=$((waited + 1))
  done
}
# power_on LIFE LOOK LUN CACHE: the guest, its console in OUT/LIFE.
power_on() {
  : >"$OUT/$1"
  qemu-system-x86_64 -accel tcg -cpu max -m 384 -nographic -no-reboot -kernel target/judges/guest/vmlinuz -initrd target/judges/guest/initramfs \
    -append "console=ttyS0 quiet panic=-1 rdinit=/write_cache judge.port=$port judge.target=$TARGET judge.initiator=$INITIATOR judge.look=$2 judge.lun=$3 judge.cache=$4" \
    -netdev user,id=n -device virtio-net-pci,netdev=n,romfile= </dev/null >>"$OUT/$1" 2>&1 & guest=$!
}
# until_says LIFE COUNT EXPRESSION: until the console has had so many such lines.
until_says() {
  local waited=0
  until [ "$(grep -acE "$3" "$OUT/$1")" -ge "$2" ]; do
    ! grep -aqE 'guest: FAIL|guest: the disk has failed' "$OUT/$1" || fail "life $1: $(grep -aE -m 1 'guest: FAIL|guest: the disk' "$OUT/$1" | tr -d '\r')"
    kill -0 "$guest" 2>/dev/null || fail "life $1: the guest has ended: $(tail -n 1 "$OUT/$1")"
    [ "$waited" -lt $((LIFE_TIMEOUT_S * 10)) ] || fail "life $1: no '$3' after $LIFE_TIMEOUT_S s"
    sleep 0.1; waited=$((waited + 1))
  done
}

start_array
look=""
for life in $(seq "$KILLS"); do
  read -r cache lun _ who <<<"${LIVES[$(((life - 1) % ${#LIVES[@]}))]}"
  power_on "$life" "$look" "$lun" "$cache"
  until_says "$life" "$DURABLE_MIN" '^guest: durable [a-z0-9/]+ [0-9a-f]{64}'
  ms=$((RANDOM % WITHIN_MS)); sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
  # The array first, where both are: what it had in memory only is gone before the guest can send it again.
  if [ "$who" = both ]; then kill_now "$array"; array=""; fi
  kill_now "$guest"; guest=""
  [ -n "$array" ] || start_array
  look=$lun
done
power_on last "$look" "" ""
until_says last 1 '^MASU_GUEST_OK'
wait "$guest" || true
guest=""

python3 - "$OUT" "$KILLS" "${LIVES[@]}" <<'PYTHON'
import re, sys

out, kills, lives = sys.argv[1], int(sys.argv[2]), [life.split() for life in sys.argv[3:]]
told_line = re.compile(r"^guest: (durable|written|buffered) ([a-z0-9/]+) ([0-9a-f]{64})\s*$")
found_line = re.compile(r"^guest: found ([a-z0-9/]+) ([0-9a-f]{64})\s*$")
lines = lambda life: open(f"{out}/{life}", errors="replace")
broken, kept, weaker = 0, 0, {"written": 0, "buffered": 0}
print(f"write_cache: {'life':4} {'write cache':11} {'array':15} {'killed':6} {'durable':>7} {'lost':>4} {'by the disk only':>17} {'lost':>4} {'from memory only':>17} {'lost':>4}")
for life in range(1, kills + 1):
    cache, _, array, who = lives[(life - 1) % len(lives)]
    # Of each object its versions in the order in which they were acknowledged, the last one that is durable, and what the last one is.
    versions, durable, last = {}, {}, {}
    for kind, name, digest in (m.groups() for m in map(told_line.match, lines(life)) if m):
        history = versions.setdefault(name, [])
        if not history or history[-1] != digest:
            history.append(digest)
        last[name] = kind
        if kind == "durable":
            durable[name] = len(history) - 1
    after = "last" if life == kills else life + 1
    found = dict(m.groups() for m in map(found_line.match, lines(after)) if m)
    assert durable and found, f"life {life}: nothing was acknowledged, or nothing was looked at"
    lost, unknown, seen, gone = [], [], {"written": 0, "buffered": 0}, {"written": 0, "buffered": 0}
    for name, history in versions.items():
        there = history.index(found[name]) if found.get(name) in history else None
        if there is None and name.startswith("page") and name in found:
            # It holds what nobody acknowledged: what was there before the first write, or the one write that the kill met.
            unknown.append(name)
        if name in durable and (there is None or there < durable[name]):
            lost.append(name)
        if last[name] != "durable":
            seen[last[name]] += 1
            gone[last[name]] += there is None or there < len(history) - 1
    # One page was being written at most, and may hold any mixture of sectors.
    if len(unknown) == 1 and unknown[0] in lost:
        lost.remove(unknown[0])
    print(f"write_cache: {life:4} {cache:11} {array:15} {who:6} {len(durable):7} {len(lost):4} {seen['written']:17} {gone['written']:4} {seen['buffered']:17} {gone['buffered']:4}")
    broken, kept = broken + len(lost), kept + len(durable)
    for kind in weaker:
        weaker[kind] += gone[kind]
    if lost:
        print(f"write_cache: life {life}: acknowledged as durable, and lost: {' '.join(sorted(lost)[:20])}")
print(f"write_cache: {kills} kills: of {kept} objects acknowledged as durable {broken} lost; acknowledged by the disk only and lost: {weaker['written']}, from memory only: {weaker['buffered']}")
sys.exit(broken > 0)
PYTHON
