#!/usr/bin/env bash
# Follows README.md as a newcomer does, from the package to a disk with a file system in a host. The block for an installed package is typed
# as it stands, in a clean root of Debian. What `masu host connect` prints is typed in a guest with the kernel's initiator, which then makes
# a file system and mounts it.
#   judges/newcomer.sh
# Stand-ins: `apt install` by dpkg, `systemctl` by the unit's command and user; in the guest, udev's name of the disk by what sysfs says of it.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() { echo "newcomer: skipped: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "needs root (chroot, network namespace)"
for tool in dpkg-deb mmdebstrap qemu-system-x86_64 cpio unshare; do command -v "$tool" >/dev/null || skip "$tool is not installed (make setup installs it on Debian)"; done
masu=$(realpath "${MASU:-target/checked/masu}")
[ -x "$masu" ] || { echo "newcomer: $masu is missing; run make build" >&2; exit 2; }
# shellcheck source=judges/clean_root.sh
. judges/clean_root.sh
clean_root_tar || skip "mmdebstrap could not make a root"
# The page uses the port of iSCSI: mounts and a network of its own.
[ -n "${MASU_NEWCOMER:-}" ] || exec env MASU_NEWCOMER=own unshare --mount --net --propagation private "$0" "$@"
readonly ADDRESS=192.0.2.10 GUEST_TIMEOUT_S=180
judges/guest/build.sh
dir=$(realpath "$(mktemp -d target/judges/newcomer.XXXXXX)")
root=$dir/root
array=""
# shellcheck disable=SC2317 # reached through the trap
stop() {
  local rc=$?
  trap - EXIT INT TERM
  [ "$rc" = 0 ] || tail -n 15 "$dir"/{log,typed} >&2 2>/dev/null || true
  [ -z "$array" ] || within masu stop --timeout 20s >/dev/null 2>&1 || kill -KILL "$array" 2>/dev/null || true
  leave_root "$root"
  rm -rf "$dir"
  exit "$rc"
}
trap stop EXIT
trap 'exit 130' INT TERM
fail() { echo "newcomer: $*" >&2; exit 1; }

ip link set lo up
ip addr add "$ADDRESS/32" dev lo
package=$(MASU_DEB_COMPRESSION="-Zgzip -z1" packaging/deb.sh "$masu" "$dir")
clean_root "$root"
awk '/^For an installed package/ { on = 1; next } on && /^    / { print substr($0, 5); some = 1; next } some { exit }' README.md >"$dir/block"
[ "$(grep -c . "$dir/block")" -ge 8 ] || fail "README.md has no block for an installed package"

apt() { cp "$package" "$root/tmp/masu.deb" && within dpkg --force-unsafe-io -i /tmp/masu.deb && systemctl start masu; }
systemctl() {
  [ "$1" = start ] || { within masu stop --timeout 20s && wait "$array"; }
  by_unit >>"$dir/log" 2>&1 &
  array=$!
  within masu wait --timeout 20s
}
started=$SECONDS
typed=0
while IFS= read -r line; do
  case $line in
    apt\ * | systemctl\ *) eval "$line" </dev/null >>"$dir/typed" 2>&1 || fail "failed: $line" ;;
    *) within bash -c "$line" </dev/null >"$dir/said" 2>&1 || { cat "$dir/said" >&2; fail "failed: $line"; } ;;
  esac
  typed=$((typed + 1))
done <"$dir/block"
installed=$((SECONDS - started))

# The last line of the block printed what to type on the host.
grep -q '^iscsiadm -m node' "$dir/said" || fail "masu host connect names no login"
mkdir "$dir/extra"
sed "s/ADDRESS/$ADDRESS/" "$dir/said" >"$dir/extra/connect"
(cd "$dir/extra" && echo connect | cpio --quiet -o -H newc | gzip -1) >"$dir/extra.cpio"
cat target/judges/guest/initramfs "$dir/extra.cpio" >"$dir/initramfs"
timeout --kill-after=5 "$GUEST_TIMEOUT_S" qemu-system-x86_64 -accel tcg -cpu max -m 512 -nographic -no-reboot \
  -kernel target/judges/guest/vmlinuz -initrd "$dir/initramfs" -append "console=ttyS0 quiet panic=-1 rdinit=/newcomer" \
  -netdev user,id=n -device virtio-net-pci,netdev=n,romfile= </dev/null 2>&1 | tr -d '\r' >"$dir/console" || true
grep -aqx MASU_GUEST_OK "$dir/console" || { grep -a '^guest:' "$dir/console" >&2 || true; fail "the host has no mounted disk"; }
echo "newcomer: $typed commands of README.md and $(grep -cv '^#' "$dir/extra/connect") lines on the host: a mounted disk after $((SECONDS - started)) s, $installed of them for the array"
