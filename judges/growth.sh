#!/usr/bin/env bash
# A file server's disk grows while it works, and its pool fills up and gets room again: a guest's own kernel and ext4 on a LU. A group joins
# the pool, the LU is grown, the kernel is told, partition and file system grow; files are deleted and their pages come back; an
# over-committed pool passes its thresholds, is full, and is expanded. The load goes on, and its rate in every stage is shown.
#
#   judges/growth.sh
#
# What is judged: every step works, every file that the guest was told is durable has its checksum at the end, what is deleted comes back to
# the pool, the pool says warning and critical before it is full, and while it is full the load, whose files have their pages, is served in
# at least half of the seconds, reads and writes apart. MASU names another binary than target/release/masu.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly TARGET=iqn.2026-11.example.masu:growth INITIATOR=iqn.2026-11.example.judge:server
readonly OUT=target/judges/growth START_TIMEOUT_S=20 STEP_TIMEOUT_S=300
# A pool to which two more groups come, and a LU that promises more than the pool has, also then.
readonly LU=80MiB LU_GROWN=240MiB FIRST=112MiB MORE=32MiB SOFT=60 CRITICAL=80
readonly DELETED_MIB=24
masu=${MASU:-target/release/masu}
[ -x "$masu" ] || { echo "growth: $masu is missing; run make build" >&2; exit 2; }
command -v qemu-system-x86_64 >/dev/null || { echo "growth: qemu-system-x86_64 is missing; run judges/setup.sh" >&2; exit 2; }
judges/guest/build.sh
# shellcheck source=judges/ports.sh
. judges/ports.sh
rm -rf "$OUT"; mkdir -p "$OUT"
port=$(free_port); array="" guest=""
stop() {
  trap - EXIT INT TERM
  local pid
  for pid in $guest $array; do kill -KILL "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  rm -rf "$OUT/data"
}
trap stop EXIT
trap 'exit 130' INT TERM
fail() { echo "growth: FAIL $*; the guest's console is $OUT/console" >&2; exit 1; }

printf 'target = "%s"\n[[portal]]\nlisten = "127.0.0.1:%s"\n[cache]\nmemory = "32MiB"\n[[drive]]\nname = "d0"\nfile = "d0.img"\nsize = "%s"\n[[group]]\nname = "g0"\nlevel = "raid0"\ndrives = ["d0"]\n[[pool]]\nname = "p0"\ngroups = ["g0"]\npage = "1MiB"\nsoft_threshold_percent = %s\ncritical_threshold_percent = %s\n[[volume]]\nname = "v0"\npool = "p0"\nsize = "%s"\n[[host]]\nname = "server"\ninitiator = "%s"\nluns = { 0 = "v0" }\n' \
  "$TARGET" "$port" "$FIRST" "$SOFT" "$CRITICAL" "$LU" "$INITIATOR" >"$OUT/array.toml"
"$masu" serve --data "$OUT/data" --config "$OUT/array.toml" >"$OUT/array.log" 2>&1 & array=$!
waited=0
until listens "$port"; do
  kill -0 "$array" 2>/dev/null || fail "the array did not start: $(tail -n 1 "$OUT/array.log")"
  [ "$waited" -lt $((START_TIMEOUT_S * 10)) ] || fail "the array does not listen after $START_TIMEOUT_S s"
  sleep 0.1; waited=$((waited + 1))
done
export MASU_DATA=$OUT/data
manage() { "$masu" "$@" >>"$OUT/masu.log" 2>&1 || fail "masu $*: $(tail -n 1 "$OUT/masu.log")"; }
# pool FIELD: of the pool, now.
pool() { "$masu" pool list --output json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0][sys.argv[1]])' "$1"; }
mib() { echo "$(($(pool used_bytes) >> 20)) of $(($(pool size_bytes) >> 20)) MiB"; }
events() { "$masu" events --output json; }

mkfifo "$OUT/orders"
: >"$OUT/console"
qemu-system-x86_64 -accel tcg -cpu max -m 384 -nographic -no-reboot -kernel target/judges/guest/vmlinuz -initrd target/judges/guest/initramfs \
  -append "console=ttyS0 quiet panic=-1 rdinit=/growth judge.port=$port judge.target=$TARGET judge.initiator=$INITIATOR" \
  -netdev user,id=n -device virtio-net-pci,netdev=n,romfile= <"$OUT/orders" >>"$OUT/console" 2>&1 & guest=$!
exec 4>"$OUT/orders"
said() { grep -aqE "$1" "$OUT/console"; }
until_says() {
  local waited=0
  until said "$1"; do
    ! said 'guest: FAIL' || fail "$(grep -aE -m 1 'guest: FAIL' "$OUT/console" | tr -d '\r')"
    kill -0 "$guest" 2>/dev/null || fail "the guest has ended"
    [ "$waited" -lt $((STEP_TIMEOUT_S * 10)) ] || fail "no '$1' after $STEP_TIMEOUT_S s"
    sleep 0.1; waited=$((waited + 1))
  done
}
# order WORDS: the guest does it, and says so.
order() {
  echo "$*" >&4
  until_says "^guest: done $* "
  grep -aE "^guest: done $* " "$OUT/console" | tail -n 1 | tr -d '\r' | sed 's/^guest: done/growth:  /'
}
stages=()
# The guest's clock is that of its load's lines: a stage begins where it has come to.
stage() { stages+=("$(grep -acE '^guest: load ' "$OUT/console" || true) $*"); echo "growth: $*; pool $(mib)"; }

until_says '^guest: begins'
stage "as made"; sleep 3
stage "grown online"
manage group create g1 --level 0 --drive g1.img --drive-size "$MORE"
manage pool add-group p0 g1
manage volume grow v0 --size "$LU_GROWN"
order grow
stage "filled"
order fill first "$DELETED_MIB"
full_mib=$(($(pool used_bytes) >> 20))
stage "deleted and trimmed"
order delete first
order trim
given_back=$((full_mib - ($(pool used_bytes) >> 20)))
[ $((given_back * 100)) -ge $((DELETED_MIB * 90)) ] || fail "$DELETED_MIB MiB were deleted and trimmed, and $given_back MiB came back to the pool"
echo "growth: $DELETED_MIB MiB deleted and trimmed, $given_back MiB came back to the pool"
stage "filling up"
order fill second 200
said '^guest: refused second' || fail "200 MiB were written to a pool that has no room for them"
stage "full"; sleep 10
events >"$OUT/events.json"
stage "expanded"
manage group create g2 --level 0 --drive g2.img --drive-size "$MORE"
manage pool add-group p0 g2
order fill third 16
! said '^guest: refused third' || fail "an expanded pool refused writes"
stage "verified"
order verify
order end
until_says '^MASU_GUEST_OK'
wait "$guest" || true
guest=""

python3 - "$OUT" "${stages[@]}" <<'PYTHON'
import re, sys

out, stages = sys.argv[1], [stage.split(" ", 1) for stage in sys.argv[2:]]
lines = [m.groups() for m in map(re.compile(r"^guest: load (\d+) (\d+) (\d+) (\d+) (\d+)\s*$").match, open(f"{out}/console", errors="replace")) if m]
load = [tuple(map(int, line)) for line in lines]
# Of the seconds of a stage the share in which the load got something.
def share(part, k):
    seconds, last = [], part[0]
    for line in part[1:]:
        if line[0] - last[0] >= 1000:
            seconds.append(line[k] > last[k])
            last = line
    return sum(seconds) / max(len(seconds), 1)

shares = {}
print(f"growth: {'stage':20} {'seconds':>7} {'writes/s':>8} {'reads/s':>8}  {'time with writes':>16} {'with reads':>10}  errors")
for number, (start, name) in enumerate(stages):
    end = int(stages[number + 1][0]) if number + 1 < len(stages) else len(load)
    part = load[max(int(start) - 1, 0):end]
    if len(part) < 2:
        continue
    seconds = (part[-1][0] - part[0][0]) / 1000
    served = [share(part, k) for k in (1, 2)]
    errors = [part[-1][k] - part[0][k] for k in (3, 4)]
    shares[name] = served, errors
    rates = [(part[-1][k] - part[0][k]) / seconds for k in (1, 2)]
    print(f"growth: {name:20} {seconds:7.1f} {rates[0]:8.1f} {rates[1]:8.1f}  {100 * served[0]:15.0f}% {100 * served[1]:9.0f}%  {errors[0]} of writes, {errors[1]} of reads")
served, errors = shares["full"]
assert min(served) >= 0.5, f"a full pool served {served} of the time"
assert errors == [0, 0], f"a full pool refused writes to pages that are there, or reads: {errors}"
text = open(f"{out}/events.json").read()
for said in ("warning: ", "critical: ", "full: "):
    assert f'"object":"pool p0","text":"{said}' in text, f"the pool did not say: {said}"
print("growth: everything that was durable is there; the pool warned, was critical, was full, and took writes again")
PYTHON
