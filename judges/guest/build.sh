#!/usr/bin/env bash
# Builds the guest: Debian's kernel and an initramfs of busybox, the iSCSI initiator's modules and tools and ext4's.
# Rebuilds only what changed. Result: target/judges/guest/vmlinuz and initramfs.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=judges/guest/parts.sh
. judges/guest/parts.sh

readonly OUT=target/judges/guest
readonly MODULES="virtio_pci virtio_net sd_mod iscsi_tcp ext4 crc32c_generic"
readonly TOOLS="iscsid iscsiadm iscsistart mkfs.ext4 fsck.ext4 fstrim resize2fs sfdisk partx sync dd"
# The lives that it can have: init, or what rdinit= on the kernel's command line names.
readonly LIVES="init write_cache growth newcomer node"

package=$(guest_package target/judges/kernel)
# Judges that run at once share the guest: the second one waits until it is there.
mkdir -p target/judges
exec 9>target/judges/guest.lock
flock 9
# shellcheck disable=SC2086 # lists of words
guest_needs busybox cpio dpkg modprobe depmod $TOOLS
! guest_fresh "$OUT/initramfs" judges/guest/{build.sh,parts.sh,begin,init,write_cache,growth,newcomer,node} "$package" || exit 0

rm -rf "$OUT"; mkdir -p "$OUT/kernel" "$OUT/root"
release=$(guest_kernel "$package" "$OUT/kernel")
cp "$OUT/kernel/vmlinuz" "$OUT/vmlinuz"
guest_tree "$OUT/root"
cp judges/guest/begin "$OUT/root/begin"
for life in $LIVES; do cp "judges/guest/$life" "$OUT/root/$life"; chmod 755 "$OUT/root/$life"; done
# shellcheck disable=SC2086 # lists of words
{ guest_modules "$OUT/root" "$OUT/kernel" "$release" $MODULES; guest_tools "$OUT/root" $TOOLS; }
guest_initramfs "$OUT/root" "$OUT/initramfs.new"
rm -rf "$OUT/kernel" "$OUT/root"
mv "$OUT/initramfs.new" "$OUT/initramfs"
echo "guest: kernel $release, initramfs $(du -h "$OUT/initramfs" | cut -f 1)"
