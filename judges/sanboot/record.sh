#!/usr/bin/env bash
# Records what a server reads and writes while it boots from masu, from power-on until its system runs: the load of the
# boot storm of `masu verify sanboot` (scenarios/sanboot_boot.txt).
#
#   judges/with_masu.sh --empty judges/sanboot/record.sh OUT
#
# One server (judges/sanboot/guest.sh) boots from a clone of the golden image, through a recorder (record.py) that forwards
# its connections. The server's daemon logs in again later at the array's own port: nothing of that is recorded.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
readonly RESULT=$1 OUT=target/judges/sanboot/record NAMES=iqn.2026-11.example.judge
: "${MASU_PORT:?run it by judges/with_masu.sh --empty}" "${MASU_TARGET:?}" "${MASU_DATA:?}"
masu() { "${MASU:-target/release/masu}" "$@" >>"$OUT/masu.log" || { echo "record: masu $*: failed" >&2; return 1; }; }
# shellcheck source=judges/ports.sh
. judges/ports.sh

judges/sanboot/image.sh
rm -rf "$OUT"; mkdir -p "$OUT"
size=$(stat -c %s target/judges/sanboot/image/disk.img)
masu volume create golden --pool system --size "$((size / 1048576))MiB"
masu host set installer "$NAMES:installer"
masu host map installer golden --lun 0
qemu-img convert -n -f raw --target-image-opts target/judges/sanboot/image/disk.img \
  "driver=iscsi,transport=tcp,portal=127.0.0.1:$MASU_PORT,target=$MASU_TARGET,lun=0,initiator-name=$NAMES:installer"
masu host unmap installer golden --yes
masu snapshot create golden system1
masu host set server1 "$NAMES:server1"
masu host map server1 system1 --lun 0
# The server's steps after its boot use a data disk.
masu volume create data1 --pool data --size 64MiB
masu host set server1.data "$NAMES:server1.data"
masu host map server1.data data1 --lun 0

port=$(free_port)
python3 judges/sanboot/record.py serve "$port" "$MASU_PORT" "$OUT/commands" >"$OUT/recorder" &
recorder=$!
trap 'kill -TERM "$recorder" 2>/dev/null || true' EXIT
until listens "$port"; do sleep 0.1; done
power_on_us=${EPOCHREALTIME/[.,]/}
judges/sanboot/guest.sh "$OUT/server1" "$NAMES:server1" "$port" "$MASU_TARGET" || { tail -n 12 "$OUT/server1/console" >&2; exit 1; }
up_s=$(grep -aE -m 1 'guest: pass the system runs' "$OUT/server1/console" | cut -d ' ' -f 1)
up_us=$(awk -v from="$power_on_us" -v s="$up_s" 'BEGIN { printf "%.0f", from + s * 1e6 }')
release=$(dpkg -f target/judges/kernel/linux-image-*.deb Package)
{
  echo "# What a server reads and writes while it boots from masu, from power-on until its system runs. Recorded by"
  echo "# judges/sanboot/record.sh: an emulated server ($(qemu-system-x86_64 --version | sed -n '1s/^QEMU emulator version //p'), without KVM, one processor)"
  echo "# whose iPXE loads syslinux, Debian's $release and an initramfs from its LU, which mounts its root file system."
  echo "#"
  echo "# AFTER THINK_US OP LBA BLOCKS: OP (R read, W write) is issued THINK_US after the command that stands AFTER lines before it"
  echo "# is answered: the last answer before it was issued; 0: after power-on. Blocks have 512 bytes. The last line: the system runs."
  python3 judges/sanboot/record.py condense "$OUT/commands" "$power_on_us" "$up_us"
} >"$OUT/trace"
mv "$OUT/trace" "$RESULT"
echo "record: $(grep -vc '^#' "$RESULT") lines; the system ran after $up_s s"
