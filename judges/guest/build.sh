#!/usr/bin/env bash
# Builds the guest: Debian's kernel and an initramfs of busybox, the iSCSI initiator's modules and tools and ext4's.
# Needs no root and installs nothing; the kernel package comes from judges/setup.sh (target/judges/kernel).
# Rebuilds only what changed. Result: target/judges/guest/vmlinuz and initramfs.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin:/sbin

readonly OUT=target/judges/guest
readonly MODULES="virtio_pci virtio_net sd_mod iscsi_tcp ext4 crc32c_generic"
readonly TOOLS="iscsid iscsiadm mkfs.ext4 fsck.ext4 fstrim"

package=$(find target/judges/kernel -name 'linux-image-*.deb' 2>/dev/null | sort -V | tail -n 1)
[ -n "$package" ] || { echo "guest: no kernel package in target/judges/kernel; run judges/setup.sh" >&2; exit 2; }
for tool in busybox cpio dpkg modprobe depmod $TOOLS; do
  command -v "$tool" >/dev/null || { echo "guest: $tool is missing; run judges/setup.sh" >&2; exit 2; }
done

stamp=$OUT/initramfs
if [ -s "$stamp" ] && [ "$stamp" -nt judges/guest/init ] && [ "$stamp" -nt judges/guest/build.sh ] && [ "$stamp" -nt "$package" ]; then
  exit 0
fi

rm -rf "$OUT"; mkdir -p "$OUT/kernel" "$OUT/root"
dpkg -x "$package" "$OUT/kernel"
release=$(ls "$OUT/kernel/lib/modules")
depmod -b "$OUT/kernel" "$release"
cp "$OUT/kernel/boot/vmlinuz-$release" "$OUT/vmlinuz"

root=$OUT/root
mkdir -p "$root"/{bin,sbin,dev,proc,sys,run,tmp,mnt,etc/iscsi,var/lib/iscsi,lib/modules}
cp "$(command -v busybox)" "$root/bin/busybox"
cp judges/guest/init "$root/init"; chmod 755 "$root/init"
echo "root:x:0:0:root:/:/bin/sh" >"$root/etc/passwd"

# Modules in the order in which they load, each once.
for module in $MODULES; do
  modprobe -d "$PWD/$OUT/kernel" -S "$release" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
  cp "$file" "$root/lib/modules/"; basename "$file"
done >"$root/lib/modules/order"

# Tools, and the libraries they are linked with at the paths where the loader looks for them.
for tool in $TOOLS; do
  path=$(command -v "$tool"); cp -L "$path" "$root/sbin/$tool"
  ldd "$path" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"; cp -Ln "$library" "$root$library"
  done
done

(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$OUT/initramfs.new"
rm -rf "$OUT/kernel" "$OUT/root"
mv "$OUT/initramfs.new" "$stamp"
echo "guest: kernel $release, initramfs $(du -h "$stamp" | cut -f 1)"
