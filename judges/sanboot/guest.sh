#!/usr/bin/env bash
# Powers a server on: an emulated machine without disks, whose firmware (iPXE) logs in to a target on this host's loopback
# address with the server's own initiator name and boots from LUN 0. Returns when the machine is off.
#
#   judges/sanboot/guest.sh DIR INITIATOR PORT TARGET [USER PASSWORD]
#
# DIR/console has what it said, each line with the seconds since power-on. Exit status 0 only if the machine switched itself off in time.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 4 ] || [ $# = 6 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
dir=$1 initiator=$2 port=$3 target=$4 user=${5:-} password=${6:-}
# One takes about 15 s of one core; eight share two cores, which others use, too.
readonly GUEST_TIMEOUT_S=${SANBOOT_TIMEOUT_S:-300}

mkdir -p "$dir/tftp"
cat >"$dir/tftp/boot.ipxe" <<END
#!ipxe
set initiator-iqn $initiator
${user:+set username $user
set password $password}
echo firmware: \${initiator-iqn} asks for LUN 0
sanboot iscsi:10.0.2.2::$port:0:$target || echo firmware: nothing to boot from
sleep 1
reboot
END

now_us() { echo "${EPOCHREALTIME/[.,]/}"; }
started_us=$(now_us)
stamp() {
  local line elapsed_ms
  while IFS= read -r line || [ -n "$line" ]; do
    elapsed_ms=$((($(now_us) - started_us) / 1000))
    printf '%d.%03d %s\n' $((elapsed_ms / 1000)) $((elapsed_ms % 1000)) "${line//$'\r'/}"
  done
}
exec 3> >(stamp >"$dir/console" 2>/dev/null); stamper=$!
# -no-reboot: a reboot, which is how the firmware says that it found nothing, ends the machine.
timeout --kill-after=5 "$GUEST_TIMEOUT_S" qemu-system-x86_64 -accel tcg -cpu max -m 256 -nographic -no-reboot -boot n \
  -netdev "user,id=n,tftp=$dir/tftp,bootfile=boot.ipxe" -device virtio-net-pci,netdev=n </dev/null >&3 2>&1 &
machine=$!
trap 'kill -TERM "$machine" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
exec 3>&-
rc=0
wait "$machine" || rc=$?
wait "$stamper" || true
exit "$rc"
