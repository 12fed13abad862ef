#!/usr/bin/env bash
# Servers without disks that boot Linux from masu: each logs in from its firmware with a name of its own, sees its system
# disk as LUN 0 and nothing else, boots from it, works on it and on a data disk over the other controller, shuts down; all at once. Then the disk of one server is mapped to
# another, which boots from it and finds what the first one left; and who has no disk finds none.
#
#   judges/with_masu.sh --empty judges/sanboot.sh [SERVERS]
#
#   SERVERS   how many, 2 to 16 (default 8)
#
# Every second server proves who it is with CHAP, from its firmware on.
# Everything is judged by the servers' consoles, which stay in target/judges/sanboot, and none of it by masu.
# SANBOOT_TIMEOUT_S (300) is how long a server may take.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly OUT=target/judges/sanboot
readonly NAMES=iqn.2026-11.example.judge # each server is NAMES:serverN
servers=${1:-8}
if ! [[ $servers =~ ^([2-9]|1[0-6])$ ]]; then sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 2; fi
: "${MASU_PORT:?run it by judges/with_masu.sh --empty}" "${MASU_TARGET:?}" "${MASU_DATA:?}"
# Whose disk is given to whom: the third's to the fifth where there are so many.
from=$((servers >= 5 ? 3 : servers - 1)); to=$((servers >= 5 ? 5 : servers))
readonly servers from to

masu() { "${MASU:-target/release/masu}" "$@" >>"$OUT/masu.log" || { echo "sanboot: masu $*: failed" >&2; return 1; }; }
fail() { echo "sanboot: FAIL $*" >&2; exit 1; }
for tool in qemu-system-x86_64 qemu-img iscsi-inq; do
  command -v "$tool" >/dev/null || { echo "sanboot: $tool is missing; run judges/setup.sh" >&2; exit 2; }
done
for firmware in /usr/share/seabios /usr/lib/ipxe/qemu/pxe-virtio.rom; do
  [ -e "$firmware" ] || { echo "sanboot: $firmware is missing (Debian packages seabios, ipxe-qemu); run judges/setup.sh" >&2; exit 2; }
done

declare -A machine=() # run -> process
# shellcheck disable=SC2317 # reached through the trap
power_off_all() {
  trap - EXIT INT TERM
  local run
  for run in "${!machine[@]}"; do kill -TERM "${machine[$run]}" 2>/dev/null || true; done
  wait
}
trap power_off_all EXIT
trap 'exit 130' INT TERM

# secret SERVER: what it proves, empty for every other server.
secret() { if [[ $1 =~ ^server[0-9]*[02468]$ ]]; then echo "secret-of-$1"; fi; }
# power_on RUN SERVER [without-secret]: in the background; the console is OUT/RUN/console.
power_on() {
  local chap=()
  [ -z "$(secret "$2")" ] || [ $# -gt 2 ] || chap=("$2" "$(secret "$2")")
  judges/sanboot/guest.sh "$OUT/$1" "$NAMES:$2" "$MASU_PORT" "$MASU_TARGET" "${chap[@]+"${chap[@]}"}" &
  machine[$1]=$!
}
# off RUN: waits until it is off; says so when it had to be ended.
off() {
  local rc=0
  wait "${machine[$1]}" || rc=$?
  unset "machine[$1]"
  [ "$rc" = 0 ] || { explain "$1" "did not switch itself off in time (status $rc)"; return 1; }
}
# says RUN EXPRESSION: whether a whole line of the console is that.
says() { grep -aqE "^[0-9.]+ $2\$" "$OUT/$1/console"; }
# at RUN EXPRESSION: seconds from power-on until the console had said that.
at() { grep -aE -m 1 -- "$2" "$OUT/$1/console" | cut -d ' ' -f 1; }
explain() {
  echo "sanboot: $1 $2; its console is $OUT/$1/console and ends so:" >&2
  { grep -a -A 11 -m 1 'guest: FAIL' "$OUT/$1/console" || tail -n 12 "$OUT/$1/console"; } | cut -c 1-200 | tr -dc '[:print:]\n' | sed 's/^/  /' >&2
}

# judge RUN SERVER: it was the server, on LUN 0 alone, and every step passed.
judge() {
  off "$1" || return 1
  if grep -aq 'guest: FAIL' "$OUT/$1/console"; then explain "$1" "failed: $(grep -ao 'guest: FAIL.*' "$OUT/$1/console")"; return 1; fi
  says "$1" 'MASU_GUEST_OK' || { explain "$1" "switched off before every step had passed"; return 1; }
  says "$1" "guest:   initiator $NAMES:$2" || { explain "$1" "is not $NAMES:$2"; return 1; }
  says "$1" "guest: wrote $2 [0-9a-f]{64}" || { explain "$1" "wrote no file with its name"; return 1; }
  says "$1" 'guest: pass data disk written and read back' || { explain "$1" "did not use its data disk"; return 1; }
  says "$1" 'guest: pass REPORT LUNS says LUN 0 and nothing else' || { explain "$1" "did not look at its LUNs"; return 1; }
}
row() {
  printf '%-22s %8s %8s %8s %8s %8s\n' "$1" "$(at "$1" 'firmware:')" "$(at "$1" 'kernel and initramfs came')" \
    "$(at "$1" 'pass logged in again')" "$(at "$1" 'pass the system runs')" "$(at "$1" 'MASU_GUEST_OK')"
}
header() { printf '%-22s %8s %8s %8s %8s %8s   seconds from power-on\n' "" firmware Linux login system off; }

# written RUN: the checksum of the file that it wrote. found RUN: the server and the checksum of every file that it found.
written() { sed -n 's/^[0-9.]* guest: wrote [^ ]* //p' "$OUT/$1/console"; }
found() { sed -n 's/^[0-9.]* guest: found //p' "$OUT/$1/console"; }

# ------------------------------------------------------------------ the golden image, and a clone of it for each server
judges/sanboot/image.sh
find "$OUT" -mindepth 1 -maxdepth 1 ! -name image -exec rm -rf {} +
size=$(stat -c %s "$OUT/image/disk.img")
masu volume create golden --pool system --size "$((size / 1048576))MiB"
masu host set installer "$NAMES:installer"
masu host map installer golden --lun 0
qemu-img convert -n -f raw --target-image-opts "$OUT/image/disk.img" \
  "driver=iscsi,transport=tcp,portal=127.0.0.1:$MASU_PORT,target=$MASU_TARGET,lun=0,initiator-name=$NAMES:installer"
masu host unmap installer golden --yes
masu host delete installer --yes
for n in $(seq "$servers"); do
  masu snapshot create golden "system$n"
  proof=$(secret "server$n")
  if [ -n "$proof" ]; then
    MASU_CHAP="server$n:$proof" masu host set "server$n" "$NAMES:server$n"
  else
    masu host set "server$n" "$NAMES:server$n"
  fi
  masu host map "server$n" "system$n" --lun 0
  masu volume create "data$n" --pool data --size 64MiB
  masu host set "server$n.data" "$NAMES:server$n.data"
  masu host map "server$n.data" "data$n" --lun 0
done
echo "sanboot: one golden image over iSCSI, $servers clones of it, each mapped to its server as LUN 0; a data disk for each on the other controller"

# ------------------------------------------------------------------ all at once
started=$SECONDS
for n in $(seq "$servers"); do power_on "server$n" "server$n"; done
failed=0
for n in $(seq "$servers"); do judge "server$n" "server$n" || failed=$((failed + 1)); done
[ "$failed" = 0 ] || fail "$failed of $servers servers did not boot and work from the array"
for n in $(seq "$servers"); do
  [ -z "$(found "server$n")" ] || fail "server$n found files of others on a fresh disk: $(found "server$n")"
done
header
for n in $(seq "$servers"); do row "server$n"; done
echo "sanboot: $servers servers booted, worked and shut down in $((SECONDS - started)) s"

# ------------------------------------------------------------------ the disk of one server goes to another, online
masu host unmap "server$to" "system$to" --yes
masu host unmap "server$from" "system$from" --yes
masu host map "server$to" "system$from" --lun 0
power_on "server$to-remapped" "server$to"
judge "server$to-remapped" "server$to" || fail "server$to does not boot from the disk of server$from"
[ "$(found "server$to-remapped")" = "server$from $(written "server$from")" ] ||
  fail "server$to, on the disk of server$from, found '$(found "server$to-remapped")' and not the file of server$from with the checksum $(written "server$from")"
row "server$to-remapped"
echo "sanboot: the disk of server$from is mapped to server$to, which booted from it and found the file of server$from, the same"

# ------------------------------------------------------------------ who has no disk finds none
power_on "server$from-without" "server$from"
power_on stranger stranger
power_on impostor server2 without-secret
for run in "server$from-without" stranger impostor; do
  off "$run" || fail "$run: its firmware did not give up"
  says "$run" '.*firmware: nothing to boot from.*' || { explain "$run" "did not say that there is nothing to boot from"; fail "$run"; }
  ! grep -aqE 'guest:|SYSLINUX|Linux version' "$OUT/$run/console" || { explain "$run" "booted"; fail "$run has no disk and booted"; }
done
# inquiry INITIATOR [SERVER]: LUN 0 as another initiator sees it, with the secret of that server.
inquiry() {
  local proof
  proof=$(secret "${2:-}")
  iscsi-inq --initiator-name "$1" "iscsi://${proof:+$2%$proof@}127.0.0.1:$MASU_PORT/$MASU_TARGET/0" 2>&1 || true
}
inquiry "$NAMES:server$to" "server$to" >"$OUT/inquiry_mapped"; inquiry "$NAMES:server$from" "server$from" >"$OUT/inquiry_unmapped"
inquiry "$NAMES:stranger" >"$OUT/inquiry_stranger"; inquiry "$NAMES:server2" >"$OUT/inquiry_impostor"
grep -q 'DIRECT_ACCESS' "$OUT/inquiry_mapped" || fail "server$to does not see its LUN 0: see $OUT/inquiry_mapped"
grep -q 'LOGICAL_UNIT_NOT_SUPPORTED' "$OUT/inquiry_unmapped" || fail "server$from sees a LUN 0: see $OUT/inquiry_unmapped"
grep -q 'Authorization failure' "$OUT/inquiry_stranger" || fail "a stranger is not refused by name: see $OUT/inquiry_stranger"
grep -q 'Login [Ff]ailed' "$OUT/inquiry_impostor" || fail "server2 without its secret is not refused: see $OUT/inquiry_impostor"
echo "sanboot: server$from, whose disk is gone, a stranger, and one with the name of server2 but not its secret find nothing to boot from"
echo "sanboot: everything passed"
