# shellcheck shell=bash
# A guest with dm-multipath and fio as the host of an array (judges/guest/cluster): sourced by the judges of fail-over. They set OUT (a
# directory), TARGET, owner and other (names), port (of each), and have a function `fail`.

readonly INITIATOR=iqn.2026-11.example.judge:host STEP_TIMEOUT_S=120
# docs/cluster.md recommends these.
readonly REPLACEMENT_S=3 NOOP_S=3
judge=$(basename "$0" .sh) guest="" loads=0 asked=0
declare -A gaps port

# Says why, and succeeds, where the guest cannot be built.
needs_guest() {
  local needed
  for needed in qemu-system-x86_64 fio iscsid dmsetup udevadm; do
    command -v "$needed" >/dev/null || { echo "$judge: skipped: $needed is not installed; run judges/setup.sh"; exit 0; }
  done
  [ -x target/judges/multipath/sbin/multipathd ] || { echo "$judge: skipped: no multipath-tools in target/judges; run judges/setup.sh"; exit 0; }
  [ -d target/judges/kernel_alua ] || { echo "$judge: skipped: no kernel that knows ALUA in target/judges; run judges/setup.sh --alua"; exit 0; }
  judges/guest/build_cluster.sh
}
# until WHAT COMMAND...: it holds, or the judge fails.
until_holds() {
  local what=$1 waited=0; shift
  until "$@"; do
    [ "$waited" -lt $((STEP_TIMEOUT_S * 10)) ] || fail "$what: not after $STEP_TIMEOUT_S s"
    sleep 0.1; waited=$((waited + 1))
  done
}
said() {
  ! grep -aqE 'guest: FAIL' "$OUT/console" || fail "$(grep -aE -m 1 'guest: FAIL' "$OUT/console" | tr -d '\r')"
  [ "$(grep -acE "$1" "$OUT/console" || true)" -ge "$2" ]
}
# This machine's loopback as the guest reaches it.
# shellcheck disable=SC2034 # of who sources this
readonly GATEWAY=10.0.2.2
# boot PORTAL,PORTAL: the guest, with a path to each of these portals.
boot() {
  mkfifo "$OUT/orders"
  : >"$OUT/console"
  qemu-system-x86_64 -accel tcg -cpu max -m 640 -nographic -no-reboot -kernel target/judges/guest_cluster/vmlinuz -initrd target/judges/guest_cluster/initramfs \
    -append "console=ttyS0 quiet panic=-1 rdinit=/cluster judge.portals=$1 judge.target=$TARGET judge.initiator=$INITIATOR judge.replacement=$REPLACEMENT_S judge.noop=$NOOP_S judge.debug=1" \
    -netdev user,id=n -device virtio-net-pci,netdev=n,romfile= <"$OUT/orders" >>"$OUT/console" 2>&1 & guest=$!
  exec 4>"$OUT/orders"
  until_holds "the guest begins" said '^guest: begins' 1
}
sorted() { tr ' ' '\n' | sed '/^$/d' | sort -n; }
# run NAME SECONDS FAULT...: fio for so long, and the fault meanwhile.
run() {
  local name=$1 seconds=$2 rc count gap at
  shift 2
  loads=$((loads + 1))
  echo "load $seconds" >&4
  until_holds "fio runs" said '^guest: loads' "$loads"
  "$@"
  echo "result" >&4
  until_holds "fio ends" said '^guest: result' "$loads"
  read -r rc count gap at _ < <(grep -aE '^guest: result' "$OUT/console" | tail -n 1 | tr -d '\r' | cut -d ' ' -f 3-)
  [ "$rc" = 0 ] || fail "$name: fio ended with $rc"
  printf '%s: %-28s longest gap %5d ms in %5d I/Os (at %d ms)\n' "$judge" "$name" "$gap" "$count" "$at"
  gaps[${name%% *}]+=" $gap"
}
worst() { echo "${gaps[$1]}" | sorted | tail -n 1; }
swap() { local last=$owner; owner=$other; other=$last; }
# The kernel and multipathd prefer the owner's portal: optimized, where the other one is not.
are_told_apart() {
  asked=$((asked + 1))
  echo "paths" >&4
  until_holds "the paths are listed" said '^guest: paths end' "$asked"
  tail -n 6 "$OUT/console" | tr -d '\r' >"$OUT/paths"
  grep -qE "^guest: path ${port[$owner]} active/optimized 50" "$OUT/paths" && grep -qE "^guest: path ${port[$other]} active/non-optimized 10" "$OUT/paths"
}
told_apart() { until_holds "the path to $owner is preferred" are_told_apart; echo "$judge: $1: active/optimized at the owner, active/non-optimized at the other"; }
# The file system and its files are intact, and the guest has ended.
finish() { echo end >&4; until_holds "the guest ends" said '^MASU_GUEST_OK' 1; wait "$guest" || true; guest=""; }
