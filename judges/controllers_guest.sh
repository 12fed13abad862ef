#!/usr/bin/env bash
# A pool moves between two controllers of one array, as a host sees it: a guest with open-iscsi, dm-multipath, ext4 and fio with verification,
# and a path to a port of each controller.
#
#   judges/controllers_guest.sh      `masu pool move` MOVES (6) times; then the path to the owner is cut, and the host itself asks for the other
#                                    controller's ports (SET TARGET PORT GROUPS, explicit ALUA)
#
# After each, the kernel (ALUA) and multipathd prefer the path to the owner. Judged: fio reads back what it wrote, the file system sees no error,
# its files are intact and fsck is clean; the bar of planned moves; the pool is at the controller whose path is left. MASU names another binary.
# shellcheck disable=SC2317 # stop is reached through the trap
set -euo pipefail
cd "$(dirname "$0")/.."
readonly TARGET=iqn.2026-11.example.masu:controllers OUT=$PWD/target/judges/controllers_guest
# In milliseconds: a planned move.
readonly PLANNED_MAX=1000
masu=${MASU:-target/release/masu}
fail() { echo "controllers_guest: FAIL $*; the guest's console is $OUT/console" >&2; exit 1; }
[ $# = 0 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ -x "$masu" ] || { echo "controllers_guest: $masu is missing; run make build" >&2; exit 2; }
# shellcheck source=judges/guest_load.sh
. judges/guest_load.sh
# shellcheck source=judges/ports.sh
. judges/ports.sh
needs_guest
rm -rf "$OUT"; mkdir -p "$OUT"

array="" cut=""
stop() {
  trap - EXIT INT TERM
  local pid
  for pid in $guest $array $cut; do { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true; done
  rm -rf "$OUT/data"
}
trap stop EXIT
trap 'exit 130' INT TERM

# The host reaches the port of controller 1 through another one, which can be cut.
port[0]=$(free_port); port[1]=$((port[0] + 2)); portal=$((port[0] + 1))
cat >"$OUT/array.toml" <<END
target = "$TARGET"
controllers = 2
[cache]
memory = "32MiB"
[[portal]]
listen = "127.0.0.1:${port[0]}"
controller = 0
[[portal]]
listen = "127.0.0.1:$portal"
controller = 1
[[drive]]
name = "d0"
file = "d0.img"
size = "192MiB"
[[drive]]
name = "j0"
file = "j0.img"
size = "64MiB"
[[group]]
name = "g0"
level = "raid0"
drives = ["d0"]
[[group]]
name = "journal"
level = "raid0"
drives = ["j0"]
[[pool]]
name = "p0"
groups = ["g0"]
journal = "journal"
[[volume]]
name = "v0"
pool = "p0"
size = "64MiB"
[[host]]
name = "any"
initiator = "*"
luns = { 0 = "v0" }
END
"$masu" serve --data "$OUT/data" --config "$OUT/array.toml" >"$OUT/masu.log" 2>&1 & array=$!
"$masu" wait --data "$OUT/data" >/dev/null
: >"$OUT/forward.log"
python3 judges/forward.py "${port[1]}" "$portal" >"$OUT/forward.log" & cut=$!
until_holds "the second path is there" grep -q forwards "$OUT/forward.log"
owner=0; other=1
boot "$GATEWAY:${port[0]},$GATEWAY:${port[1]}"
told_apart "at first"

move() {
  sleep 3
  "$masu" pool move p0 --controller "$other" --data "$OUT/data" >>"$OUT/moves.log" 2>&1 || fail "move: $(tail -n 1 "$OUT/moves.log")"
  swap; sleep 3
}
for n in $(seq "${MOVES:-6}"); do run "moved $n" 10 move; done
told_apart "moved"

# Its connections go with it.
cut_path() { sleep 3; kill -KILL "$cut"; wait "$cut" 2>/dev/null || true; cut=""; sleep 12; }
is_at() { "$masu" pool list --data "$OUT/data" --columns name,controller --output csv | tr -d '\r' | grep -qx "p0,$1"; }
[ "$owner" = 1 ] || { run "moved again" 10 move; told_apart "moved again"; }
run "cut" 24 cut_path
until_holds "the host has asked for the other controller's ports" is_at 0
grep -q 'moved from controller 1 to controller 0 (by a host' "$OUT/masu.log" || fail "the pool has not moved because the host asked for it"
echo "controllers_guest: the path to controller 1 was cut: the host asked for the ports of controller 0, and the pool moved"
finish
echo "controllers_guest: moved: worst $(worst moved) ms; path cut: $(worst cut) ms; file system and files intact, fsck clean"
[ "$(worst moved)" -le "$PLANNED_MAX" ] || fail "a planned move took $(worst moved) ms: more than $PLANNED_MAX ms"
