#!/usr/bin/env bash
# A real Linux kernel initiator, in a guest of an emulator, against a target on this host's loopback address.
#
#   judges/guest/run.sh PORT TARGET [USER PASSWORD [USER_IN PASSWORD_IN]]
#
#   PORT TARGET          where the target listens on 127.0.0.1, and its name; the guest's first disk IS OVERWRITTEN
#   USER PASSWORD        CHAP of the host; USER_IN PASSWORD_IN what the target proves in turn
#   INITIATOR (environment)  the guest's initiator name
#
# Exit status 0 only if the guest said that every step passed. Its console is kept in target/judges/guest.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
readonly GUEST_TIMEOUT_S=180 # a run takes about 20 s of one core under TCG
readonly LOG=target/judges/guest.log
command -v qemu-system-x86_64 >/dev/null || { echo "guest: qemu-system-x86_64 is missing (Debian package qemu-system-x86)" >&2; exit 2; }

judges/guest/build.sh
line="console=ttyS0 quiet panic=-1 judge.portal=10.0.2.2:$1 judge.target=$2 judge.user=${3:-} judge.password=${4:-}"
line+=" judge.user_in=${5:-} judge.password_in=${6:-} judge.initiator=${INITIATOR:-iqn.2026-11.example.judge:guest}"

started=$SECONDS
timeout --kill-after=5 "$GUEST_TIMEOUT_S" qemu-system-x86_64 -accel tcg -cpu max -m 512 -nographic -no-reboot \
  -kernel target/judges/guest/vmlinuz -initrd target/judges/guest/initramfs -append "$line" \
  -netdev user,id=n -device virtio-net-pci,netdev=n,romfile= </dev/null 2>&1 |
  tr -d '\r' | tee "$LOG" | grep --line-buffered -aE '^(guest:|MASU_GUEST_OK)' || true
if grep -aqx 'MASU_GUEST_OK' "$LOG"; then
  echo "guest: every step passed in $((SECONDS - started)) s"
else
  echo "guest: FAIL, its console is in $LOG" >&2
  tail -n 5 "$LOG" >&2
  exit 1
fi
