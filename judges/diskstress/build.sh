#!/usr/bin/env bash
# Builds the load as one static binary, and a guest that has it: target/judges/diskstress/{diskstress,vmlinuz,initramfs}.
# With the musl target of Rust where it is installed (rustup target add x86_64-unknown-linux-musl), else with static glibc.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=judges/guest/parts.sh
. judges/guest/parts.sh

readonly OUT=target/judges/diskstress
readonly MODULES="virtio_pci virtio_blk"
machine=$(uname -m)
mkdir -p "$OUT"

if rustc --print target-libdir --target "$machine-unknown-linux-musl" 2>/dev/null | xargs -I {} test -e {}/self-contained; then
  cargo build --quiet --release --locked --package diskstress --target "$machine-unknown-linux-musl"
  built="target/$machine-unknown-linux-musl/release/diskstress"
else
  RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --release --locked --package diskstress --target "$machine-unknown-linux-gnu"
  built="target/$machine-unknown-linux-gnu/release/diskstress"
fi
[ "$OUT/diskstress" -nt "$built" ] || strip -o "$OUT/diskstress" "$built" 2>/dev/null || cp "$built" "$OUT/diskstress"

[ "${1:-}" != --binary-only ] || exit 0
package=$(guest_package target/judges/kernel)
guest_needs busybox cpio dpkg modprobe depmod
! guest_fresh "$OUT/initramfs" judges/diskstress/{build.sh,init} judges/guest/parts.sh "$OUT/diskstress" "$package" || exit 0
rm -rf "$OUT/kernel" "$OUT/root"; mkdir -p "$OUT/kernel" "$OUT/root"
release=$(guest_kernel "$package" "$OUT/kernel")
cp "$OUT/kernel/vmlinuz" "$OUT/vmlinuz"
guest_tree "$OUT/root"
cp judges/diskstress/init "$OUT/root/init"; chmod 755 "$OUT/root/init"
cp "$OUT/diskstress" "$OUT/root/bin/diskstress"
# shellcheck disable=SC2086 # a list of words
guest_modules "$OUT/root" "$OUT/kernel" "$release" $MODULES
guest_initramfs "$OUT/root" "$OUT/initramfs.new"
rm -rf "$OUT/kernel" "$OUT/root"
mv "$OUT/initramfs.new" "$OUT/initramfs"
echo "diskstress: guest with kernel $release, initramfs $(du -h "$OUT/initramfs" | cut -f 1)"
