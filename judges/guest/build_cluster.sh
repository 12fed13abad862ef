#!/usr/bin/env bash
# Builds the guest with dm-multipath: the kernel of judges/guest with an initramfs of busybox, open-iscsi, udev, multipath-tools, fio and
# ext4's tools. Rebuilds only what changed. Result: target/judges/guest_cluster/vmlinuz and initramfs. multipath-tools is not installed but
# unpacked (judges/setup.sh): its daemon has no business on the machine that runs the judges.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=judges/guest/parts.sh
. judges/guest/parts.sh

readonly OUT=target/judges/guest_cluster MULTIPATH=target/judges/multipath
readonly MODULES="virtio_pci virtio_net sd_mod scsi_dh_alua iscsi_tcp ext4 crc32c_generic dm_multipath dm_service_time"
readonly TOOLS="iscsid iscsiadm mkfs.ext4 fsck.ext4 sync dd udevadm dmsetup fio"

package=$(guest_package target/judges/kernel_alua)
[ -x "$MULTIPATH/sbin/multipathd" ] || { echo "guest: no multipath-tools in $MULTIPATH; run judges/setup.sh" >&2; exit 2; }
mkdir -p target/judges
exec 9>target/judges/guest.lock
flock 9
# shellcheck disable=SC2086 # lists of words
guest_needs busybox cpio dpkg modprobe depmod $TOOLS
! guest_fresh "$OUT/initramfs" judges/guest/{build_cluster.sh,parts.sh,begin,cluster} "$package" || exit 0

rm -rf "$OUT"; mkdir -p "$OUT/kernel" "$OUT/root"
root=$OUT/root
release=$(guest_kernel "$package" "$OUT/kernel")
cp "$OUT/kernel/vmlinuz" "$OUT/vmlinuz"
guest_tree "$root"
cp judges/guest/begin "$root/begin"
cp judges/guest/cluster "$root/cluster"; chmod 755 "$root/cluster"
# shellcheck disable=SC2086 # lists of words
{ guest_modules "$root" "$OUT/kernel" "$release" $MODULES; guest_tools "$root" $TOOLS; }
# udevd is udevadm by another name; rules of device-mapper wake the ones that wait for a device.
ln -s udevadm "$root/sbin/systemd-udevd"
mkdir -p "$root/lib/udev/rules.d" "$root/lib/multipath"
PATH=/lib/udev:$PATH guest_tools "$root" scsi_id
cp /lib/udev/rules.d/55-dm.rules /lib/udev/rules.d/95-dm-notify.rules "$root/lib/udev/rules.d/"
cp "$MULTIPATH"/lib/multipath/*.so "$root/lib/multipath/"
cp -L "$MULTIPATH"/lib/lib*.so.0 "$root/lib/"
PATH=$PWD/$MULTIPATH/sbin:$PATH LD_LIBRARY_PATH=$PWD/$MULTIPATH/lib guest_tools "$root" multipathd multipath
guest_initramfs "$root" "$OUT/initramfs.new"
rm -rf "$OUT/kernel" "$root"
mv "$OUT/initramfs.new" "$OUT/initramfs"
echo "guest: kernel $release with multipath-tools, initramfs $(du -h "$OUT/initramfs" | cut -f 1)"
