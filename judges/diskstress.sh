#!/usr/bin/env bash
# The load as one static binary: that it is one, that it is small, and that it runs in a guest that has nothing but busybox beside it.
#   judges/diskstress.sh
set -euo pipefail
cd "$(dirname "$0")/.."
readonly OUT=target/judges/diskstress
readonly GUEST_TIMEOUT_S=120 # a boot and 32 MB take about 15 s of one core under TCG
readonly BYTES_MAX=2000000
fail() { echo "diskstress: FAIL: $*" >&2; exit 1; }

judges/diskstress/build.sh
# A program that is loaded by another names it (ELF, PT_INTERP); a static one names none.
! readelf -lW "$OUT/diskstress" | grep -q INTERP || fail "it is not static"
! readelf -dW "$OUT/diskstress" 2>/dev/null | grep -q NEEDED || fail "it needs libraries"
bytes=$(stat -c %s "$OUT/diskstress")
[ "$bytes" -le "$BYTES_MAX" ] || fail "$bytes bytes are more than $BYTES_MAX"
echo "diskstress: static: $(ldd "$OUT/diskstress" 2>&1 | head -n 1 | xargs), $bytes bytes"
"$OUT/diskstress" "$OUT" --patterns W4x1,R4x1 | tail -n 1

command -v qemu-system-x86_64 >/dev/null || { echo "diskstress: qemu-system-x86_64 is missing (Debian package qemu-system-x86)" >&2; exit 2; }
truncate -s 64M "$OUT/disk.img"
coproc GUEST { timeout --kill-after=5 "$GUEST_TIMEOUT_S" qemu-system-x86_64 -accel tcg -cpu max -m 256 -display none -monitor none \
  -serial stdio -no-reboot -kernel "$OUT/vmlinuz" -initrd "$OUT/initramfs" -append "console=ttyS0 quiet panic=-1" \
  -drive "file=$OUT/disk.img,format=raw,if=virtio,cache=none" 2>&1; }
results=0
while read -r line <&"${GUEST[0]}"; do
  line=${line//$'\r'/}
  case $line in
    DISKSTRESS_READY) echo "--patterns W4x4,R4x4" >&"${GUEST[1]}" ;;
    '{"pattern"'*'"wrong":0}') results=$((results + 1)); echo "diskstress: in the guest: $line" ;;
    "DISKSTRESS_DONE 0") echo end >&"${GUEST[1]}" ;;
    DISKSTRESS_*) fail "in the guest: $line" ;;
  esac
done
rm -f "$OUT/disk.img"
[ "$results" = 2 ] || fail "the guest gave $results results of 2"
echo "diskstress: runs in a guest"
