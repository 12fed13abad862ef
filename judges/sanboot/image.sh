#!/usr/bin/env bash
# Builds the system disk that servers boot from: a boot partition with a loader (syslinux), Debian's kernel and an initramfs that
# logs in again, and a root partition (ext4) with a small system. Needs no root and no loop device. Every server boots the
# same image and learns who it is from its firmware. Rebuilds only what changed. Result: target/judges/sanboot/image/disk.img.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=judges/guest/parts.sh
. judges/guest/parts.sh

readonly OUT=target/judges/sanboot/image
readonly MODULES="virtio_pci virtio_net sd_mod iscsi_tcp iscsi_ibft ext4 crc32c_generic"
readonly MBR=/usr/lib/SYSLINUX/mbr.bin
# One track of 1 MiB for the MBR, 63 MiB with loader, kernel and initramfs (about 20), 64 with the system and its files.
readonly MIB=1048576 BOOT_AT_MIB=1 BOOT_MIB=63 ROOT_AT_MIB=64 ROOT_MIB=64

package=$(guest_package target/judges/kernel)
guest_needs busybox cpio dpkg modprobe depmod iscsistart iscsid iscsiadm sg_luns syslinux mformat mcopy sfdisk mkfs.ext4
[ -s "$MBR" ] || { echo "sanboot: $MBR is missing (Debian package syslinux); run judges/setup.sh" >&2; exit 2; }
! guest_fresh "$OUT/disk.img" judges/guest/parts.sh judges/sanboot/{image.sh,initramfs_init,system_init} "$package" || exit 0

rm -rf "$OUT"; mkdir -p "$OUT/kernel" "$OUT/initramfs" "$OUT/system"
release=$(guest_kernel "$package" "$OUT/kernel")

guest_tree "$OUT/initramfs"
cp judges/sanboot/initramfs_init "$OUT/initramfs/init"; chmod 755 "$OUT/initramfs/init"
# shellcheck disable=SC2086 # a list of words
guest_modules "$OUT/initramfs" "$OUT/kernel" "$release" $MODULES
guest_tools "$OUT/initramfs" iscsistart
guest_initramfs "$OUT/initramfs" "$OUT/initrd.gz"

guest_tree "$OUT/system"
mkdir -p "$OUT/system/srv"
cp judges/sanboot/system_init "$OUT/system/sbin/init"; chmod 755 "$OUT/system/sbin/init"
guest_tools "$OUT/system" sg_luns iscsid iscsiadm

image=$OUT/disk.new boot=$OUT/disk.new@@${BOOT_AT_MIB}M
truncate -s $(((ROOT_AT_MIB + ROOT_MIB) * MIB)) "$image"
printf 'label: dos\nstart=%dMiB, size=%dMiB, type=c, bootable\nstart=%dMiB, size=%dMiB, type=83\n' \
  "$BOOT_AT_MIB" "$BOOT_MIB" "$ROOT_AT_MIB" "$ROOT_MIB" | sfdisk --quiet "$image"
dd if="$MBR" of="$image" bs=440 count=1 conv=notrunc status=none
mformat -i "$boot" -T $((BOOT_MIB * MIB / 512)) -H $((BOOT_AT_MIB * MIB / 512)) -h 255 -s 63 ::
syslinux --offset $((BOOT_AT_MIB * MIB)) --install "$image"
printf 'DEFAULT linux\nLABEL linux\n  KERNEL vmlinuz\n  INITRD initrd.gz\n  APPEND console=ttyS0 quiet panic=-1\n' >"$OUT/syslinux.cfg"
mcopy -i "$boot" "$OUT/syslinux.cfg" "$OUT/kernel/vmlinuz" "$OUT/initrd.gz" ::
mkfs.ext4 -q -F -L system -d "$OUT/system" "$OUT/system.img" "${ROOT_MIB}M"
dd if="$OUT/system.img" of="$image" bs=$MIB seek="$ROOT_AT_MIB" conv=notrunc,sparse status=none

echo "sanboot: system disk of $((ROOT_AT_MIB + ROOT_MIB)) MiB: kernel $release, initramfs $(du -h "$OUT/initrd.gz" | cut -f 1)"
rm -rf "$OUT/kernel" "$OUT/initramfs" "$OUT/system" "$OUT/system.img" "$OUT/initrd.gz" "$OUT/syslinux.cfg"
mv "$image" "$OUT/disk.img"
